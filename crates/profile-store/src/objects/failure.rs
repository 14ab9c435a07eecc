//! What went wrong with a request, in words that say what to mend, and whether it is a definite answer.
//!
//! Only an S3 server's `NoSuchKey`, or a folder without the file, says that an object is not there. A 404 without that code comes from something
//! in between, and says nothing.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use object_store::path::Path as Key;

/// Codes by which an S3 server says that there is no room.
const FULL: &[&str] = &[
    "507",
    "QuotaExceeded",
    "XMinioStorageFull",
    "InsufficientCapacity",
];

/// What an S3 server or the SDK says, and what whoever runs this has to do about it.
const ADVICE: &[(&str, &str)] = &[
    (
        "NoSuchBucket",
        "the bucket does not exist; make it or correct --s3",
    ),
    ("InvalidAccessKeyId", "the credentials are wrong"),
    ("SignatureDoesNotMatch", "the credentials are wrong"),
    ("InvalidToken", "the credentials are wrong"),
    ("ExpiredToken", "the credentials have run out"),
    ("TokenRefreshRequired", "the credentials have run out"),
    (
        "RequestTimeTooSkewed",
        "the clock of this machine and that of the S3 server differ",
    ),
    (
        "PermanentRedirect",
        "the bucket is in another region; set --s3-region or AWS_REGION",
    ),
    (
        "AuthorizationHeaderMalformed",
        "the bucket is in another region; set --s3-region or AWS_REGION",
    ),
    (
        "redirect without LOCATION",
        "the bucket is in another region; set --s3-region or AWS_REGION",
    ),
    (
        "AccessDenied",
        "access is denied; the credentials need s3:ListBucket of the bucket and s3:GetObject, s3:PutObject and s3:DeleteObject of its objects",
    ),
    (
        "403 Forbidden",
        "access is denied; the credentials need s3:ListBucket of the bucket and s3:GetObject, s3:PutObject and s3:DeleteObject of its objects",
    ),
    (
        "S3 credentials",
        "there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role",
    ),
];

/// A place that cannot hold a table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder cannot be made or used.
    #[error("the folder {} cannot be used", path.display())]
    Folder {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nothing says where the bucket is.
    #[error("no region is known of the bucket; set --s3-region or AWS_REGION")]
    NoRegion,
    /// The settings do not fit together.
    #[error("the settings of the bucket: {0}")]
    Options(String),
    /// The bucket cannot be listed.
    #[error("the bucket cannot be used")]
    Bucket(#[source] ObjectsError),
}

/// A request that did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectsError {
    /// There is definitely no such object.
    #[error("{doing} {key} of {place}: it is not there")]
    Absent {
        /// What was being done.
        doing: &'static str,
        /// With what.
        key: String,
        /// Of which store.
        place: String,
        /// What the store said.
        source: Box<object_store::Error>,
    },
    /// There is no room.
    #[error("{doing} {key} of {place}: there is no room left")]
    Full {
        /// What was being done.
        doing: &'static str,
        /// With what.
        key: String,
        /// Of which store.
        place: String,
        /// What the store said.
        source: Box<object_store::Error>,
    },
    /// Somebody has to mend something.
    #[error("{doing} {key} of {place}: {advice}")]
    Refused {
        /// What was being done.
        doing: &'static str,
        /// With what.
        key: String,
        /// Of which store.
        place: String,
        /// What to do.
        advice: &'static str,
        /// What the store said.
        source: Box<object_store::Error>,
    },
    /// It took too long.
    #[error("{doing} {key} of {place} took longer than {} s", after.as_secs())]
    TooSlow {
        /// What was being done.
        doing: &'static str,
        /// With what.
        key: String,
        /// Of which store.
        place: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// The key is none that a store takes.
    #[error("{key:?} is no key")]
    Key {
        /// The key.
        key: String,
        /// Why.
        source: object_store::path::Error,
    },
    /// Anything else: it may go well the next time.
    #[error("{doing} {key} of {place}")]
    Failed {
        /// What was being done.
        doing: &'static str,
        /// With what.
        key: String,
        /// Of which store.
        place: String,
        /// What the store said, after its own attempts.
        source: Box<object_store::Error>,
    },
}

impl ObjectsError {
    /// Whether the object is definitely not there.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Absent { .. })
    }

    /// Whether the store has no room left.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }
}

/// What is being done, for the message of an error.
#[derive(Debug)]
pub(super) struct Failure<'a> {
    doing: &'static str,
    key: &'a str,
    place: String,
}

impl<'a> Failure<'a> {
    pub(super) fn new(doing: &'static str, key: &'a str, place: &str) -> Self {
        let place = place.to_owned();
        Self { doing, key, place }
    }

    /// The key as the store wants it.
    pub(super) fn key(&self) -> Result<Key, ObjectsError> {
        let key = self.key.to_owned();
        Key::parse(self.key).map_err(|source| ObjectsError::Key { key, source })
    }

    /// The outcome of an operation, which has to be there in time.
    pub(super) async fn within<T>(
        &self,
        after: Duration,
        operation: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, ObjectsError> {
        match tokio::time::timeout(after, operation).await {
            Ok(outcome) => outcome.map_err(|error| self.of(error)),
            Err(_) => Err(ObjectsError::TooSlow {
                doing: self.doing,
                key: self.key.to_owned(),
                place: self.place.clone(),
                after,
            }),
        }
    }

    /// The error for what the store said.
    pub(super) fn of(&self, source: object_store::Error) -> ObjectsError {
        let (doing, key, place) = (self.doing, self.key.to_owned(), self.place.clone());
        let said = chain(&source);
        let (is_absent, is_full) = (is_absence(&source, &said), is_full(&source, &said));
        let source = Box::new(source);
        if is_absent {
            return ObjectsError::Absent {
                doing,
                key,
                place,
                source,
            };
        }
        if is_full {
            return ObjectsError::Full {
                doing,
                key,
                place,
                source,
            };
        }
        let advice = ADVICE.iter().find(|(word, _)| said.contains(word));
        match advice {
            Some(&(_, advice)) => ObjectsError::Refused {
                doing,
                key,
                place,
                advice,
                source,
            },
            None => ObjectsError::Failed {
                doing,
                key,
                place,
                source,
            },
        }
    }
}

/// An S3 server has to say that it is the key that there is not.
fn is_absence(error: &object_store::Error, said: &str) -> bool {
    let is_answer = said.contains("Server returned");
    matches!(error, object_store::Error::NotFound { .. })
        && (!is_answer || said.contains("NoSuchKey"))
}

fn is_full(error: &object_store::Error, said: &str) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(
            kind,
            Some(
                io::ErrorKind::StorageFull
                    | io::ErrorKind::QuotaExceeded
                    | io::ErrorKind::FileTooLarge
            )
        ) {
            return true;
        }
        cause = error.source();
    }
    said.contains("Server returned") && FULL.iter().any(|word| said.contains(word))
}

/// An error and its causes.
fn chain(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        cause = error.source();
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_found(said: &str) -> object_store::Error {
        object_store::Error::NotFound {
            path: "a".to_owned(),
            source: said.to_owned().into(),
        }
    }

    fn generic(said: &str) -> object_store::Error {
        object_store::Error::Generic {
            store: "S3",
            source: said.to_owned().into(),
        }
    }

    fn of(error: object_store::Error) -> ObjectsError {
        Failure::new("reading", "a", "s3://b/").of(error)
    }

    #[test]
    fn only_no_such_key_is_absence() {
        let answer = |body: &str| format!("Server returned non-2xx status code: 404: {body}");
        assert!(of(not_found(&answer("<Code>NoSuchKey</Code>"))).is_absence());
        assert!(of(not_found("No such file or directory")).is_absence());
        assert!(!of(not_found(&answer("<html>no such page"))).is_absence());
        let bucket = of(not_found(&answer("<Code>NoSuchBucket</Code>")));
        assert!(bucket.to_string().contains("make it"), "{bucket}");
        assert!(!of(generic("Server returned 503")).is_absence());
    }

    #[test]
    fn no_room_is_told_from_other_failures() {
        let full = object_store::Error::Generic {
            store: "folder",
            source: Box::new(io::Error::from(io::ErrorKind::StorageFull)),
        };
        assert!(of(full).is_full());
        assert!(of(generic("Server returned 403: <Code>QuotaExceeded</Code>")).is_full());
        assert!(!of(generic("connection reset by 507.example")).is_full());
    }

    #[test]
    fn what_somebody_must_mend_says_what_to_do() {
        for (said, word) in [
            (
                "Server returned 403: <Code>AccessDenied</Code>",
                "s3:PutObject",
            ),
            (
                "Server returned 403: <Code>InvalidAccessKeyId</Code>",
                "wrong",
            ),
            (
                "Server returned 403: <Code>RequestTimeTooSkewed</Code>",
                "clock",
            ),
            ("Received redirect without LOCATION", "AWS_REGION"),
        ] {
            let error = of(generic(said)).to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
