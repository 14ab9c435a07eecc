//! What flags, variables and the file may each say of the bucket.

use serde::Deserialize;

use crate::objects::{S3Addressing, S3Encryption, S3Options, S3Url};

/// What may be said of the bucket; in the file under `[s3]`.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct S3Settings {
    /// Keep the table in a bucket, under a prefix of keys; in the file `url` under `[s3]`.
    ///
    /// `--data` then has temporary files only. Credentials come from the usual `AWS_*` variables,
    /// profiles, web identity (IRSA), or the role of the container or machine.
    #[arg(
        long = "s3",
        env = "UNHEX_STORE_S3",
        value_name = "s3://BUCKET/PREFIX",
        help_heading = "S3"
    )]
    #[serde(rename = "url")]
    pub s3_url: Option<S3Url>,
    /// The S3 server, for others than AWS: Ceph, `MinIO`, Garage [default: `AWS_ENDPOINT_URL`, else AWS].
    #[arg(
        long,
        env = "UNHEX_STORE_S3_ENDPOINT",
        value_name = "URL",
        help_heading = "S3"
    )]
    #[serde(rename = "endpoint")]
    pub s3_endpoint: Option<String>,
    /// The bucket's region [default: `AWS_REGION` or the profile's, else us-east-1 with an endpoint].
    #[arg(
        long,
        env = "UNHEX_STORE_S3_REGION",
        value_name = "REGION",
        help_heading = "S3",
        hide_short_help = true
    )]
    #[serde(rename = "region")]
    pub s3_region: Option<String>,
    /// Where the bucket's name stands [default: path with an endpoint, else host].
    #[arg(
        long,
        env = "UNHEX_STORE_S3_ADDRESSING",
        value_name = "STYLE",
        help_heading = "S3",
        hide_short_help = true
    )]
    #[serde(rename = "addressing")]
    pub s3_addressing: Option<S3Addressing>,
    /// Encryption that is asked for with every object [default: what the bucket is set to].
    #[arg(
        long,
        env = "UNHEX_STORE_S3_ENCRYPTION",
        value_name = "KIND",
        help_heading = "S3",
        hide_short_help = true
    )]
    #[serde(rename = "encryption")]
    pub s3_encryption: Option<S3Encryption>,
    /// The key for `--s3-encryption kms` [default: the account's key for S3].
    #[arg(
        long,
        env = "UNHEX_STORE_S3_KMS_KEY",
        value_name = "KEY",
        help_heading = "S3",
        hide_short_help = true
    )]
    #[serde(rename = "kms_key")]
    pub s3_kms_key: Option<String>,
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
        }
    }

    /// The bucket, if one was named.
    pub(super) fn resolve(self) -> Option<S3Options> {
        Some(S3Options {
            endpoint: self.s3_endpoint,
            region: self.s3_region,
            addressing: self.s3_addressing,
            encryption: self.s3_encryption,
            kms_key: self.s3_kms_key,
            ..S3Options::new(self.s3_url?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_the_bucket_under_s3_and_a_flag_wins() {
        let file: S3Settings =
            toml::from_str("url = 's3://b/p'\nendpoint = 'http://h'\nencryption = 'kms'").unwrap();
        let flags = S3Settings {
            s3_endpoint: Some("http://i".to_owned()),
            ..S3Settings::default()
        };
        let options = flags.over(file).resolve().unwrap();
        assert_eq!(options.url.to_string(), "s3://b/p/");
        assert_eq!(options.endpoint.as_deref(), Some("http://i"));
        assert_eq!(options.encryption, Some(S3Encryption::Kms));
        assert!(toml::from_str::<S3Settings>("bucket = 'b'").is_err());
        assert!(S3Settings::default().resolve().is_none());
    }
}
