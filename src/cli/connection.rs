//! How the commands that ask a server find it, and how they end when it does not answer.

use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use unhex_api::client::{Client, ClientOptions, RetryPolicy, Token};

/// Exit status of a command that could not be tried: wrong arguments, or no server.
const NOT_TRIED: u8 = 2;

/// Exit statuses of a command that a signal ended, as shells have them.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// How long the end of a command waits for its search.
const SEARCH_GRACE: Duration = Duration::from_secs(2);

/// Where the symbol server is.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub(super) struct ConnectionArgs {
    /// Address of the symbol server.
    #[arg(
        long,
        env = "UNHEX_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:8002"
    )]
    server: String,

    /// Bearer token, where the server wants one. Others on this machine can see arguments: rather
    /// use --token-file or the variable.
    #[arg(
        long,
        env = "UNHEX_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    token: Option<String>,

    /// File whose content is the bearer token. Goes before --token and its variable.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// How often a request is repeated when the server does not answer or is busy.
    #[arg(long, value_name = "TIMES", default_value_t = 4)]
    retries: u32,
}

impl ConnectionArgs {
    /// A client of that server; nothing is sent yet.
    ///
    /// # Errors
    /// If the address or the token cannot be used, or the token's file cannot be read.
    pub(super) fn client(&self) -> anyhow::Result<Client> {
        let text = match (&self.token_file, &self.token) {
            (Some(path), _) => {
                let text = std::fs::read_to_string(path);
                Some(text.with_context(|| format!("--token-file {}", path.display()))?)
            }
            (None, token) => token.clone(),
        };
        let token = text.map(|text| Token::new(&text)).transpose()?;
        Ok(Client::new(ClientOptions {
            server: self.server.clone(),
            token,
            retries: RetryPolicy {
                attempts_max: self.retries.saturating_add(1),
                ..RetryPolicy::default()
            },
            ..ClientOptions::default()
        })?)
    }
}

/// Runs a command to its end and says on stderr why it could not be tried, if so.
#[expect(clippy::print_stderr, reason = "this is where commands talk to people")]
pub(super) fn finish(
    command: &str,
    work: impl Future<Output = anyhow::Result<ExitCode>>,
) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("no runtime");
    let outcome = runtime.and_then(|runtime| {
        let outcome = runtime.block_on(until_signal(work));
        // A search in a thread ends at its next finding; nobody waits for more of it.
        runtime.shutdown_timeout(SEARCH_GRACE);
        outcome
    });
    match outcome {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("unhex {command}: {error:#}");
            ExitCode::from(NOT_TRIED)
        }
    }
}

/// Runs `work` unless SIGINT or SIGTERM comes first; then it is dropped, and unpacked files with it.
async fn until_signal(
    work: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        outcome = work => outcome,
        _ = interrupt.recv() => Ok(ExitCode::from(INTERRUPTED)),
        _ = terminate.recv() => Ok(ExitCode::from(TERMINATED)),
    }
}

/// Whether whoever read the output went away, as `head` does; nobody is there to be told.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
