//! `unhex upload`: the binaries in files, folders and archives, to the symbol server.
//!
//! A thread searches, some tasks send, one place reports; a short queue between them bounds what
//! is unpacked and not sent yet. Everything that should be in the store and is not makes the
//! command fail, so that a release does not go out without its symbols unnoticed.

mod index_wait;
mod outcome;
mod report;
mod send;
mod sources;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::{Stream, StreamExt as _};
use tokio::sync::mpsc;
use unhex_api::artifacts::ArtifactKind;
use unhex_api::client::{Client, Encoding};
use unhex_symbols::elf::ElfRole;

use self::outcome::{Item, Status};
use self::report::{OutputMode, Report};
use self::send::{Hopeless, Parcel, Sender};
use self::sources::{SourceMap, SourceOptions, Sources};
use super::binaries::{Binary, Finding, Glob, Part, Search, SearchOptions};
use super::connection::{ConnectionArgs, finish};

const EXAMPLES: &str = "\
Examples:
  unhex upload target/release/checkout
      One program: its code, its debug information, or both if it was not stripped. When it was,
      the debug file that it names is taken along if it lies beside it.
  unhex upload --with-sources build/
      All programs and libraries below a folder, and the source files that they were built from.
  unhex upload libfoo1_1.0_amd64.deb libfoo1-dbgsym_1.0_amd64.deb symbols.tar.zst
      What is in packages and archives.
  UNHEX_SERVER=https://symbols.example UNHEX_TOKEN=... unhex upload --json dist/ > upload.json
      From CI.

Exit status: 0 when everything is in the store, 1 when something is not (each such file says why),
2 when it could not be done: wrong arguments, or no server. A binary without a build ID is a failure, since no profiler or
debugger could ask for it; leave such files out with --exclude.";

/// Upload binaries, debug files and sources.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(super) struct Args {
    /// Files, folders, and archives (.deb, .rpm, .tar, .tar.gz, .tar.xz, .tar.zst, .zip).
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Only files in folders and archives that match; may be given several times. `*.so*` is for
    /// names, a pattern with a slash, such as `build/**/app`, for paths.
    #[arg(long, value_name = "GLOB")]
    include: Vec<Glob>,

    /// No files in folders and archives that match; may be given several times.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<Glob>,

    /// Upload the source files that the debug information names and that are on this machine, too.
    #[arg(long)]
    with_sources: bool,

    /// Look for sources that were compiled under OLD in NEW instead, as with gdb's `set
    /// substitute-path`; may be given several times.
    #[arg(long, value_name = "OLD=NEW", requires = "with_sources")]
    source_map: Vec<SourceMap>,

    /// Send sources from these folders only; may be given several times. By default wherever they
    /// are, and none for what is in archives, whose debug information is a stranger's.
    #[arg(long, value_name = "FOLDER", requires = "with_sources")]
    source_root: Vec<PathBuf>,

    /// Files that are sent at the same time.
    #[arg(long, short, default_value_t = 4, value_name = "COUNT",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,

    /// How files are sent. By default zstd, and as they are to a server on this machine.
    #[arg(long, value_enum, value_name = "HOW")]
    compress: Option<Compression>,

    /// How long to wait in all for the server to convert what was uploaded, in seconds.
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    wait: u64,

    /// Say what would be uploaded, and ask no server.
    #[arg(long)]
    dry_run: bool,

    /// Print only what went wrong.
    #[arg(long, short)]
    quiet: bool,

    /// Print one JSON document instead of lines.
    #[arg(long, conflicts_with = "quiet")]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// How bodies are sent.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Compression {
    /// Compressed by zstd.
    Zstd,
    /// As they are.
    None,
}

/// Runs the upload; success means that everything that was found is in the store.
pub(super) fn run(args: Args) -> ExitCode {
    finish("upload", upload(args))
}

async fn upload(args: Args) -> anyhow::Result<ExitCode> {
    let client = args.connection.client()?;
    let mut report = Report::new(args.output_mode());
    let sending = if args.dry_run {
        None
    } else {
        let encoding = args.encoding(&client);
        Some(Sender::new(client.clone(), encoding, report.bars()))
    };
    let sources = args.source_options()?;
    let findings = search(&args);
    let hopeless = {
        let work = |finding| process(finding, sending.as_ref(), sources.as_ref());
        let mut items = stream(findings)
            .map(work)
            .buffer_unordered(usize::from(args.jobs));
        loop {
            match items.next().await {
                None => break None,
                Some(Err(hopeless)) => break Some(hopeless),
                Some(Ok(done)) => {
                    for item in done {
                        report.item(item)?;
                    }
                }
            }
        }
    };
    if let Some(Hopeless(error)) = hopeless {
        report.abandon()?;
        return Err(error.into());
    }
    index_wait::wait(&client, report.items_mut(), Duration::from_secs(args.wait)).await;
    report.warnings()?;
    Ok(if report.finish()? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Args {
    fn output_mode(&self) -> OutputMode {
        if self.json {
            OutputMode::Json
        } else if self.quiet {
            OutputMode::Quiet
        } else {
            OutputMode::Lines
        }
    }

    fn encoding(&self, client: &Client) -> Encoding {
        match self.compress {
            Some(Compression::None) => Encoding::Identity,
            None if client.is_local() => Encoding::Identity,
            Some(Compression::Zstd) | None => Encoding::Zstd,
        }
    }

    fn source_options(&self) -> anyhow::Result<Option<SourceOptions>> {
        if !self.with_sources {
            return Ok(None);
        }
        let mut roots = Vec::new();
        for root in &self.source_root {
            let real = root.canonicalize();
            roots.push(real.with_context(|| format!("--source-root {}", root.display()))?);
        }
        Ok(Some(SourceOptions {
            maps: self.source_map.clone(),
            roots,
            ..SourceOptions::default()
        }))
    }
}

/// Searches in a thread of its own, which ends when nobody listens any more.
fn search(args: &Args) -> mpsc::Receiver<Finding> {
    let (sender, receiver) = mpsc::channel(usize::from(args.jobs));
    let paths = args.paths.clone();
    let options = SearchOptions {
        include: args.include.clone(),
        exclude: args.exclude.clone(),
        ..SearchOptions::default()
    };
    tokio::task::spawn_blocking(move || {
        Search::run(
            &paths,
            &options,
            &mut |finding| match sender.blocking_send(finding) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_closed) => ControlFlow::Break(()),
            },
        );
    });
    receiver
}

fn stream(mut receiver: mpsc::Receiver<Finding>) -> impl Stream<Item = Finding> + Unpin {
    futures_util::stream::poll_fn(move |context| receiver.poll_recv(context))
}

/// What becomes of one finding: a file, and its sources after it.
async fn process(
    finding: Finding,
    sender: Option<&Sender>,
    sources: Option<&SourceOptions>,
) -> Result<Vec<Item>, Hopeless> {
    Ok(match finding {
        Finding::Binary(binary) => return process_binary(&binary, sender, sources).await,
        Finding::WithoutBuildId(found) => {
            vec![Item::new(found.label.clone(), Status::NoBuildId).detail(found.advice())]
        }
        Finding::Unreadable { label, reason } => {
            vec![Item::new(label, Status::Failed).detail(reason)]
        }
        Finding::Skipped { label, reason } => {
            vec![Item::new(label, Status::Skipped).detail(reason)]
        }
        Finding::Nothing { label } => {
            let reason = "there is no binary in it; is it the right folder?";
            vec![Item::new(label, Status::Failed).detail(reason)]
        }
    })
}

async fn process_binary(
    binary: &Binary,
    sender: Option<&Sender>,
    sources: Option<&SourceOptions>,
) -> Result<Vec<Item>, Hopeless> {
    let parcel = Parcel {
        label: binary.label.clone(),
        file_name: binary.file_name.clone(),
        path: binary.content.path().to_owned(),
        size_bytes: binary.size_bytes,
        build_id: binary.build_id.clone(),
        kind: sent_as(binary.part),
    };
    let mut items = vec![match sender {
        Some(sender) => sender.send(&parcel).await?,
        None => would_upload(&parcel, kinds(binary.part)),
    }];
    let Some(options) = sources.filter(|_| binary.has_dwarf()) else {
        return Ok(items);
    };
    if binary.content.is_unpacked() && options.roots.is_empty() {
        let reason = "its sources are left out: a package names what files it likes; \
                      give the folders to send from by --source-root";
        let item = Item::new(binary.label.clone(), Status::Skipped).build_id(&binary.build_id);
        items.push(item.detail(reason));
        return Ok(items);
    }
    let bundle = Sources::bundle(binary.content.path(), options).await;
    items.push(match bundle {
        Err(error) => Item::new(binary.label.clone(), Status::Failed)
            .build_id(&binary.build_id)
            .detail(format!("its sources: {error:#}")),
        Ok(bundle) if bundle.files == 0 => Item::new(binary.label.clone(), Status::Skipped)
            .build_id(&binary.build_id)
            .detail(bundle.words()),
        Ok(bundle) => {
            let words = bundle.words();
            let parcel = Parcel {
                file_name: format!("{}.sources.zip", binary.file_name),
                path: bundle.zip.to_path_buf(),
                size_bytes: bundle.size_bytes,
                kind: ArtifactKind::Sources,
                ..parcel
            };
            let item = match sender {
                Some(sender) => sender.send(&parcel).await?,
                None => would_upload(&parcel, &[ArtifactKind::Sources]),
            };
            if item.status.is_failure() {
                item
            } else {
                item.detail(words)
            }
        }
    });
    Ok(items)
}

fn would_upload(parcel: &Parcel, kinds: &[ArtifactKind]) -> Item {
    let mut item = Item::new(parcel.label.clone(), Status::WouldUpload).build_id(&parcel.build_id);
    item.kinds = kinds.iter().map(|kind| kind.as_str().to_owned()).collect();
    item
}

/// What a file is good for.
fn kinds(part: Part) -> &'static [ArtifactKind] {
    match part {
        Part::PackedSplitDwarf => &[ArtifactKind::Dwp],
        Part::Whole { role, .. } => match role {
            ElfRole::Executable => &[ArtifactKind::Executable],
            ElfRole::Both => &[ArtifactKind::Executable, ArtifactKind::Debuginfo],
            ElfRole::Debuginfo | ElfRole::Neither => &[ArtifactKind::Debuginfo],
        },
    }
}

/// As what a file is sent: one that is both is sent once, as debuginfo, and the server finds that
/// it is the executable too.
fn sent_as(part: Part) -> ArtifactKind {
    let last = kinds(part).last();
    last.copied().unwrap_or(ArtifactKind::Debuginfo)
}
