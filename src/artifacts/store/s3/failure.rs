//! What went wrong with a request, in words that say what to do, and whether it is a definite answer.
//!
//! Only `NoSuchKey` says that an object does not exist. A 404 without that code comes from something
//! in between, and says nothing.

use std::error::Error;
use std::fmt;
use std::io;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::RequestId as _;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;

use super::retry::Failed;
use crate::artifacts::store::StoreError;

/// Codes of what passes, whatever their status.
const PASSING: &[&str] = &[
    "BadDigest",
    "IncompleteBody",
    "InternalError",
    "RequestTimeout",
    "ServiceUnavailable",
    "SlowDown",
    "XAmzContentChecksumMismatch",
    "XAmzContentSHA256Mismatch",
];

/// A request that was not answered with success.
#[derive(Debug)]
pub(super) struct Failure {
    /// The server's word for it, if it answered in S3's form.
    code: Option<String>,
    status: Option<u16>,
    detail: String,
    /// Whether the answer was not S3's, which the SDK takes for the last word.
    is_strange: bool,
}

impl<E> From<SdkError<E, HttpResponse>> for Failure
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    fn from(error: SdkError<E, HttpResponse>) -> Self {
        let status = error.raw_response().map(|answer| answer.status().as_u16());
        let known = error.as_service_error().map(ProvideErrorMetadata::meta);
        let code = known.and_then(|known| known.code()).map(str::to_owned);
        let mut detail = match (status, &code) {
            (Some(status), Some(code)) => format!("{status} {code}"),
            (Some(status), None) => format!("status {status}"),
            (None, _) => chain(&error),
        };
        if let Some(said) = known.and_then(|known| known.message()) {
            detail = format!("{detail}, {said}");
        }
        if let Some(id) = known.and_then(|known| known.request_id()) {
            detail = format!("{detail} (request {id})");
        }
        let strange = matches!(error, SdkError::ResponseError(_));
        if strange {
            detail = chain(&error);
        }
        Self {
            code,
            status,
            detail,
            is_strange: strange,
        }
    }
}

impl Failure {
    /// Whether the object definitely does not exist.
    pub(super) fn is_absence(&self) -> bool {
        self.code.as_deref() == Some("NoSuchKey")
    }

    /// Whether there is an object under the key, which was not to be.
    pub(super) fn is_taken(&self) -> bool {
        self.status == Some(412)
    }

    /// Whether the range that was asked for is behind the object's end.
    pub(super) fn is_beyond(&self) -> bool {
        self.status == Some(416)
    }

    /// Whether the server does not know what it was asked for.
    pub(super) fn is_not_implemented(&self) -> bool {
        self.status == Some(501) || self.code.as_deref() == Some("NotImplemented")
    }

    /// Whether two requests about one key were in each other's way.
    pub(super) fn is_conflict(&self) -> bool {
        self.status == Some(409)
    }

    /// Whether there is no such multipart upload, perhaps because it was completed.
    pub(super) fn is_unknown_upload(&self) -> bool {
        self.code.as_deref() == Some("NoSuchUpload")
    }

    /// The error of the store for a request that the SDK tried once, and whether another attempt may
    /// end better.
    pub(super) fn into_failed_once(
        self,
        doing: &'static str,
        key: &dyn fmt::Display,
        bucket: &str,
    ) -> Failed {
        let passes = self.passes();
        match self.into_error(doing, key, bucket) {
            error @ StoreError::Io { .. } if passes => Failed::ThisTime(error),
            error => Failed::Finally(error),
        }
    }

    /// Whether nothing or nonsense came back, the server has a fault or too much to do, or what it
    /// got was broken on its way.
    fn passes(&self) -> bool {
        let code = self.code.as_deref().unwrap_or_default();
        self.is_strange
            || self.is_conflict()
            || matches!(self.status, None | Some(408 | 429 | 500 | 502..=504))
            || PASSING.contains(&code)
    }

    /// The error of the store after the SDK's own retries, and whether another attempt may end
    /// better.
    pub(super) fn into_failed(
        self,
        doing: &'static str,
        key: &dyn fmt::Display,
        bucket: &str,
    ) -> Failed {
        let passes = self.is_strange || self.is_conflict();
        let error = self.into_error(doing, key, bucket);
        if passes {
            Failed::ThisTime(error)
        } else {
            Failed::Finally(error)
        }
    }

    /// The error of the store, with what to do about it.
    pub(super) fn into_error(
        self,
        doing: &'static str,
        key: &dyn fmt::Display,
        bucket: &str,
    ) -> StoreError {
        let key = key.to_string();
        let detail = &self.detail;
        if self.is_full() {
            let source = io::Error::other(self.detail);
            return StoreError::Full { key, doing, source };
        }
        match self.advice(bucket) {
            Some(advice) => StoreError::Refused {
                key,
                doing,
                detail: format!("{advice}: {detail}"),
            },
            None => StoreError::Io {
                key,
                doing,
                source: io::Error::other(format!("the S3 server does not help: {detail}")),
            },
        }
    }

    fn is_full(&self) -> bool {
        let codes = ["QuotaExceeded", "XMinioStorageFull", "InsufficientCapacity"];
        self.status == Some(507)
            || self
                .code
                .as_deref()
                .is_some_and(|code| codes.contains(&code))
    }

    /// What whoever runs this must mend; `None` for what passes by itself.
    fn advice(&self, bucket: &str) -> Option<String> {
        let advice = match (self.code.as_deref().unwrap_or_default(), self.status) {
            ("NoSuchBucket", _) => {
                format!("the bucket {bucket} does not exist; make it or correct --s3")
            }
            ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken", _) => {
                "the credentials are wrong".to_owned()
            }
            ("ExpiredToken" | "TokenRefreshRequired", _) => {
                "the credentials have run out".to_owned()
            }
            ("RequestTimeTooSkewed", _) => {
                "the clock of this machine and that of the S3 server differ".to_owned()
            }
            (
                "PermanentRedirect"
                | "AuthorizationHeaderMalformed"
                | "IllegalLocationConstraintException",
                _,
            )
            | (_, Some(301 | 307)) => {
                format!("the bucket {bucket} is in another region; set --s3-region or AWS_REGION")
            }
            (code, Some(401 | 403)) if code != "SlowDown" => format!(
                "access to the bucket {bucket} is denied; the credentials need what docs/s3.md lists"
            ),
            ("", None) if self.detail.contains("credentials") => {
                "there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a \
                 profile, or a role"
                    .to_owned()
            }
            _ => return None,
        };
        Some(advice)
    }
}

/// An error and its causes, each once.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut parts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if parts.last().is_none_or(|last| !last.contains(&text)) {
            parts.push(text);
        }
        cause = error.source();
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(status: Option<u16>, code: Option<&str>) -> Failure {
        Failure {
            code: code.map(str::to_owned),
            status,
            detail: "said".to_owned(),
            is_strange: false,
        }
    }

    #[test]
    fn only_no_such_key_is_absence() {
        assert!(failure(Some(404), Some("NoSuchKey")).is_absence());
        for (status, code) in [
            (Some(404), None),
            (Some(404), Some("NoSuchBucket")),
            (Some(403), Some("AccessDenied")),
            (Some(503), Some("SlowDown")),
            (None, None),
        ] {
            assert!(!failure(status, code).is_absence(), "{status:?} {code:?}");
        }
    }

    #[test]
    fn what_is_sent_once_is_sent_again_when_that_may_help() {
        let passes = |status, code| {
            let failed = failure(status, code).into_failed_once("writing", &"a", "b");
            matches!(failed, Failed::ThisTime(_))
        };
        for (status, code) in [
            (None, None),
            (Some(500), Some("InternalError")),
            (Some(503), Some("SlowDown")),
            (Some(504), None),
            (Some(409), Some("ConditionalRequestConflict")),
            (Some(400), Some("RequestTimeout")),
            (Some(400), Some("BadDigest")),
        ] {
            assert!(passes(status, code), "{status:?} {code:?}");
        }
        for (status, code) in [
            (Some(400), Some("EntityTooLarge")),
            (Some(403), Some("AccessDenied")),
            (Some(403), Some("QuotaExceeded")),
            (Some(404), Some("NoSuchUpload")),
            (Some(501), Some("NotImplemented")),
            (Some(507), None),
        ] {
            assert!(!passes(status, code), "{status:?} {code:?}");
        }
    }

    #[test]
    fn what_somebody_must_mend_says_what_to_do() {
        for (status, code, word) in [
            (404, "NoSuchBucket", "make it or correct --s3"),
            (403, "AccessDenied", "docs/s3.md"),
            (403, "InvalidAccessKeyId", "credentials are wrong"),
            (403, "RequestTimeTooSkewed", "clock"),
            (301, "PermanentRedirect", "AWS_REGION"),
        ] {
            let error = failure(Some(status), Some(code)).into_error("reading", &"a", "b");
            assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
            assert!(error.to_string().contains(word), "{error}");
        }
        let passing = failure(Some(503), Some("SlowDown")).into_error("reading", &"a", "b");
        assert!(matches!(passing, StoreError::Io { .. }), "{passing:?}");
        let full = failure(Some(403), Some("QuotaExceeded")).into_error("writing", &"a", "b");
        assert!(matches!(full, StoreError::Full { .. }), "{full:?}");
    }
}
