//! Credentials of the AWS tools for `object_store`'s client: variables, profiles, web identity, the role of a container or machine.
//!
//! The provider of aws-config asks anew at each call, so that what it gave is kept here until shortly before it runs out.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use tokio::sync::Mutex;

/// How long before their end credentials are asked for anew: requests that were signed with them have to be over by then.
const BEFORE_END: Duration = Duration::from_mins(5);

/// How long those are kept that do not say their end: whoever changes a profile need not restart anything.
const KEPT_WITHOUT_END: Duration = Duration::from_mins(5);

/// The longest that a provider is waited for: the metadata of a machine that has none answers never.
const ASK_SECONDS_MAX: u64 = 20;

#[derive(Debug)]
pub(super) struct SdkCredentials {
    provider: SharedCredentialsProvider,
    kept: Mutex<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    credential: Arc<AwsCredential>,
    until: SystemTime,
}

impl SdkCredentials {
    pub(super) fn shared(provider: SharedCredentialsProvider) -> Arc<Self> {
        let kept = Mutex::new(None);
        Arc::new(Self { provider, kept })
    }

    async fn ask(&self, now: SystemTime) -> Result<Kept, object_store::Error> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
            let store = "S3 credentials";
            object_store::Error::Generic { store, source }
        };
        let waiting = Duration::from_secs(ASK_SECONDS_MAX);
        let asked = tokio::time::timeout(waiting, self.provider.provide_credentials()).await;
        let found = asked
            .map_err(|elapsed| failed(Box::new(elapsed)))?
            .map_err(|error| failed(Box::new(error)))?;
        let end = found.expiry().and_then(|end| end.checked_sub(BEFORE_END));
        let credential = AwsCredential {
            key_id: found.access_key_id().to_owned(),
            secret_key: found.secret_access_key().to_owned(),
            token: found.session_token().map(str::to_owned),
        };
        Ok(Kept {
            credential: Arc::new(credential),
            until: end.unwrap_or(now + KEPT_WITHOUT_END),
        })
    }
}

#[async_trait]
impl CredentialProvider for SdkCredentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let now = SystemTime::now();
        // Held while it asks: one asks, and all who wait have the answer.
        let mut kept = self.kept.lock().await;
        if let Some(kept) = kept.as_ref().filter(|kept| kept.until > now) {
            return Ok(Arc::clone(&kept.credential));
        }
        let found = self.ask(now).await?;
        let credential = Arc::clone(&found.credential);
        *kept = Some(found);
        Ok(credential)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use aws_credential_types::Credentials;
    use aws_credential_types::provider::{ProvideCredentials, future};

    use super::*;

    #[derive(Debug, Default)]
    struct Counted {
        asked: Arc<AtomicU32>,
        lifetime: Option<Duration>,
    }

    impl ProvideCredentials for Counted {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let end = self.lifetime.map(|lifetime| SystemTime::now() + lifetime);
            let token = Some("token".to_owned());
            future::ProvideCredentials::ready(Ok(Credentials::new("AK", "SK", token, end, "test")))
        }
    }

    async fn asked_in_three(lifetime: Option<Duration>) -> u32 {
        let asked = Arc::new(AtomicU32::new(0));
        let counted = Counted {
            asked: Arc::clone(&asked),
            lifetime,
        };
        let credentials = SdkCredentials::shared(SharedCredentialsProvider::new(counted));
        for _ in 0..3 {
            let found = credentials.get_credential().await.unwrap();
            assert_eq!(found.token.as_deref(), Some("token"));
        }
        asked.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn a_provider_is_asked_once_until_shortly_before_the_end() {
        assert_eq!(asked_in_three(None).await, 1);
        assert_eq!(asked_in_three(Some(Duration::from_hours(1))).await, 1);
        assert_eq!(asked_in_three(Some(Duration::from_mins(4))).await, 3);
    }
}
