//! How the commands that ask a store find it, and what they say when it does not answer.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use reqwest::Url;
use serde::Serialize;
use serde::de::DeserializeOwned;
use unhex_api::client::{Problem, Token};

use crate::limits::Seconds;

/// Exit status of a command that could not be tried: wrong arguments, or no store.
const NOT_TRIED: u8 = 2;
/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read: a whole day of a large fleet as pprof has 100 MB.
const ANSWER_BYTES_MAX: usize = 2 << 30;

/// Where the store is.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Store")]
pub(super) struct StoreArgs {
    /// Address of the profile store.
    #[arg(
        long,
        env = "UNHEX_STORE",
        value_name = "URL",
        default_value = "http://127.0.0.1:8003"
    )]
    store: String,

    /// Bearer token, where the store or what stands before it wants one. Others on this machine can see arguments: rather
    /// use --token-file or the variable.
    #[arg(
        long,
        env = "UNHEX_STORE_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    token: Option<String>,

    /// File whose content is the bearer token. Goes before --token and its variable.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// How long an answer may take. A query ends in the store, too, when the command ends.
    #[arg(long, value_name = "TIME", default_value = "5m")]
    timeout: Seconds,
}

/// A store that can be asked.
#[derive(Debug)]
pub(super) struct Store {
    http: reqwest::Client,
    base: Url,
    token: Option<Token>,
    timeout: Duration,
}

impl StoreArgs {
    /// That store; nothing is sent yet.
    ///
    /// # Errors
    /// If the address or the token cannot be used, or the token's file cannot be read.
    pub(super) fn store(&self) -> anyhow::Result<Store> {
        let address = || format!("{:?} is no address of a store", self.store);
        let mut base = Url::parse(&self.store).with_context(address)?;
        if !matches!(base.scheme(), "http" | "https") {
            bail!("{}: write it like http://127.0.0.1:8003", address());
        }
        if !base.path().ends_with('/') {
            let path = format!("{}/", base.path());
            base.set_path(&path);
        }
        let token = match (&self.token_file, &self.token) {
            (Some(path), _) => {
                let text = std::fs::read_to_string(path);
                Some(text.with_context(|| format!("--token-file {}", path.display()))?)
            }
            (None, token) => token.clone(),
        };
        let mut http = reqwest::Client::builder()
            .user_agent(concat!("unhex-store/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT);
        if matches!(base.host_str(), Some("127.0.0.1" | "localhost" | "[::1]")) {
            http = http.no_proxy();
        }
        Ok(Store {
            http: http.build().context("no HTTP client")?,
            base,
            token: token.map(|text| Token::new(&text)).transpose()?,
            timeout: self.timeout.duration(),
        })
    }
}

impl Store {
    /// The answer to a question, as JSON.
    ///
    /// # Errors
    /// In the store's words, if it refuses; else why there is no answer.
    pub(super) async fn answer<T: DeserializeOwned>(
        &self,
        path: &str,
        question: &impl Serialize,
    ) -> anyhow::Result<T> {
        let body = self.bytes(path, question).await?;
        serde_json::from_slice(&body)
            .with_context(|| format!("{} is no store of this version", self.base))
    }

    /// The body of the answer.
    ///
    /// # Errors
    /// In the store's words, if it refuses; else why there is no answer.
    pub(super) async fn bytes(
        &self,
        path: &str,
        question: &impl Serialize,
    ) -> anyhow::Result<Vec<u8>> {
        self.send(reqwest::Method::GET, path, question).await
    }

    /// Has what is named deleted, and says what was.
    ///
    /// # Errors
    /// In the store's words, if it refuses; else why there is no answer.
    pub(super) async fn delete(
        &self,
        path: &str,
        what: &impl Serialize,
    ) -> anyhow::Result<Vec<u8>> {
        self.send(reqwest::Method::DELETE, path, what).await
    }

    async fn send(
        &self,
        method: reqwest::Method,
        path: &str,
        question: &impl Serialize,
    ) -> anyhow::Result<Vec<u8>> {
        let url = self.url(path, question)?;
        let mut request = self.http.request(method, url).timeout(self.timeout);
        if let Some(token) = &self.token {
            request = request.header(http::header::AUTHORIZATION, token.header());
        }
        let unreachable = || format!("no answer from {} (--store or UNHEX_STORE)", self.base);
        let mut answer = request.send().await.with_context(unreachable)?;
        let status = answer.status();
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.with_context(unreachable)? {
            if body.len().saturating_add(chunk.len()) > ANSWER_BYTES_MAX {
                bail!("the answer has more than {ANSWER_BYTES_MAX} bytes: ask for less");
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(body);
        }
        let problem = serde_json::from_slice::<Problem>(&body).unwrap_or_default();
        match problem.words() {
            "" => bail!("{} answered {status}", self.base),
            words => bail!("{words} ({})", status.as_u16()),
        }
    }

    fn url(&self, path: &str, question: &impl Serialize) -> anyhow::Result<Url> {
        let mut url = self.base.join(path)?;
        let parameters = serde_json::to_value(question)?;
        for (name, value) in parameters.as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            url.query_pairs_mut().append_pair(name, value);
        }
        Ok(url)
    }
}

/// Runs a command to its end and says on stderr why it could not be tried, if so. SIGINT ends the process and with it the query.
#[expect(clippy::print_stderr, reason = "this is where commands talk to people")]
pub(super) fn finish(
    command: &str,
    work: impl Future<Output = anyhow::Result<ExitCode>>,
) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime");
    match runtime.and_then(|runtime| runtime.block_on(work)) {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("unhex-store {command}: {error:#}");
            ExitCode::from(NOT_TRIED)
        }
    }
}

/// Whether whoever read the output went away, as `head` does; nobody is there to be told.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
