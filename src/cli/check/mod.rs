//! `unhex check`: whether the store can symbolize the binaries that are about to be deployed.
//!
//! It is meant for the last step before a release: without it, missing symbols are noticed when
//! somebody opens a flame graph full of hex.

mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use tokio::time::Instant;
use unhex_api::client::{Client, ClientError};
use unhex_api::quality::Quality;

use self::verdict::{Verdict, VerdictStatus};
use super::binaries::{Finding, Glob, Label, Part, Search, SearchOptions};
use super::connection::{ConnectionArgs, finish};
use super::table::Table;

const EXAMPLES: &str = "\
Examples:
  unhex check target/release/checkout
      Does the store have symbols of this build?
  unhex check --min-quality dwarf_lines --exclude '*.so' rootfs/
      All programs below a folder, with files and lines.
  unhex check image.tar && kubectl apply -f checkout.yaml
      Deploy only what can be symbolized.

Exit status: 0 when each binary has symbols of that quality, 1 when one has not, 2 when nothing
could be checked. What is missing is mended by `unhex upload`.";

/// How many build IDs are asked for at the same time.
const QUESTIONS_MAX: usize = 8;

/// The wait between two questions for a build ID that is being converted.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Fail when the store cannot symbolize a binary.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Files, folders, and archives (.deb, .rpm, .tar, .tar.gz, .tar.xz, .tar.zst, .zip).
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// The least that the symbols must be good for: `symtab` is function names, `dwarf_lines` is
    /// files and lines too, `dwarf_inlines` inlined calls too.
    #[arg(long, value_enum, default_value = "symtab", value_name = "QUALITY")]
    min_quality: MinQuality,

    /// Only files in folders and archives that match; may be given several times.
    #[arg(long, value_name = "GLOB")]
    include: Vec<Glob>,

    /// No files in folders and archives that match; may be given several times.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<Glob>,

    /// How long to wait in all for what the server is just converting, in seconds.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    wait: u64,

    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Qualities that can be demanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum MinQuality {
    /// Names of exported functions.
    Dynsym,
    /// Function names.
    Symtab,
    /// Functions, files and lines of Go programs; DWARF is better.
    GoPclntab,
    /// Functions, files and lines.
    DwarfLines,
    /// And inlined calls.
    DwarfInlines,
}

/// What is said of one file.
#[derive(Clone, Debug, Serialize)]
struct Checked {
    path: Label,
    #[serde(skip_serializing_if = "Option::is_none")]
    build_id: Option<String>,
    #[serde(flatten)]
    verdict: Verdict,
}

#[derive(Serialize)]
struct Document<'a> {
    ok: bool,
    files: &'a [Checked],
}

/// Runs the check; success means that all binaries have symbols.
pub(super) fn run(args: Args) -> ExitCode {
    finish("check", check(args))
}

async fn check(args: Args) -> anyhow::Result<ExitCode> {
    let client = args.connection.client()?;
    let found = find(&args).await?;
    let minimum = args.min_quality.quality();
    let deadline = Instant::now() + Duration::from_secs(args.wait);
    let wanted: BTreeSet<String> = found
        .iter()
        .filter_map(|file| file.build_id.clone())
        .collect();
    let ask = |id: String| {
        let client = &client;
        async move {
            let verdict = judge(client, &id, minimum, deadline).await?;
            Ok::<_, ClientError>((id, verdict))
        }
    };
    let verdicts: BTreeMap<String, Verdict> = futures_util::stream::iter(wanted)
        .map(ask)
        .buffer_unordered(QUESTIONS_MAX)
        .try_collect()
        .await?;
    let mut files = found;
    for file in &mut files {
        if let Some(verdict) = file.build_id.as_ref().and_then(|id| verdicts.get(id)) {
            file.verdict = verdict.clone();
        }
    }
    let ok = files
        .iter()
        .all(|file| file.verdict.status == VerdictStatus::Found);
    print(&files, ok, &args)?;
    Ok(if ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// All files in question; those with a build ID have no verdict yet.
async fn find(args: &Args) -> anyhow::Result<Vec<Checked>> {
    let paths = args.paths.clone();
    let options = SearchOptions {
        include: args.include.clone(),
        exclude: args.exclude.clone(),
        ..SearchOptions::default()
    };
    let searching = tokio::task::spawn_blocking(move || {
        let mut found = Vec::new();
        Search::run(&paths, &options, &mut |finding| {
            found.extend(of_finding(finding));
            ControlFlow::Continue(())
        });
        found
    });
    searching.await.context("the search was cut short")
}

fn of_finding(finding: Finding) -> Option<Checked> {
    let without_id = |path: Label, status: VerdictStatus, detail: String| Checked {
        path,
        build_id: None,
        verdict: Verdict::new(status).detail(detail),
    };
    Some(match finding {
        Finding::Binary(binary) if binary.part == Part::PackedSplitDwarf => return None,
        Finding::Binary(binary) => Checked {
            path: binary.label.clone(),
            build_id: Some(binary.build_id.to_string()),
            verdict: Verdict::new(VerdictStatus::UnknownBuildId),
        },
        Finding::WithoutBuildId(found) => {
            let advice = found.advice();
            without_id(found.label, VerdictStatus::NoBuildId, advice)
        }
        Finding::Unreadable { label, reason } => {
            without_id(label, VerdictStatus::Unreadable, reason)
        }
        Finding::Nothing { label } => {
            let reason = "there is no binary in it; is it the right folder?".to_owned();
            without_id(label, VerdictStatus::Unreadable, reason)
        }
        Finding::Skipped { .. } => return None,
    })
}

/// What the store can do for a build ID; waits while it is being converted.
async fn judge(
    client: &Client,
    build_id: &str,
    minimum: Quality,
    deadline: Instant,
) -> Result<Verdict, ClientError> {
    loop {
        let state = client.build_id_state(build_id).await?;
        let verdict = Verdict::of(state.as_ref(), minimum);
        let is_final = verdict.status != VerdictStatus::Pending;
        if is_final || Instant::now() + POLL_INTERVAL > deadline {
            return Ok(verdict);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn print(files: &[Checked], ok: bool, args: &Args) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        let document = Document { ok, files };
        writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
        return Ok(());
    }
    let mut table = Table::new(&["STATUS", "BUILD ID", "QUALITY", "FILE"]);
    for file in files {
        table.row(vec![
            file.verdict.status.word().to_owned(),
            file.build_id.clone().unwrap_or_else(|| "-".to_owned()),
            file.verdict.quality.map_or("-", Quality::as_str).to_owned(),
            file.path.to_string(),
        ]);
    }
    write!(out, "{table}")?;
    for file in files {
        if let Some(detail) = &file.verdict.detail {
            writeln!(out, "{}: {detail}", file.path)?;
        }
    }
    let failed = files
        .iter()
        .filter(|file| file.verdict.status != VerdictStatus::Found);
    match failed.count() {
        0 => writeln!(out, "All {} can be symbolized.", files.len())?,
        count => writeln!(out, "{count} of {} cannot be symbolized.", files.len())?,
    }
    Ok(())
}

impl MinQuality {
    fn quality(self) -> Quality {
        match self {
            Self::Dynsym => Quality::Dynsym,
            Self::Symtab => Quality::Symtab,
            Self::GoPclntab => Quality::GoPclntab,
            Self::DwarfLines => Quality::DwarfLines,
            Self::DwarfInlines => Quality::DwarfInlines,
        }
    }
}
