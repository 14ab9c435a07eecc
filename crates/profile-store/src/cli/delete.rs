//! `unhex-store delete`: profiles that should not be there, by label and whole hours.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Deserialize;

use super::store::{StoreArgs, finish};

const EXAMPLES: &str = "\
Examples:
  unhex-store delete '{service=\"checkout\",version=\"2.4-test\"}' --from 2026-12-01T13:00:00Z --to 2026-12-01T15:00:00Z
      Deletes what this version sent in two hours, of all types. It cannot be undone.

Queries miss the rows within seconds; the files lose them when they are compacted anew. What comes later with
the same labels and of the same hours is deleted, too.";

/// Delete profiles by label, for mistakes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Whose: `=` matchers of service, version and deployment, at least one.
    #[arg(value_name = "SELECTOR")]
    query: String,
    /// The first hour: a whole one in UTC, RFC 3339 or seconds since 1970.
    #[arg(long, value_name = "TIME")]
    from: String,
    /// The end, which is not deleted any more: a whole hour, too.
    #[arg(long, value_name = "TIME")]
    to: String,
    /// One type of profile, as `cpu` [default: all].
    #[arg(long, value_name = "TYPE")]
    r#type: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

/// What was deleted, as far as it is shown.
#[derive(Debug, Deserialize)]
struct Answer {
    hours: Vec<String>,
    hours_before: usize,
}

/// Deletes; success means that the store has done it.
pub(super) fn run(arguments: Args) -> ExitCode {
    finish("delete", async {
        let mut what = BTreeMap::from([
            ("query", arguments.query),
            ("from", arguments.from),
            ("to", arguments.to),
        ]);
        what.extend(arguments.r#type.map(|of| ("type", of)));
        let store = arguments.store.store()?;
        let answer = store.delete("profiles", &what).await?;
        let answer: Answer = serde_json::from_slice(&answer).context("this is no store")?;
        let mut out = std::io::stdout().lock();
        for hour in &answer.hours {
            writeln!(out, "deleted of {hour}")?;
        }
        let (hours, before) = (answer.hours.len(), answer.hours_before);
        writeln!(out, "{hours} hours, {before} of them were deleted before")?;
        Ok(ExitCode::SUCCESS)
    })
}
