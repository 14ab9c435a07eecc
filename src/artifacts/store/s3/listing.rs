//! Listings of a bucket, page by page.
//!
//! Buckets are listed in byte order of their keys (AWS's directory buckets are not, and cannot be
//! used). Where a page begins is said by the last key seen, never by a token that somebody keeps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::primitives::DateTime;

use super::bucket::Bucket;
use super::failure::Failure;
use crate::artifacts::store::{ListQuery, ObjectEntry, ObjectKey, StoreError};

/// The character behind `/`: where the keys of a folder end.
const BEHIND_SLASH: char = '0';

/// What a page is asked for.
struct PageQuery<'a> {
    prefix: &'a str,
    after: Option<String>,
    delimiter: Option<&'static str>,
    entries_max: usize,
    token: Option<String>,
}

impl Bucket {
    /// Objects in byte order of their keys: one page.
    pub(super) async fn list(&self, query: &ListQuery) -> Result<Vec<ObjectEntry>, StoreError> {
        let prefix = self.config.url.prefix();
        let mut entries = Vec::new();
        let mut token = None;
        while entries.len() < query.entries_max {
            let page = self
                .page(PageQuery {
                    prefix: &query.prefix,
                    after: query.after.clone(),
                    delimiter: None,
                    entries_max: query.entries_max.saturating_sub(entries.len()),
                    token: token.take(),
                })
                .await?;
            // Anything that is no key was not put by a store.
            entries.extend(page.contents().iter().filter_map(|object| {
                let key = object.key()?.strip_prefix(prefix)?;
                Some(ObjectEntry {
                    key: key.parse::<ObjectKey>().ok()?,
                    size_bytes: u64::try_from(object.size()?).ok()?,
                    modified: time(object.last_modified()?)?,
                })
            }));
            token = page.next_continuation_token;
            if token.is_none() {
                break;
            }
        }
        Ok(entries)
    }

    /// The names of the folders directly under a prefix: one page.
    pub(super) async fn list_folders(&self, query: &ListQuery) -> Result<Vec<String>, StoreError> {
        let prefix = self.config.url.prefix();
        // Behind all keys of that folder: a key of it would bring the folder itself once more.
        let after = query
            .after
            .as_deref()
            .map(|after| match after.strip_suffix('/') {
                Some(folder) => format!("{folder}{BEHIND_SLASH}"),
                None => after.to_owned(),
            });
        let mut names = Vec::new();
        let mut token = None;
        while names.len() < query.entries_max {
            let page = self
                .page(PageQuery {
                    prefix: &query.prefix,
                    after: after.clone(),
                    delimiter: Some("/"),
                    entries_max: query.entries_max.saturating_sub(names.len()),
                    token: token.take(),
                })
                .await?;
            names.extend(page.common_prefixes().iter().filter_map(|common| {
                let folder = common.prefix()?.strip_prefix(prefix)?;
                let name = folder.strip_prefix(query.prefix.as_str())?;
                Some(name.strip_suffix('/')?.to_owned())
            }));
            token = page.next_continuation_token;
            if token.is_none() {
                break;
            }
        }
        Ok(names)
    }

    /// Whether the bucket can be listed now.
    pub(super) async fn check(&self) -> Result<(), StoreError> {
        let query = PageQuery {
            prefix: "",
            after: None,
            delimiter: None,
            entries_max: 1,
            token: None,
        };
        self.page(query).await.map(drop)
    }

    async fn page(&self, query: PageQuery<'_>) -> Result<ListObjectsV2Output, StoreError> {
        let own = self.config.url.prefix();
        let prefix = format!("{own}{}", query.prefix);
        let list = self
            .client
            .list_objects_v2()
            .bucket(self.name())
            .prefix(&prefix)
            .set_start_after(query.after.map(|after| format!("{own}{after}")))
            .set_delimiter(query.delimiter.map(str::to_owned))
            .max_keys(i32::try_from(query.entries_max).unwrap_or(i32::MAX))
            .set_continuation_token(query.token);
        let attempt = || async {
            let page = Box::pin(list.clone().send()).await.map_err(Failure::from);
            page.map_err(|failure| failure.into_failed("listing", &prefix, self.name()))
        };
        self.retries.run(attempt).await
    }
}

/// A time of the server; before 1970 nothing was put.
pub(super) fn time(time: &DateTime) -> Option<SystemTime> {
    let seconds = u64::try_from(time.secs()).ok()?;
    UNIX_EPOCH.checked_add(Duration::new(seconds, time.subsec_nanos()))
}
