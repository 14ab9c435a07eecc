//! `unhex serve`: configuration to a running server, until it is told to stop.

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};
use tracing_subscriber::EnvFilter;

use super::log_lines::{LogEnd, LogLines};
use crate::app::{App, Background};
use crate::config::{self, Config, LogConfig, LogFormat, ServeArgs};
use crate::http::Server;
use crate::scan::Scan;

/// How long the end of the process waits for reads and writes that do not return.
const STUCK_SECONDS: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  unhex serve
      On 127.0.0.1:8002, data in ./unhex-data, no configuration. Everybody on this machine may write.
  unhex serve --listen 0.0.0.0:8002 --write-token-file /etc/unhex/token
      For a network: everybody may read, writing needs the token.
  UNHEX_WRITE_TOKEN=... unhex serve --listen '[::]:8002' --log-format json
      For a container: each flag has a variable.
  unhex serve --upload-bytes-max 2GiB --connections-max 500
      Other limits; --help lists them all, docs/limits.md with reasons.
  unhex serve --scan /usr/lib/debug --scan /srv/packages --scan-exclude '/tmp/'
      In the place of elfutils' debuginfod: debug files, .deb, .rpm and .tar from where they lie.

Clients:
  export DEBUGINFOD_URLS=http://127.0.0.1:8002
  gdb ./program
  curl -T program.debug http://127.0.0.1:8002/buildid/BUILD_ID/debuginfo

SIGTERM and SIGINT stop it: no new connections, running requests are finished. With --scan, SIGUSR1
scans at once and SIGUSR2 grooms.";

/// Run the symbol server.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    settings: ServeArgs,
}

/// Runs the server; success means that it was told to stop and did.
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
    eprintln!("unhex serve: {error:#}");
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
    let listen = config.listen;
    let data = match &config.s3 {
        Some(bucket) => bucket.url.to_string(),
        None => config.data.display().to_string(),
    };
    let anonymous = config.write_token.is_none();
    let app = App::open(config).await?;
    if let Some(scan) = &app.scan {
        scan_when_told(scan.clone(), &app.background)?;
    }
    let server = Server::bind(app)
        .await
        .with_context(|| format!("cannot listen on {listen}"))?;
    let address = server.local_addr()?;
    info!(%address, data, "serving on http://{address}, data in {data}");
    announce(address);
    if anonymous && !address.ip().is_loopback() {
        warn!(%address, "everybody who reaches {address} may store and delete debug files");
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

/// Scans at SIGUSR1 and grooms at SIGUSR2, as the reference server does.
fn scan_when_told(scan: Scan, background: &Background) -> anyhow::Result<()> {
    let mut rescan = signal(SignalKind::user_defined1())?;
    let mut groom = signal(SignalKind::user_defined2())?;
    let stopping = background.stopping.clone();
    background.tasks.spawn(async move {
        loop {
            tokio::select! {
                () = stopping.cancelled() => return,
                _ = rescan.recv() => scan.rescan(),
                _ = groom.recv() => scan.groom(),
            }
        }
    });
    Ok(())
}

/// Says on standard output where it listens, for programs that asked for port 0.
fn announce(address: SocketAddr) {
    let mut stdout = std::io::stdout().lock();
    // Nobody may read it; the log has said it too.
    drop(writeln!(stdout, "listening on http://{address}").and_then(|()| stdout.flush()));
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
