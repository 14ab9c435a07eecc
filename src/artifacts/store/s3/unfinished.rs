//! Uploads in parts whose server died: found by a listing, page by page, and aborted.

use std::time::SystemTime;

use aws_sdk_s3::operation::list_multipart_uploads::ListMultipartUploadsOutput;

use super::bucket::{Bucket, strange};
use super::failure::Failure;
use super::listing::{self, Behind};
use super::upload::Begun;
use crate::artifacts::store::{ObjectKey, StoreError};
use crate::metrics::S3Repeat;

/// An upload in parts that was begun.
#[derive(Debug)]
struct Unfinished {
    key: ObjectKey,
    id: String,
    begun: SystemTime,
}

/// Where a page begins: behind this key, and behind this upload of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Marker {
    key: String,
    id: Option<String>,
}

impl Bucket {
    /// Aborts uploads that were begun before `before`, and says how many.
    pub(super) async fn abort_begun_before(&self, before: SystemTime) -> Result<u64, StoreError> {
        let (mut aborted, mut marker) = (0, None);
        loop {
            let (uploads, behind) = self.unfinished(marker).await?;
            for upload in uploads.iter().filter(|upload| upload.begun < before) {
                let stale = Begun {
                    bucket: self,
                    key: &upload.key,
                    id: upload.id.clone(),
                };
                aborted += u64::from(stale.abort().await);
            }
            marker = behind.page();
            if marker.is_none() {
                return Ok(aborted);
            }
        }
    }

    /// A page of the uploads, and what is behind it.
    async fn unfinished(
        &self,
        after: Option<Marker>,
    ) -> Result<(Vec<Unfinished>, Behind<Marker>), StoreError> {
        let doing = "listing the uploads below";
        let prefix = self.config.url.prefix();
        let (key_marker, id_marker) = after
            .clone()
            .map_or((None, None), |after| (Some(after.key), after.id));
        let list = self
            .client
            .list_multipart_uploads()
            .bucket(self.name())
            .prefix(prefix)
            .set_key_marker(key_marker)
            .set_upload_id_marker(id_marker);
        let attempt = || async {
            let page = Box::pin(list.clone().send()).await.map_err(Failure::from);
            let page = page.map_err(|failure| failure.into_failed(doing, &prefix, self.name()))?;
            let understood = uploads(&page, prefix).zip(behind(&page, after.as_ref()));
            understood.ok_or_else(|| strange(doing, &prefix))
        };
        let whole = self.config.patience.whole;
        self.retries
            .run_within(S3Repeat::ListUploads, whole, attempt)
            .await
    }
}

/// The uploads of a page below `prefix`; `None` when one of them is not understood.
fn uploads(page: &ListMultipartUploadsOutput, prefix: &str) -> Option<Vec<Unfinished>> {
    let mut uploads = Vec::new();
    for upload in page.uploads() {
        // What is no key was not begun by a store.
        let Ok(key) = upload.key()?.strip_prefix(prefix)?.parse() else {
            continue;
        };
        uploads.push(Unfinished {
            key,
            id: upload.upload_id()?.to_owned(),
            begun: listing::time(upload.initiated()?)?,
        });
    }
    Some(uploads)
}

/// What is behind a page that began behind `after`; `None` when that is not understood.
fn behind(page: &ListMultipartUploadsOutput, after: Option<&Marker>) -> Option<Behind<Marker>> {
    if !page.is_truncated()? {
        return Some(Behind::Nothing);
    }
    let next = Marker {
        key: page.next_key_marker()?.to_owned(),
        id: page.next_upload_id_marker().map(str::to_owned),
    };
    // The same page for ever.
    (Some(&next) != after).then_some(Behind::Page(next))
}
