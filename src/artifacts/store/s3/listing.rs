//! Listings of a bucket, page by page.
//!
//! Buckets are listed in byte order of their keys (AWS's directory buckets are not, and cannot be
//! used). Where a page begins is said by the last key seen, never by a token that somebody keeps.
//! An entry without what every server says of an object is an answer that is not understood: leaving
//! it out would make the object absent.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::primitives::DateTime;

use super::bucket::{Bucket, strange};
use super::failure::Failure;
use crate::artifacts::store::{ListQuery, ObjectEntry, ObjectKey, StoreError};
use crate::metrics::S3Repeat;

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

/// A page that was understood.
struct Page<T> {
    found: Vec<T>,
    /// What the next page is asked for with, if there is one.
    next: Option<String>,
}

/// What is behind a page of a listing.
#[derive(Clone, Debug)]
pub(super) enum Behind<T> {
    Nothing,
    /// Another page, and what it is asked for with.
    Page(T),
}

impl<T> Behind<T> {
    /// What the next page is asked for with, if there is one.
    pub(super) fn page(self) -> Option<T> {
        match self {
            Self::Nothing => None,
            Self::Page(with) => Some(with),
        }
    }
}

impl Bucket {
    /// Objects in byte order of their keys: one page.
    pub(super) async fn list(&self, query: &ListQuery) -> Result<Vec<ObjectEntry>, StoreError> {
        let own = self.config.url.prefix();
        let (mut entries, mut token) = (Vec::new(), None);
        while entries.len() < query.entries_max {
            let query = PageQuery {
                prefix: &query.prefix,
                after: query.after.clone(),
                delimiter: None,
                entries_max: query.entries_max.saturating_sub(entries.len()),
                token,
            };
            let page = self.page(query, |page| objects(page, own)).await?;
            entries.extend(page.found);
            token = page.next;
            if token.is_none() {
                break;
            }
        }
        Ok(entries)
    }

    /// The names of the folders directly under a prefix: one page.
    pub(super) async fn list_folders(&self, query: &ListQuery) -> Result<Vec<String>, StoreError> {
        let prefix = format!("{}{}", self.config.url.prefix(), query.prefix);
        // Behind all keys of that folder: a key of it would bring the folder itself once more.
        let after = query
            .after
            .as_deref()
            .map(|after| match after.strip_suffix('/') {
                Some(folder) => format!("{folder}{BEHIND_SLASH}"),
                None => after.to_owned(),
            });
        let (mut names, mut token) = (Vec::new(), None);
        while names.len() < query.entries_max {
            let query = PageQuery {
                prefix: &query.prefix,
                after: after.clone(),
                delimiter: Some("/"),
                entries_max: query.entries_max.saturating_sub(names.len()),
                token,
            };
            let page = self.page(query, |page| folders(page, &prefix)).await?;
            names.extend(page.found);
            token = page.next;
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
        let own = self.config.url.prefix();
        self.page(query, |page| objects(page, own)).await.map(drop)
    }

    /// One page, of which `read` understands what it lists, or not.
    async fn page<T>(
        &self,
        query: PageQuery<'_>,
        read: impl Fn(&ListObjectsV2Output) -> Option<Vec<T>>,
    ) -> Result<Page<T>, StoreError> {
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
            .set_continuation_token(query.token.clone());
        let (read, token) = (&read, query.token.as_deref());
        let attempt = || async {
            let page = Box::pin(list.clone().send()).await.map_err(Failure::from);
            let page =
                page.map_err(|failure| failure.into_failed("listing", &prefix, self.name()))?;
            let understood = read(&page).zip(behind(&page, token));
            let (found, behind) = understood.ok_or_else(|| strange("listing", &prefix))?;
            let next = behind.page();
            Ok(Page { found, next })
        };
        let whole = self.config.patience.whole;
        self.retries
            .run_within(S3Repeat::ListObjects, whole, attempt)
            .await
    }
}

/// The objects of a page below `prefix`; `None` when one of them is not understood.
fn objects(page: &ListObjectsV2Output, prefix: &str) -> Option<Vec<ObjectEntry>> {
    let mut entries = Vec::new();
    for object in page.contents() {
        // What is no key was not put by a store.
        let Ok(key) = object.key()?.strip_prefix(prefix)?.parse::<ObjectKey>() else {
            continue;
        };
        entries.push(ObjectEntry {
            key,
            size_bytes: u64::try_from(object.size()?).ok()?,
            modified: time(object.last_modified()?)?,
        });
    }
    Some(entries)
}

/// The names of a page's folders below `prefix`; `None` when one of them is not understood.
fn folders(page: &ListObjectsV2Output, prefix: &str) -> Option<Vec<String>> {
    let names = page.common_prefixes().iter().map(|common| {
        let name = common.prefix()?.strip_prefix(prefix)?;
        Some(name.strip_suffix('/')?.to_owned())
    });
    names.collect()
}

/// What is behind a page that was asked for with a token; `None` when that is not understood.
fn behind(page: &ListObjectsV2Output, token: Option<&str>) -> Option<Behind<String>> {
    if !page.is_truncated()? {
        return Some(Behind::Nothing);
    }
    let next = page.next_continuation_token()?;
    // The same page for ever.
    (Some(next) != token).then(|| Behind::Page(next.to_owned()))
}

/// A time of the server; before 1970 nothing was put.
pub(super) fn time(time: &DateTime) -> Option<SystemTime> {
    let seconds = u64::try_from(time.secs()).ok()?;
    UNIX_EPOCH.checked_add(Duration::new(seconds, time.subsec_nanos()))
}
