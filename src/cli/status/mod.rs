//! `unhex status`: what the store knows of one build ID and why it is not better; which have no symbols; whether the server is well.

mod missing;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use indicatif::HumanBytes;
use unhex_api::artifacts::{ArtifactKind, BuildIdState, IndexState, StoredArtifact};
use unhex_api::client::{Client, UnknownFilter};
use unhex_build_id::BuildId;
use unhex_symbols::elf::ElfSummary;

use super::binaries::Mapped;
use super::connection::{ConnectionArgs, finish};
use super::table::Table;

const EXAMPLES: &str = "\
Examples:
  unhex status
      Is the server there, and ready?
  unhex status 9a0f2c...
      Which files there are of this build, who brought them, and what its symbols are good for.
  unhex status --json target/release/checkout
      The same by a file that has the build ID, as JSON.
  unhex status --unknown --service checkout
      Which build IDs of its profiles have no symbols, how much of it each is, since when.
  unhex status 9a0f2c... --ignore 'the vendor ships no symbols'
      No alert is about it any more; --stop-ignoring takes that back. Needs the write token.
  unhex status --ignored
      Which build IDs are ignored, who decided so, when and why.

Exit status: 0 when the server is ready, knows the build ID, or has no unknown ones; 1 when not; 2
when it could not be asked.";

/// Show what the store knows of a build ID, or whether the server is well.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(super) struct Args {
    /// A build ID in hex, or a file that has one.
    #[arg(value_name = "ID")]
    build_id: Option<String>,

    /// List the build IDs that profiles had and that have no symbols.
    #[arg(long, conflicts_with = "build_id")]
    unknown: bool,

    /// List the build IDs that somebody ignored, and why.
    #[arg(long, conflicts_with_all = ["build_id", "unknown"])]
    ignored: bool,

    /// Of the unknown ones, only what this service sent.
    #[arg(long, value_name = "NAME", requires = "unknown")]
    service: Option<String>,

    /// Only what this version of the service sent.
    #[arg(long, value_name = "VERSION", requires = "unknown")]
    service_version: Option<String>,

    /// Only what was sent from this deployment.
    #[arg(long, value_name = "NAME", requires = "unknown")]
    deployment: Option<String>,

    /// Let nobody be told of this build ID any more, and keep the reason.
    #[arg(
        long,
        value_name = "REASON",
        requires = "build_id",
        conflicts_with = "stop_ignoring"
    )]
    ignore: Option<String>,

    /// Take an --ignore back.
    #[arg(long, requires = "build_id")]
    stop_ignoring: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// For whom something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Shows it; success means that the server is ready, knows the build ID, or has no unknown ones.
pub(super) fn run(args: Args) -> ExitCode {
    finish("status", status(args))
}

async fn status(args: Args) -> anyhow::Result<ExitCode> {
    let client = args.connection.client()?;
    let form = if args.json { Form::Json } else { Form::Text };
    let is_well = match &args.build_id {
        Some(text) => {
            let build_id = build_id(text)?;
            match &args.ignore {
                Some(reason) => missing::ignore(&client, &build_id, reason).await?,
                None if args.stop_ignoring => missing::stop_ignoring(&client, &build_id).await?,
                None => build_id_status(&client, &build_id, form).await?,
            }
        }
        None if args.unknown => {
            let filter = UnknownFilter {
                service: args.service,
                version: args.service_version,
                deployment: args.deployment,
            };
            missing::list(&client, &filter, form).await?
        }
        None if args.ignored => missing::list_ignored(&client, form).await?,
        None => server_status(&client, form).await?,
    };
    Ok(if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The build ID that the text is, or that the file of that name has.
fn build_id(text: &str) -> anyhow::Result<BuildId> {
    let error = match text.parse() {
        Ok(build_id) => return Ok(build_id),
        Err(error) => error,
    };
    let path = Path::new(text);
    if !path.try_exists().with_context(|| text.to_owned())? {
        let words = format!("{text:?} is neither a build ID nor a file");
        return Err(anyhow::Error::new(error).context(words));
    }
    let summary = ElfSummary::read(&Mapped::open(path)?).with_context(|| text.to_owned())?;
    summary
        .build_id
        .with_context(|| format!("{text} has no build ID; link it with: -Wl,--build-id=sha1"))
}

async fn server_status(client: &Client, form: Form) -> anyhow::Result<bool> {
    let health = client.health().await?;
    let mut out = io::stdout().lock();
    if form == Form::Json {
        let document = serde_json::json!({
            "server": client.server(),
            "ready": health.is_ready,
            "program": health.program,
            "detail": health.detail,
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
    } else {
        let word = if health.is_ready {
            "ready"
        } else {
            "not ready"
        };
        writeln!(out, "{} is {word}", client.server())?;
        if !health.is_ready && !health.detail.is_empty() {
            writeln!(out, "{}", health.detail)?;
        }
    }
    Ok(health.is_ready)
}

async fn build_id_status(client: &Client, build_id: &BuildId, form: Form) -> anyhow::Result<bool> {
    let text = build_id.to_string();
    let state = client.build_id_state(&text).await?;
    let unknown = client.unknown_build_id(&text).await?;
    let mut out = io::stdout().lock();
    if form == Form::Json {
        let mut document = match &state {
            Some(state) => serde_json::to_value(state)?,
            None => serde_json::json!({ "build_id": text, "artifacts": [] }),
        };
        if let (Some(unknown), Some(members)) = (&unknown, document.as_object_mut()) {
            members.insert("unknown".to_owned(), serde_json::to_value(unknown)?);
        }
        writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
        return Ok(state.is_some());
    }
    match (&state, &unknown) {
        (Some(state), _) => write_state(&mut out, state)?,
        (None, Some(_)) => {}
        (None, None) => {
            writeln!(out, "{build_id} is unknown to {}", client.server())?;
            writeln!(out, "Upload its debug file: unhex upload PATH")?;
        }
    }
    if let Some(unknown) = &unknown {
        if state.is_some() {
            writeln!(out, "\nProfiles have it, and it has no symbols:")?;
        }
        missing::write_one(&mut out, unknown)?;
    }
    Ok(state.is_some())
}

/// The state in lines and a table of its files.
fn write_state(out: &mut impl Write, state: &BuildIdState) -> io::Result<()> {
    writeln!(out, "build ID   {}", state.build_id)?;
    writeln!(out, "quality    {}", state.quality.as_str())?;
    writeln!(out, "index      {}", index_words(state))?;
    if let Some(detail) = &state.detail {
        writeln!(out, "note       {detail}")?;
    }
    if let Some(build_id) = &state.needs_supplement {
        writeln!(
            out,
            "needs      the supplementary (dwz) file {build_id}; upload it"
        )?;
    }
    if !state.artifacts.is_empty() {
        let mut table = Table::new(&[
            "KINDS", "QUALITY", "SIZE", "ORIGIN", "UPLOADED", "BY", "FILE",
        ]);
        for artifact in &state.artifacts {
            table.row(artifact_row(artifact));
        }
        write!(out, "\n{table}")?;
    }
    for conflict in &state.conflicts {
        let sha256 = &conflict.artifact.sha256;
        writeln!(
            out,
            "\nconflict: {sha256} is other code: {}",
            conflict.difference
        )?;
    }
    for refusal in &state.refusals {
        writeln!(out, "\nrefused: {refusal}")?;
    }
    Ok(())
}

fn index_words(state: &BuildIdState) -> String {
    let word = match state.index {
        None => "none: there is nothing to convert",
        Some(IndexState::Ready) => "ready",
        Some(IndexState::Converting) => "being converted",
        Some(IndexState::Failed) => "failed",
        Some(_) => "in a state that this version does not know",
    };
    match (state.functions, state.lines) {
        (Some(functions), Some(lines)) => format!("{word}, {functions} functions, {lines} lines"),
        _ => word.to_owned(),
    }
}

fn artifact_row(artifact: &StoredArtifact) -> Vec<String> {
    let kinds: Vec<&str> = artifact
        .kinds
        .iter()
        .map(|kind: &ArtifactKind| kind.as_str())
        .collect();
    let by = artifact.who.as_deref().or(artifact.from.as_deref());
    vec![
        kinds.join("+"),
        artifact.quality.as_str().to_owned(),
        HumanBytes(artifact.size_bytes).to_string(),
        artifact.origin.as_str().to_owned(),
        artifact.uploaded_at.clone(),
        by.unwrap_or("-").to_owned(),
        artifact.file_name.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}
