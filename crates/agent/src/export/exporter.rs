//! The task that delivers what waits.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::{Certificate, Url};
use unhex_api::client::{Token, TokenError};

use super::answer::{Verdict, verdict};
use super::{Message, Queue};
use crate::metrics::{BatchOutcome, Metrics, RetryReason};

/// The path of OTLP over HTTP, under the receiver's address.
const PATH: &str = "v1development/profiles";
/// Bytes of an answer that are read: it says why profiles were not taken.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Bytes of what a receiver said that come into the log.
const WORDS_BYTES_MAX: usize = 500;
/// How long a connection may take to come about.
const CONNECT_SECONDS_MAX: u64 = 10;
/// How long an answer may take: the store's longest wait is 30 s.
const ANSWER_SECONDS_MAX: u64 = 40;
/// The first pause after a failure; it doubles.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The longest pause: when the receiver is back it hears of it soon.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Where batches go, and how.
#[derive(Clone, Debug)]
pub struct ExporterOptions {
    /// The receiver's address, such as `http://127.0.0.1:8003`.
    pub server: String,
    /// A file with the token that it wants to see; read for each batch, so that a new one counts at once.
    pub token_file: Option<PathBuf>,
    /// A file with certificates (PEM) that sign the receiver's, beside those of the system.
    pub ca_file: Option<PathBuf>,
    /// The first pause after a failure; it doubles with each.
    pub pause_first: Duration,
}

impl Default for ExporterOptions {
    fn default() -> Self {
        Self {
            server: "http://127.0.0.1:8003".to_owned(),
            token_file: None,
            ca_file: None,
            pause_first: PAUSE_FIRST,
        }
    }
}

/// Why nothing can be delivered, however long one waits.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// An address that is none.
    #[error("{server:?} is no http or https URL; write it like http://127.0.0.1:8003")]
    Address {
        /// What was given.
        server: String,
    },
    /// A file that cannot be read.
    #[error("{path} cannot be read")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A token that no header can carry.
    #[error("the token of {path} cannot be sent: {source}")]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        source: TokenError,
    },
    /// The client could not be made, as of certificates that are none.
    #[error("connections cannot be made: {0}")]
    Client(reqwest::Error),
}

/// Delivers what waits in a queue.
#[derive(Debug)]
pub struct Exporter {
    http: reqwest::Client,
    url: Url,
    token_file: Option<PathBuf>,
    pause_first: Duration,
    queue: Queue,
    metrics: Arc<Metrics>,
    /// Whether the log has said of the failure that lasts.
    is_failing: bool,
}

impl Exporter {
    /// An exporter of a queue; nothing is sent yet.
    ///
    /// # Errors
    /// If the address is none, or a file cannot be read.
    pub fn new(
        options: ExporterOptions,
        queue: Queue,
        metrics: Arc<Metrics>,
    ) -> Result<Self, SetupError> {
        let url = url(&options.server)?;
        if let Some(path) = &options.token_file {
            token(path)?;
        }
        let mut builder = client_builder();
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
        if let Some(path) = &options.ca_file {
            builder = builder.tls_certs_merge(certificates(path)?);
        }
        Ok(Self {
            http: builder.build().map_err(SetupError::Client)?,
            url,
            token_file: options.token_file,
            pause_first: options.pause_first,
            queue,
            metrics,
            is_failing: false,
        })
    }

    /// Delivers until the queue has ended and is empty.
    pub async fn run(mut self) {
        let mut failures = 0;
        while let Some(message) = self.queue.first().await {
            match self.attempt(&message).await {
                Verdict::Again(reason, asked) => {
                    self.metrics.retry(reason);
                    let pause = self.pause(failures);
                    failures = failures.saturating_add(1);
                    tokio::time::sleep(asked.map_or(pause, |asked| asked.max(pause))).await;
                }
                settled => {
                    failures = 0;
                    self.settle(&message, &settled);
                }
            }
        }
    }

    /// Counts and removes a batch that was dealt with.
    fn settle(&mut self, message: &Arc<Message>, verdict: &Verdict) {
        let outcome = match verdict {
            Verdict::Partial(partial) => {
                let (count, words) = (partial.rejected_profiles, shown(&partial.error_message));
                tracing::warn!(
                    rejected = count,
                    "{count} profiles of a batch were not taken: {words}"
                );
                BatchOutcome::Partial
            }
            Verdict::Delivered => BatchOutcome::Delivered,
            Verdict::Refused | Verdict::Again(..) => BatchOutcome::Refused,
        };
        if outcome != BatchOutcome::Refused {
            self.metrics.sent(message.body.len());
            if std::mem::take(&mut self.is_failing) {
                tracing::info!("{} takes profiles again", self.url);
            }
        }
        // One that had to go while it was on its way is counted as dropped already.
        if self.queue.remove(message) {
            self.metrics.batch(outcome, message.samples);
        }
    }

    async fn attempt(&mut self, message: &Message) -> Verdict {
        let mut request = self
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/x-protobuf");
        if let Some(encoding) = message.encoding {
            request = request.header(CONTENT_ENCODING, encoding);
        }
        match self.token_file.as_deref().map(token).transpose() {
            Ok(token) => {
                if let Some(token) = token {
                    request = request.header(AUTHORIZATION, token.header());
                }
            }
            // It is being replaced, perhaps: without it the batch would be refused.
            Err(error) => {
                self.say(&error.to_string());
                return Verdict::Again(RetryReason::Connection, None);
            }
        }
        let answer = match request.body(message.body.clone()).send().await {
            Ok(answer) => answer,
            Err(error) => {
                let reason = if error.is_timeout() {
                    RetryReason::Timeout
                } else {
                    RetryReason::Connection
                };
                self.say(&chain(&error.without_url()));
                return Verdict::Again(reason, None);
            }
        };
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = beginning(answer).await;
        let verdict = verdict(status, &headers, &body);
        if matches!(verdict, Verdict::Refused | Verdict::Again(..)) {
            self.say(&format!(
                "{status}: {}",
                shown(&String::from_utf8_lossy(&body))
            ));
        }
        verdict
    }

    /// Says why nothing is delivered, once for as long as that lasts.
    fn say(&mut self, why: &str) {
        let url = &self.url;
        if std::mem::replace(&mut self.is_failing, true) {
            tracing::debug!("{url} does not take profiles: {why}");
        } else {
            tracing::warn!("{url} does not take profiles, which wait or are dropped: {why}");
        }
    }

    /// The pause after so many failures in a row, with jitter, so that all agents do not come back at once.
    fn pause(&self, failures: u32) -> Duration {
        let doublings = failures.min(16);
        let full = self
            .pause_first
            .saturating_mul(1 << doublings)
            .min(PAUSE_MAX);
        full.mul_f64(rand::random_range(0.5..=1.0))
    }
}

/// How any of the agent's connections are made.
pub(crate) fn client_builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("unhex-agent/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(CONNECT_SECONDS_MAX))
        .timeout(Duration::from_secs(ANSWER_SECONDS_MAX))
}

/// The certificates of a file.
pub(crate) fn certificates(path: &Path) -> Result<Vec<Certificate>, SetupError> {
    let bytes = fs::read(path).map_err(|source| SetupError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    Certificate::from_pem_bundle(&bytes).map_err(SetupError::Client)
}

/// The token of a file.
pub(crate) fn token(path: &Path) -> Result<Token, SetupError> {
    let text = fs::read_to_string(path).map_err(|source| SetupError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    Token::new(&text).map_err(|source| SetupError::Token {
        path: path.to_owned(),
        source,
    })
}

fn url(server: &str) -> Result<Url, SetupError> {
    let refused = || SetupError::Address {
        server: server.to_owned(),
    };
    let mut url = Url::parse(server).map_err(|_no_url| refused())?;
    if !matches!(url.scheme(), "http" | "https") || url.query().is_some() {
        return Err(refused());
    }
    if !url.path().ends_with(PATH) {
        let path = format!("{}/{PATH}", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    Ok(url)
}

/// Whether the receiver is on this machine, which no proxy reaches.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let is_address = |address: IpAddr| address.is_loopback();
    host == "localhost" || address.parse().is_ok_and(is_address)
}

/// The start of an answer's body, as much as came.
async fn beginning(mut answer: reqwest::Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Ok(Some(chunk)) = answer.chunk().await {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > ANSWER_BYTES_MAX {
            break;
        }
    }
    bytes
}

/// What a receiver said, as one line of a log.
fn shown(words: &str) -> String {
    let end = words.floor_char_boundary(WORDS_BYTES_MAX);
    let words = words.get(..end).unwrap_or_default();
    words.replace(char::is_control, " ").trim().to_owned()
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_on_this_machine_is_told_from_others() {
        for (server, is_local) in [
            ("http://127.0.0.1:8003", true),
            ("http://[::1]:8003", true),
            ("http://localhost", true),
            ("https://profiles.example", false),
            ("http://10.0.0.1:8003", false),
        ] {
            assert_eq!(is_loopback(&url(server).unwrap()), is_local, "{server}");
        }
    }

    #[test]
    fn the_path_is_added_unless_it_is_there() {
        for (server, expected) in [
            ("http://a", "http://a/v1development/profiles"),
            ("http://a/b/", "http://a/b/v1development/profiles"),
            (
                "http://a/v1development/profiles",
                "http://a/v1development/profiles",
            ),
        ] {
            assert_eq!(url(server).unwrap().as_str(), expected);
        }
        assert!(url("ftp://a").is_err() && url("http://a/?x").is_err());
    }
}
