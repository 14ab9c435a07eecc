//! The ledger: which build IDs have no symbols, and ignoring one.

use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;

use super::error::ClientError;
use super::retry::{Patience, Repetition};
use super::transport::{AttemptError, Client};
use crate::observe::{
    IgnoreRequest, IgnoredBuildId, IgnoredBuildIdList, IgnoredEntry, ObserveAnswer, ObserveRequest,
    UnknownBuildId, UnknownBuildIdList,
};

/// Which build IDs without symbols are wanted; all without a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownFilter {
    /// Only those that this service sent.
    pub service: Option<String>,
    /// Only those that this version sent.
    pub version: Option<String>,
    /// Only those that were sent from here.
    pub deployment: Option<String>,
}

/// Build IDs in a page.
const PAGE_ENTRIES: &str = "1000";

impl Client {
    /// Counts a profile that arrived, and says which of its modules have symbols.
    ///
    /// # Errors
    /// If the request is refused, or the server is busy or cannot be reached.
    pub async fn observe(&self, request: &ObserveRequest) -> Result<ObserveAnswer, ClientError> {
        // Parts with one profile ID count once, however often they come.
        let repetition = if request.observe && request.profile_id.is_none() {
            Repetition::CountsAgain
        } else {
            Repetition::Idempotent
        };
        let patience = Patience {
            timeout: self.answer_timeout,
            repetition,
        };
        self.post("observe", request, patience).await
    }

    /// All build IDs without symbols that are not ignored, page after page.
    ///
    /// # Errors
    /// If the server is busy or cannot be reached.
    pub async fn unknown_build_ids(
        &self,
        filter: &UnknownFilter,
    ) -> Result<Vec<UnknownBuildId>, ClientError> {
        let mut all = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let pairs = [
                ("service", &filter.service),
                ("version", &filter.version),
                ("deployment", &filter.deployment),
                ("after", &after),
            ];
            let given = pairs
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.as_deref()?)));
            let asked = [("status", "unknown"), ("limit", PAGE_ENTRIES)];
            let page: UnknownBuildIdList = self.page(asked.into_iter().chain(given)).await?;
            all.extend(page.build_ids);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// All build IDs that are ignored by a decision, page after page.
    ///
    /// # Errors
    /// If the server is busy or cannot be reached.
    pub async fn ignored_build_ids(&self) -> Result<Vec<IgnoredEntry>, ClientError> {
        let mut all = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let asked = [("status", "ignored"), ("limit", PAGE_ENTRIES)];
            let given = after.iter().map(|after| ("after", after.as_str()));
            let page: IgnoredBuildIdList = self.page(asked.into_iter().chain(given)).await?;
            all.extend(page.build_ids);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// What is known of one GNU build ID without symbols; `None` when no profile had it lately, or it
    /// has symbols.
    ///
    /// # Errors
    /// If the server is busy or cannot be reached.
    pub async fn unknown_build_id(
        &self,
        build_id: &str,
    ) -> Result<Option<UnknownBuildId>, ClientError> {
        let asked = [("status", "unknown"), ("build_id", build_id)];
        let page: UnknownBuildIdList = self.page(asked).await?;
        Ok(page.build_ids.into_iter().next())
    }

    /// Ignores a GNU build ID, with a reason.
    ///
    /// # Errors
    /// If the server refuses it, is busy or cannot be reached.
    pub async fn ignore(
        &self,
        build_id: &str,
        reason: &str,
    ) -> Result<IgnoredBuildId, ClientError> {
        let body = IgnoreRequest {
            reason: reason.to_owned(),
        };
        let url = self.url(&format!("build-ids/{build_id}/ignored"))?;
        let answer = self
            .repeat(Repetition::Idempotent, || async {
                let request = self.request(Method::PUT, url.clone()).json(&body);
                let request = request.timeout(self.answer_timeout);
                request.send().await.map_err(AttemptError::Send)
            })
            .await?;
        let answer = self.accepted(answer).await?;
        self.json(answer).await
    }

    /// Ignores a GNU build ID no longer, and says whether it was ignored.
    ///
    /// # Errors
    /// If the server refuses it, is busy or cannot be reached.
    pub async fn stop_ignoring(&self, build_id: &str) -> Result<bool, ClientError> {
        let url = self.url(&format!("build-ids/{build_id}/ignored"))?;
        let answer = self
            .repeat(Repetition::Idempotent, || async {
                let request = self.request(Method::DELETE, url.clone());
                let request = request.timeout(self.answer_timeout);
                request.send().await.map_err(AttemptError::Send)
            })
            .await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        self.accepted(answer).await?;
        Ok(true)
    }

    async fn page<T: DeserializeOwned>(
        &self,
        pairs: impl IntoIterator<Item = (&str, &str)>,
    ) -> Result<T, ClientError> {
        let mut url = self.url("build-ids")?;
        url.query_pairs_mut().extend_pairs(pairs);
        let page = self.get(url.as_str()).await?;
        page.ok_or_else(|| self.answer_error("404, although the list is always there"))
    }
}
