//! Look-ups: addresses to frames, and whether the server is well.

use std::time::Duration;

use super::error::ClientError;
use super::retry::{Patience, Repetition};
use super::transport::Client;
use crate::symbolize::{COMPACT_MEDIA_TYPE, CompactAnswer, SymbolizeAnswer, SymbolizeRequest};

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether it serves requests.
    pub is_ready: bool,
    /// Its words.
    pub detail: String,
    /// Its `Server` header, which names program and version.
    pub program: Option<String>,
}

impl Client {
    /// The frames at a batch of addresses.
    ///
    /// # Errors
    /// If the request is refused, or the server is busy or cannot be reached. A module or address
    /// that cannot be resolved is no error, it is in the answer.
    pub async fn symbolize(
        &self,
        request: &SymbolizeRequest,
    ) -> Result<SymbolizeAnswer, ClientError> {
        let patience = self.symbolize_patience(request);
        self.post("symbolize", request, patience).await
    }

    /// The same in the form for programs: a few MB for 50,000 addresses, not tens.
    ///
    /// # Errors
    /// As of [`Client::symbolize`].
    pub async fn symbolize_compact(
        &self,
        request: &SymbolizeRequest,
    ) -> Result<CompactAnswer, ClientError> {
        let patience = self.symbolize_patience(request);
        self.post_accepting("symbolize", request, (COMPACT_MEDIA_TYPE, patience))
            .await
    }

    fn symbolize_patience(&self, request: &SymbolizeRequest) -> Patience {
        let waits = Duration::from_secs(request.wait_seconds.into());
        // Parts with one profile ID count once, however often they come.
        let repetition = if request.observe && request.profile_id.is_none() {
            Repetition::CountsAgain
        } else {
            Repetition::Idempotent
        };
        Patience {
            timeout: self.answer_timeout.saturating_add(waits),
            repetition,
        }
    }

    /// Whether the server is ready to serve, by `/readyz`.
    ///
    /// # Errors
    /// If it cannot be reached.
    pub async fn health(&self) -> Result<Health, ClientError> {
        let (status, headers, body) = self.text("readyz").await?;
        let program = headers.get(reqwest::header::SERVER);
        Ok(Health {
            is_ready: status.is_success(),
            detail: body.trim().to_owned(),
            program: program
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned),
        })
    }
}
