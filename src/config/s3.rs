//! Where the bucket is that holds everything, and how it is spoken to.
//!
//! Credentials, and the region and endpoint where no flag says them, come from where every AWS tool
//! takes them: variables, profiles, web identity (IRSA), the container or the machine.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;

/// What flags, variables and the file may each say of the bucket; in the file under `[s3]`.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct S3Settings {
    /// Keep everything in a bucket, under a prefix of keys; in the file `url` under `[s3]`.
    ///
    /// `--data` is then a cache and a place for files on their way. Credentials come from the usual
    /// `AWS_*` variables, profiles, web identity (IRSA), or the role of the container or machine.
    #[arg(
        long = "s3",
        env = "UNHEX_S3",
        value_name = "s3://BUCKET/PREFIX",
        help_heading = "S3"
    )]
    #[serde(rename = "url")]
    pub s3_url: Option<S3Url>,
    /// The S3 server, for others than AWS: Ceph, `MinIO`, Garage [default: `AWS_ENDPOINT_URL`, else AWS].
    #[arg(
        long,
        env = "UNHEX_S3_ENDPOINT",
        value_name = "URL",
        help_heading = "S3"
    )]
    #[serde(rename = "endpoint")]
    pub s3_endpoint: Option<String>,
    /// The bucket's region [default: `AWS_REGION` or the profile's, else us-east-1 with an endpoint].
    #[arg(
        long,
        env = "UNHEX_S3_REGION",
        value_name = "REGION",
        help_heading = "S3",
        hide_short_help = true
    )]
    #[serde(rename = "region")]
    pub s3_region: Option<String>,
    /// Where the bucket's name stands [default: path with an endpoint, else host].
    #[arg(
        long,
        env = "UNHEX_S3_ADDRESSING",
        value_name = "STYLE",
        help_heading = "S3",
        hide_short_help = true
    )]
    #[serde(rename = "addressing")]
    pub s3_addressing: Option<S3Addressing>,
    /// Encryption that is asked for with every object [default: what the bucket is set to].
    #[arg(
        long,
        env = "UNHEX_S3_ENCRYPTION",
        value_name = "KIND",
        help_heading = "S3",
        hide_short_help = true
    )]
    #[serde(rename = "encryption")]
    pub s3_encryption: Option<S3Encryption>,
    /// The key for `--s3-encryption kms` [default: the account's key for S3].
    #[arg(
        long,
        env = "UNHEX_S3_KMS_KEY",
        value_name = "KEY",
        help_heading = "S3",
        hide_short_help = true
    )]
    #[serde(rename = "kms_key")]
    pub s3_kms_key: Option<String>,
    /// Whether clients may be sent to the bucket with their uploads, by presigned URLs [default:
    /// true, but with `--s3-encryption` false].
    #[arg(
        long,
        env = "UNHEX_S3_DIRECT_UPLOADS",
        value_name = "BOOL",
        help_heading = "S3",
        hide_short_help = true
    )]
    #[serde(rename = "direct_uploads")]
    pub s3_direct_uploads: Option<bool>,
    /// The S3 server as clients reach it, for presigned URLs [default: as this server does].
    #[arg(
        long,
        env = "UNHEX_S3_DIRECT_ENDPOINT",
        value_name = "URL",
        help_heading = "S3",
        hide_short_help = true
    )]
    #[serde(rename = "direct_endpoint")]
    pub s3_direct_endpoint: Option<String>,
}

impl S3Settings {
    /// These settings, and those of `under` where these have none.
    pub(super) fn over(self, under: Self) -> Self {
        Self {
            s3_url: self.s3_url.or(under.s3_url),
            s3_endpoint: self.s3_endpoint.or(under.s3_endpoint),
            s3_region: self.s3_region.or(under.s3_region),
            s3_addressing: self.s3_addressing.or(under.s3_addressing),
            s3_encryption: self.s3_encryption.or(under.s3_encryption),
            s3_kms_key: self.s3_kms_key.or(under.s3_kms_key),
            s3_direct_uploads: self.s3_direct_uploads.or(under.s3_direct_uploads),
            s3_direct_endpoint: self.s3_direct_endpoint.or(under.s3_direct_endpoint),
        }
    }

    /// The bucket, if one was named.
    pub(super) fn resolve(self) -> Option<S3Config> {
        Some(S3Config {
            endpoint: self.s3_endpoint,
            region: self.s3_region,
            addressing: self.s3_addressing,
            encryption: self.s3_encryption,
            kms_key: self.s3_kms_key,
            direct_uploads: self.s3_direct_uploads,
            direct_endpoint: self.s3_direct_endpoint,
            ..S3Config::new(self.s3_url?)
        })
    }
}

/// A bucket, and how it is spoken to.
#[derive(Clone, Debug)]
pub struct S3Config {
    /// The bucket and the prefix of all keys in it.
    pub url: S3Url,
    /// The S3 server, if it is to be another than the environment says.
    pub endpoint: Option<String>,
    /// The region, if it is to be another than the environment says.
    pub region: Option<String>,
    /// Where the bucket's name stands in requests.
    pub addressing: Option<S3Addressing>,
    /// Encryption that is asked for.
    pub encryption: Option<S3Encryption>,
    /// The key of that encryption.
    pub kms_key: Option<String>,
    /// Whether uploads may go to the bucket past this server, if anybody said so.
    pub direct_uploads: Option<bool>,
    /// The S3 server as clients reach it, if that is another address.
    pub direct_endpoint: Option<String>,
    /// Who asks; `None` is whoever the environment says.
    pub credentials: Option<S3Credentials>,
    /// How long each step may take.
    pub patience: S3Patience,
}

/// A key and its secret, which is never shown. There is no flag for it: others see flags.
#[derive(Clone)]
pub struct S3Credentials {
    /// The name of the key.
    pub access_key: String,
    /// Its secret.
    pub secret_key: String,
}

impl fmt::Debug for S3Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3Credentials({}, secret)", self.access_key)
    }
}

impl S3Config {
    /// A bucket, and everything else as the environment says.
    pub fn new(url: S3Url) -> Self {
        Self {
            url,
            endpoint: None,
            region: None,
            addressing: None,
            encryption: None,
            kms_key: None,
            direct_uploads: None,
            direct_endpoint: None,
            credentials: None,
            patience: S3Patience::default(),
        }
    }

    /// Whether uploads may go to the bucket past this server. Encryption that is asked for with every
    /// object is a header of every put, which a plain client does not send.
    pub fn offers_direct_uploads(&self) -> bool {
        self.direct_uploads.unwrap_or(self.encryption.is_none())
    }
}

/// How long the steps of a request may take before it is tried again, or given up.
#[derive(Clone, Copy, Debug)]
pub struct S3Patience {
    /// To connect.
    pub connect: Duration,
    /// From a small request to the headers of its answer; a body may take longer.
    pub answer: Duration,
    /// The same for a request that carries a part of a file.
    pub part: Duration,
    /// Between two pieces of a body.
    pub stall: Duration,
    /// For a read or a small request with all its attempts: no further one begins later. Bodies may
    /// take longer while they come.
    pub whole: Duration,
    /// How often a request or a body is tried.
    pub attempts: u32,
    /// Before the second attempt at most; doubled before each further one.
    pub first_pause: Duration,
}

impl Default for S3Patience {
    fn default() -> Self {
        Self {
            // Within a region it takes milliseconds, to another continent tenths of a second.
            connect: Duration::from_secs(5),
            // Servers answer in tenths of a second; a listing of a thousand keys takes one.
            answer: Duration::from_secs(10),
            // 16 MiB at 140 KB/s.
            part: Duration::from_mins(2),
            // Servers that are alive send something every few milliseconds.
            stall: Duration::from_secs(15),
            // Two silent answers and a half: who waits for it has time for another question, and
            // debuginfod clients leave after 90 s.
            whole: Duration::from_secs(25),
            // With doubled pauses some three seconds in which a gateway restarts.
            attempts: 6,
            first_pause: Duration::from_millis(200),
        }
    }
}

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

/// Where the bucket's name stands in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum S3Addressing {
    /// In the path: works without names in DNS.
    Path,
    /// In the host: what AWS wants.
    Host,
}

/// Encryption at rest that is asked for with every object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum S3Encryption {
    /// Keys of the store (`AES256`).
    Aes256,
    /// Keys of KMS (`aws:kms`).
    Kms,
    /// Keys of KMS, twice (`aws:kms:dsse`).
    KmsDsse,
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

    #[test]
    fn the_file_names_the_bucket_under_s3_and_a_flag_wins() {
        let file: S3Settings =
            toml::from_str("url = 's3://b/p'\nendpoint = 'http://h'\nencryption = 'kms'").unwrap();
        let flags = S3Settings {
            s3_endpoint: Some("http://i".to_owned()),
            ..S3Settings::default()
        };
        let config = flags.over(file).resolve().unwrap();
        assert_eq!(config.url.to_string(), "s3://b/p/");
        assert_eq!(config.endpoint.as_deref(), Some("http://i"));
        assert_eq!(config.encryption, Some(S3Encryption::Kms));
        assert!(toml::from_str::<S3Settings>("bucket = 'b'").is_err());
        assert!(S3Settings::default().resolve().is_none());
    }
}
