//! Asks the kubelet of this node for its pods, again and again, so that processes in containers get the names of their pods.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::AUTHORIZATION;

use crate::export::{SetupError, certificates, client_builder, token};
use crate::labels::{Pods, PodsError};
use crate::metrics::Metrics;

/// Bytes of a list of pods: those of 500 pods, which a node has at most, are 10 MB.
const LIST_BYTES_MAX: usize = 64 << 20;

/// How the kubelet is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletOptions {
    /// Its list, such as `https://127.0.0.1:10250/pods`.
    pub url: String,
    /// A file with the token of a service account that may see it; read again for each list, as it is replaced by the hour.
    pub token_file: Option<PathBuf>,
    /// A file with the certificates that sign the kubelet's.
    pub ca_file: Option<PathBuf>,
    /// Whether any certificate is good, as of a kubelet that signs its own.
    pub takes_any_certificate: bool,
    /// The time from one list to the next.
    pub every: Duration,
}

/// Asks for lists.
#[derive(Debug)]
pub struct Kubelet {
    options: KubeletOptions,
    http: reqwest::Client,
    metrics: Arc<Metrics>,
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KubeletError {
    /// No connection, or no token.
    #[error("{0}")]
    Setup(#[from] SetupError),
    /// No answer.
    #[error("no answer: {0}")]
    Unreachable(#[from] reqwest::Error),
    /// Another answer than a list.
    #[error("it answers {status}")]
    Refused {
        /// The status.
        status: u16,
    },
    /// A list without an end.
    #[error("a list of more than {LIST_BYTES_MAX} bytes")]
    TooLarge,
    /// Something else.
    #[error("{0}")]
    NoList(#[from] PodsError),
}

impl Kubelet {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn new(options: KubeletOptions, metrics: Arc<Metrics>) -> Result<Self, SetupError> {
        let mut builder = client_builder().no_proxy();
        if let Some(path) = &options.ca_file {
            builder = builder.tls_certs_merge(certificates(path)?);
        }
        if options.takes_any_certificate {
            builder = builder.tls_danger_accept_invalid_certs(true);
        }
        let http = builder.build().map_err(SetupError::Client)?;
        Ok(Self {
            options,
            http,
            metrics,
        })
    }

    /// Asks until the future is dropped, and hands out each list.
    pub async fn run(self, found: impl Fn(Pods)) {
        let url = &self.options.url;
        let mut is_failing = false;
        loop {
            let pods = self.pods().await;
            self.metrics.pod_list(&pods);
            match pods {
                Ok(pods) => {
                    is_failing = false;
                    found(pods);
                }
                Err(error) if !is_failing => {
                    is_failing = true;
                    tracing::warn!(%error, "the pods of this node are not known, since {url} fails: {error}");
                }
                Err(_) => {}
            }
            tokio::time::sleep(self.options.every).await;
        }
    }

    /// The pods of now.
    ///
    /// # Errors
    /// If the kubelet does not say.
    pub async fn pods(&self) -> Result<Pods, KubeletError> {
        let mut request = self.http.get(&self.options.url);
        if let Some(path) = &self.options.token_file {
            request = request.header(AUTHORIZATION, token(path)?.header());
        }
        let mut answer = request.send().await.map_err(reqwest::Error::without_url)?;
        if !answer.status().is_success() {
            let status = answer.status().as_u16();
            return Err(KubeletError::Refused { status });
        }
        let mut list = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(reqwest::Error::without_url)? {
            if list.len().saturating_add(chunk.len()) > LIST_BYTES_MAX {
                return Err(KubeletError::TooLarge);
            }
            list.extend_from_slice(&chunk);
        }
        Ok(Pods::of_kubelet(&list)?)
    }
}

#[cfg(test)]
mod tests {
    use unhex_testkit::fault_proxy::{Fault, FaultProxy};

    use super::*;

    fn ask(receiver: &FaultProxy, token_file: Option<PathBuf>) -> Result<Pods, KubeletError> {
        let options = KubeletOptions {
            url: format!("{}/pods", receiver.url()),
            token_file,
            ca_file: None,
            takes_any_certificate: false,
            every: Duration::from_secs(30),
        };
        let kubelet = Kubelet::new(options, Arc::new(Metrics::new())).unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(kubelet.pods())
    }

    #[test]
    fn the_list_is_asked_for_with_the_token() {
        let list = br#"{"items": [{"metadata": {"name": "a", "uid": "u"}}]}"#;
        let kubelet = FaultProxy::serving([("/pods", list.to_vec())]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "secret").unwrap();
        assert_eq!(ask(&kubelet, Some(file)).unwrap().len(), 1);
        let seen = kubelet.seen();
        assert_eq!(seen[0].header("authorization"), Some("Bearer secret"));
    }

    #[test]
    fn what_is_no_list_is_an_error_that_says_so() {
        let kubelet = FaultProxy::serving([("/pods", b"{}".to_vec())]);
        kubelet.fail_next([Fault::status(403), Fault::html()]);
        let error = |token| ask(&kubelet, token).unwrap_err().to_string();
        assert_eq!(error(None), "it answers 403");
        assert_eq!(error(None), "the answer is no list of pods");
        let absent = error(Some("/nowhere/token".into()));
        assert_eq!(absent, "/nowhere/token cannot be read");
        assert!(ask(&kubelet, None).unwrap().is_empty());
    }
}
