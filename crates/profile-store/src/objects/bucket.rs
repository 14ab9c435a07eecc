//! The way to an S3 server: who asks, region, endpoint, addressing, and how long each step may take.
//!
//! Credentials, region and endpoint come from where every AWS tool takes them, where no setting says otherwise. An endpoint of one's own means another
//! server than AWS: it gets path-style requests. No checksums are sent beside the signed hash of each body, which old servers know too.

use std::fmt;
use std::time::Duration;

use aws_config::meta::region::RegionProviderChain;
use aws_config::{AppName, BehaviorVersion, Region, SdkConfig};
use aws_types::service_config::ServiceConfigKey;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use serde::Deserialize;

use super::credentials::SdkCredentials;
use super::failure::OpenError;
use super::s3_url::S3Url;

/// What other servers than AWS are told when nobody says a region; they take any.
const REGION_ELSEWHERE: &str = "us-east-1";

/// A bucket, and how it is spoken to.
#[derive(Clone, Debug)]
pub struct S3Options {
    /// The bucket and the prefix of all keys in it.
    pub url: S3Url,
    /// The S3 server, if it is to be another than the environment says.
    pub endpoint: Option<String>,
    /// The region, if it is to be another than the environment says.
    pub region: Option<String>,
    /// Where the bucket's name stands in requests.
    pub addressing: Option<S3Addressing>,
    /// Encryption that is asked for with every object.
    pub encryption: Option<S3Encryption>,
    /// The key of that encryption, for those of KMS.
    pub kms_key: Option<String>,
    /// Who asks; `None` is whoever the environment says.
    pub credentials: Option<S3Credentials>,
    /// How long each step may take.
    pub patience: S3Patience,
}

impl S3Options {
    /// A bucket, and everything else as the environment says.
    pub fn new(url: S3Url) -> Self {
        Self {
            url,
            endpoint: None,
            region: None,
            addressing: None,
            encryption: None,
            kms_key: None,
            credentials: None,
            patience: S3Patience::default(),
        }
    }
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

/// Where the bucket's name stands in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum S3Addressing {
    /// In the path: works without names in DNS.
    Path,
    /// In the host: what AWS wants.
    Host,
}

/// Encryption at rest that is asked for with every object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum S3Encryption {
    /// Keys of the store (`AES256`).
    Aes256,
    /// Keys of KMS (`aws:kms`).
    Kms,
    /// Keys of KMS, twice (`aws:kms:dsse`).
    KmsDsse,
}

impl S3Encryption {
    fn header(self) -> &'static str {
        match self {
            Self::Aes256 => "AES256",
            Self::Kms => "aws:kms",
            Self::KmsDsse => "aws:kms:dsse",
        }
    }
}

/// How long the steps of a request may take before it is tried again, or given up.
#[derive(Clone, Copy, Debug)]
pub struct S3Patience {
    /// To connect.
    pub connect: Duration,
    /// For one attempt, its body included.
    pub attempt: Duration,
    /// For all attempts together, beside the time that the bytes take.
    pub whole: Duration,
    /// How often it is tried again.
    pub retries: usize,
    /// Before the second attempt at most; longer before each further one.
    pub first_pause: Duration,
}

impl Default for S3Patience {
    fn default() -> Self {
        Self {
            // Within a region it takes milliseconds, to another continent tenths of a second.
            connect: Duration::from_secs(5),
            // 32 MiB, the most that goes in one piece, at 1 MB/s.
            attempt: Duration::from_secs(35),
            // Clients of the ingest are gone by then and send again; a query has time for one more attempt.
            whole: Duration::from_mins(1),
            retries: 8,
            first_pause: Duration::from_millis(200),
        }
    }
}

/// A client; nothing is asked yet but where the machine is, if nobody says.
pub(super) async fn connect(options: &S3Options) -> Result<AmazonS3, OpenError> {
    let sdk = load(options).await;
    let endpoint = options.endpoint.clone().or_else(|| endpoint_of(&sdk));
    let region = match (sdk.region(), &endpoint) {
        (Some(region), _) => Some(region.clone()),
        (None, Some(_)) => Some(Region::new(REGION_ELSEWHERE)),
        // The machine may know.
        (None, None) => RegionProviderChain::default_provider().region().await,
    };
    let region = region.ok_or(OpenError::NoRegion)?;
    let is_host_style = match options.addressing {
        Some(addressing) => addressing == S3Addressing::Host,
        // A certificate of *.s3.REGION.amazonaws.com covers one label.
        None => endpoint.is_none() && !options.url.bucket().contains('.'),
    };
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(options.url.bucket())
        .with_region(region.to_string())
        .with_virtual_hosted_style_request(is_host_style)
        .with_client_options(client(&options.patience))
        .with_retry(retries(&options.patience));
    if let Some(provider) = sdk.credentials_provider() {
        builder = builder.with_credentials(SdkCredentials::shared(provider));
    }
    if let Some(endpoint) = endpoint {
        let endpoint = if is_host_style {
            in_host(&endpoint, options.url.bucket())
        } else {
            endpoint
        };
        builder = builder
            .with_allow_http(endpoint.starts_with("http://"))
            .with_endpoint(endpoint);
    }
    encrypted(builder, options)
        .build()
        .map_err(|error| OpenError::Options(error.to_string()))
}

fn encrypted(builder: AmazonS3Builder, options: &S3Options) -> AmazonS3Builder {
    let Some(encryption) = options.encryption else {
        return builder;
    };
    let set = |builder: AmazonS3Builder, name: &str, value: &str| match name.parse() {
        Ok(key) => builder.with_config(key, value),
        Err(_) => builder,
    };
    let builder = set(builder, "aws_server_side_encryption", encryption.header());
    match &options.kms_key {
        Some(key) if encryption != S3Encryption::Aes256 => set(builder, "aws_sse_kms_key_id", key),
        _ => builder,
    }
}

fn client(patience: &S3Patience) -> ClientOptions {
    ClientOptions::new()
        .with_connect_timeout(patience.connect)
        .with_timeout(patience.attempt)
}

fn retries(patience: &S3Patience) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: patience.first_pause,
            max_backoff: patience.first_pause.saturating_mul(32),
            base: 2.0,
        },
        max_retries: patience.retries,
        retry_timeout: patience.whole,
    }
}

/// `https://BUCKET.host` of `https://host`.
fn in_host(endpoint: &str, bucket: &str) -> String {
    match endpoint.split_once("://") {
        Some((scheme, host)) => format!("{scheme}://{bucket}.{host}"),
        None => format!("https://{bucket}.{endpoint}"),
    }
}

/// What the environment says, without asking the machine for its region: elsewhere than in AWS that
/// takes seconds to fail.
async fn load(options: &S3Options) -> SdkConfig {
    let named = options.region.clone().map(Region::new);
    let region = RegionProviderChain::first_try(named)
        .or_else(aws_config::environment::EnvironmentVariableRegionProvider::new())
        .or_else(aws_config::profile::ProfileFileRegionProvider::new());
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).region(region);
    if let Ok(name) = AppName::new(concat!("unhex-store-", env!("CARGO_PKG_VERSION"))) {
        loader = loader.app_name(name);
    }
    if let Some(own) = &options.credentials {
        loader = loader.credentials_provider(aws_credential_types::Credentials::new(
            &own.access_key,
            &own.secret_key,
            None,
            None,
            "unhex-store",
        ));
    }
    loader.load().await
}

/// The endpoint that variables or the profile name, for S3 or for everything.
fn endpoint_of(sdk: &SdkConfig) -> Option<String> {
    let key = ServiceConfigKey::builder()
        .service_id("S3")
        .env("AWS_ENDPOINT_URL")
        .profile("endpoint_url")
        .build()
        .ok()?;
    let own = sdk
        .service_config()
        .and_then(|known| known.load_config(key));
    own.or_else(|| sdk.endpoint_url().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let mut options = S3Options::new("s3://b/p".parse().unwrap());
        options.credentials = Some(S3Credentials {
            access_key: "AK".to_owned(),
            secret_key: "hidden".to_owned(),
        });
        let shown = format!("{options:?}");
        assert!(shown.contains("AK") && !shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn the_name_of_a_bucket_goes_before_the_host() {
        assert_eq!(in_host("https://s3.local:9", "b"), "https://b.s3.local:9");
    }

    #[test]
    fn the_settings_of_encryption_are_known_to_the_client() {
        let mut options = S3Options::new("s3://b".parse().unwrap());
        options.encryption = Some(S3Encryption::Kms);
        options.kms_key = Some("key".to_owned());
        let builder = encrypted(AmazonS3Builder::new(), &options);
        let value = |name: &str| builder.get_config_value(&name.parse().unwrap());
        assert_eq!(
            value("aws_server_side_encryption").as_deref(),
            Some("aws:kms")
        );
        assert_eq!(value("aws_sse_kms_key_id").as_deref(), Some("key"));
    }
}
