//! The address of a bucket and of the prefix that all keys have in it.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// `s3://BUCKET/PREFIX`: the prefix may be empty, and ends in `/` otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct S3Url {
    bucket: String,
    prefix: String,
}

/// A text that is no [`S3Url`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no s3://BUCKET/PREFIX: the bucket has letters, digits, '.', '-' and '_', the prefix \
     consists of parts of letters, digits, '.', '-', '_' and '=', joined by '/'"
)]
pub struct ParseS3UrlError(pub String);

impl S3Url {
    /// The bucket's name.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// What stands before every key: empty, or ending in `/`.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl FromStr for S3Url {
    type Err = ParseS3UrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let rest = text.strip_prefix("s3://")?;
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let prefix = prefix.trim_end_matches('/');
            let is_word = |part: &str, more: &[u8]| {
                let mut bytes = part.bytes();
                !part.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
            };
            let is_part =
                |part: &str| is_word(part, b".-_=") && !part.bytes().all(|byte| byte == b'.');
            let sound = is_word(bucket, b".-_")
                && bucket.len() <= BUCKET_BYTES_MAX
                && prefix.len() <= PREFIX_BYTES_MAX
                && (prefix.is_empty() || prefix.split('/').all(is_part));
            let prefix = if prefix.is_empty() {
                String::new()
            } else {
                format!("{prefix}/")
            };
            sound.then(|| Self {
                bucket: bucket.to_owned(),
                prefix,
            })
        };
        parse().ok_or_else(|| ParseS3UrlError(text.to_owned()))
    }
}

/// Longest name of a bucket; AWS allows 63, older Ceph 255.
const BUCKET_BYTES_MAX: usize = 255;

/// Longest prefix: S3 allows keys of 1,024 bytes, and ours have up to 512.
const PREFIX_BYTES_MAX: usize = 500;

impl TryFrom<String> for S3Url {
    type Error = ParseS3UrlError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for S3Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_with_and_without_a_prefix_and_shown_with_a_slash() {
        for (text, bucket, prefix) in [
            ("s3://b", "b", ""),
            ("s3://b/", "b", ""),
            ("s3://my-bucket.x/a/b=c", "my-bucket.x", "a/b=c/"),
            ("s3://b/a/", "b", "a/"),
        ] {
            let url: S3Url = text.parse().unwrap();
            assert_eq!((url.bucket(), url.prefix()), (bucket, prefix), "{text}");
            assert_eq!(url.to_string().parse(), Ok(url));
        }
        for text in [
            "b/a",
            "s3://",
            "s3:///a",
            "s3://b//a",
            "s3://b/../a",
            "s3://b/a b",
            "s3://b@c/a",
            "https://b/a",
        ] {
            let error = text.parse::<S3Url>().unwrap_err().to_string();
            assert!(error.contains("s3://BUCKET/PREFIX"), "{error}");
        }
    }
}
