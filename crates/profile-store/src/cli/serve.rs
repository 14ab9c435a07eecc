//! `unhex-store serve`: configuration to a running store, until it is told to stop.

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};
use tracing_subscriber::EnvFilter;

use super::log_lines::{LogEnd, LogLines};
use crate::app::App;
use crate::config::{self, Config, LogConfig, LogFormat, ServeArgs};
use crate::http::Server;

/// How long the end of the process waits for reads and writes that do not return.
const STUCK_SECONDS: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  unhex-store serve
      On 127.0.0.1:8003, data in ./unhex-store-data, no configuration. Everybody on this machine may send.
  unhex-store serve --listen 0.0.0.0:8003 --grpc-listen 0.0.0.0:4317 --write-token-file /etc/unhex/token
      For a network: sending and deleting need the token. Exporters find OTLP over gRPC on both ports.
  unhex-store serve --s3 s3://profiles/unhex --symbols https://symbols.example.org
      Any number of these over one bucket.
  unhex-store serve --retention 14d --retention-of checkout=60d
      Samples are kept for two weeks, those of one service longer.
  UNHEX_STORE_WRITE_TOKEN=... unhex-store serve --listen '[::]:8003' --log-format json
      For a container: each flag has a variable.

Clients:
  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:8003 for exporters of OTLP, gRPC or HTTP
  curl --data-binary @cpu.pprof 'http://127.0.0.1:8003/profiles?service=checkout&version=2.4'

SIGTERM and SIGINT stop it: no new connections, running requests are finished and written.";

/// Run the profile store.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    settings: ServeArgs,
}

/// Runs the store; success means that it was told to stop and did.
pub(super) fn run(arguments: Args) -> ExitCode {
    let (config, log) = match config::load(arguments.settings) {
        Ok(loaded) => loaded,
        Err(error) => return refuse(&error.into()),
    };
    let _log_end = match start_log(&log) {
        Ok(end) => end,
        Err(error) => return refuse(&error),
    };
    match serve(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Says why nothing was started, before there is a log.
#[expect(clippy::print_stderr, reason = "there is no log yet")]
fn refuse(error: &anyhow::Error) -> ExitCode {
    eprintln!("unhex-store serve: {error:#}");
    ExitCode::from(2)
}

fn start_log(log: &LogConfig) -> anyhow::Result<LogEnd> {
    let filter = EnvFilter::try_new(&log.filter)
        .with_context(|| format!("--log {:?} is not understood", log.filter))?;
    let (writer, end) = LogLines::to(std::io::stderr()).context("no thread for the log")?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(writer);
    match log.format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    Ok(end)
}

fn serve(config: Config) -> anyhow::Result<()> {
    raise_open_files();
    let runtime = tokio::runtime::Runtime::new().context("no runtime")?;
    let served = runtime.block_on(serve_until_told(config));
    // Waiting for requests and tasks is over; what still reads or writes then is stuck in the disk.
    runtime.shutdown_timeout(STUCK_SECONDS);
    served
}

async fn serve_until_told(config: Config) -> anyhow::Result<()> {
    // Beyond a limit on the length of files a write is to fail, not to end the process.
    let _file_too_large = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let anonymous = config.write_token.is_none();
    // What a bucket needs to open is large.
    let app = Box::pin(App::open(config)).await?;
    let data = app.objects.to_string();
    let symbols = app.config.symbols.clone();
    let server = Server::bind(app).await?;
    let address = server.local_addr()?;
    info!(
        %address,
        data,
        symbols,
        "serving on http://{address}, the table in {data}, names from {}",
        symbols.as_deref().unwrap_or("nobody")
    );
    if let Some(grpc) = server.grpc_addr()? {
        info!(address = %grpc, "serving on http://{grpc} too");
    }
    announce(address, server.grpc_addr()?);
    if anonymous && !address.ip().is_loopback() {
        warn!(%address, "everybody who reaches {address} may send and delete profiles");
    }
    server
        .run(async move {
            tokio::select! {
                _ = terminate.recv() => info!("SIGTERM: stopping"),
                _ = interrupt.recv() => info!("SIGINT: stopping"),
            }
        })
        .await;
    info!("stopped");
    Ok(())
}

/// Says on standard output where it listens, for programs that asked for port 0.
fn announce(address: SocketAddr, grpc: Option<SocketAddr>) {
    let mut stdout = std::io::stdout().lock();
    let grpc = grpc.map_or_else(String::new, |grpc| format!("gRPC on http://{grpc}\n"));
    let said = writeln!(stdout, "{grpc}listening on http://{address}");
    // Nobody may read it; the log has said it too.
    drop(said.and_then(|()| stdout.flush()));
}

/// Takes as many open files as the system allows: the usual soft limit of 1,024 is below what the
/// limit of connections needs.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        warn!(%error, "the limit of open files stays at {:?}: {error}", limit.current);
    }
}
