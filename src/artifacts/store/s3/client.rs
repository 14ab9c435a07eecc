//! The connection to an S3 server: who it is, credentials, time-outs, retries, checksums.
//!
//! Credentials, region and endpoint come from where every AWS tool takes them, where no flag says
//! otherwise. An endpoint of one's own means another server than AWS: it gets path-style requests,
//! and no checksums that it did not ask for, since older ones refuse what they don't know.

use std::sync::Arc;
use std::time::Duration;

use aws_config::meta::region::RegionProviderChain;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::{TimeoutConfig, TimeoutConfigBuilder};
use aws_sdk_s3::config::{
    AppName, Builder, Credentials, RequestChecksumCalculation, ResponseChecksumValidation,
    StalledStreamProtectionConfig,
};
use aws_types::service_config::ServiceConfigKey;

use super::meter::Meter;
use super::whole::WholeAnswers;
use crate::config::{S3Addressing, S3Config, S3Patience};
use crate::metrics::Metrics;

/// What other servers than AWS are told when nobody says a region; they take any.
const REGION_ELSEWHERE: &str = "us-east-1";

/// Whose server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Provider {
    Aws,
    Other,
}

/// A client, and whose server it talks to.
pub(super) async fn connect(config: &S3Config, metrics: Arc<Metrics>) -> (Client, Provider) {
    let sdk = load(config).await;
    let endpoint = config.endpoint.clone().or_else(|| endpoint_of(&sdk));
    let provider = match endpoint {
        Some(_) => Provider::Other,
        None => Provider::Aws,
    };
    let region = match (sdk.region(), provider) {
        (Some(region), _) => Some(region.clone()),
        (None, Provider::Other) => Some(Region::new(REGION_ELSEWHERE)),
        // The machine may know.
        (None, Provider::Aws) => RegionProviderChain::default_provider().region().await,
    };
    let path_style = match config.addressing {
        Some(S3Addressing::Path) => true,
        Some(S3Addressing::Host) => false,
        None => provider == Provider::Other,
    };
    let mut builder = Builder::from(&sdk)
        .region(region)
        .force_path_style(path_style)
        .timeout_config(
            timeouts(&config.patience, config.patience.answer)
                .operation_timeout(config.patience.whole)
                .build(),
        )
        .retry_config(
            RetryConfig::standard()
                .with_max_attempts(config.patience.attempts)
                .with_initial_backoff(config.patience.first_pause),
        )
        .stalled_stream_protection(
            StalledStreamProtectionConfig::enabled()
                .grace_period(config.patience.stall)
                .build(),
        )
        .interceptor(WholeAnswers)
        .interceptor(Meter { metrics });
    if let Some(endpoint) = endpoint {
        builder = builder.endpoint_url(endpoint);
    }
    if provider == Provider::Other {
        builder = builder
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    }
    (Client::from_conf(builder.build()), provider)
}

/// The same client with the endpoint by which clients of this server reach the bucket.
pub(super) fn direct(client: &Client, config: &S3Config) -> Client {
    match &config.direct_endpoint {
        Some(endpoint) => {
            let builder = client.config().to_builder().endpoint_url(endpoint);
            Client::from_conf(builder.build())
        }
        None => client.clone(),
    }
}

/// The time-outs of requests whose answer may take as long as `answer`.
pub(super) fn timeouts(patience: &S3Patience, answer: Duration) -> TimeoutConfigBuilder {
    TimeoutConfig::builder()
        .connect_timeout(patience.connect)
        .operation_attempt_timeout(answer)
}

/// What the environment says, without asking the machine for its region: elsewhere than in AWS that
/// takes seconds to fail.
async fn load(config: &S3Config) -> SdkConfig {
    let named = config.region.clone().map(Region::new);
    let region = RegionProviderChain::first_try(named)
        .or_else(aws_config::environment::EnvironmentVariableRegionProvider::new())
        .or_else(aws_config::profile::ProfileFileRegionProvider::new());
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).region(region);
    if let Ok(name) = AppName::new(concat!("unhex-", env!("CARGO_PKG_VERSION"))) {
        loader = loader.app_name(name);
    }
    if let Some(own) = &config.credentials {
        let (access_key, secret_key) = (&own.access_key, &own.secret_key);
        let own = Credentials::new(access_key, secret_key, None, None, "unhex");
        loader = loader.credentials_provider(own);
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
