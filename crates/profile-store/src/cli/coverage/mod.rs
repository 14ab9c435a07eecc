//! `unhex-store coverage`: how much of the CPU time has its names, and what to do next for the rest.

mod advice;

use std::process::ExitCode;

use jiff::Timestamp;

use super::query::{Asked, Form, WindowArgs, print};
use super::store::{StoreArgs, finish};
use crate::answers::CoverageAnswer;
use crate::answers::questions::CoverageQuestion;

const EXAMPLES: &str = "\
Examples:
  unhex-store coverage
      What to upload or turn on, of all services in the last hour, by CPU share.
  unhex-store coverage '{service=\"checkout\"}' --since 7d --min-share 1
      Of one service, what concerns at least 1 % of its CPU time.
  unhex-store coverage --all --group-by service
      Everything that has names, too, and the kernel and the vdso.

The vdso, code of just-in-time compilers and memory without a file have no symbols anywhere; they never count as missing.";

/// Say what is missing for complete names, by CPU share.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    window: WindowArgs,
    /// What rows are made by: any of service, version, deployment and binary, with commas [default: all].
    #[arg(long, value_name = "NAMES")]
    group_by: Option<String>,
    /// The least share of the CPU time of its service and version that is listed, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1)]
    min_share: f64,
    /// List what is in order, too.
    #[arg(long)]
    all: bool,
    /// How many rows at most.
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// What is printed.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    store: StoreArgs,
}

/// Asks; success means that there was an answer.
pub(super) fn run(arguments: Args) -> ExitCode {
    finish("coverage", async {
        let Asked { query, from, to } = arguments.window.asked(Timestamp::now())?;
        let question = CoverageQuestion {
            query: Some(query),
            from: Some(from.to_string()),
            to: Some(to.to_string()),
            group_by: arguments.group_by,
            step: None,
            limit: arguments.limit.map(|limit| limit.to_string()),
        };
        let listed = advice::Listed {
            share_min: arguments.min_share / 100.0,
            is_all: arguments.all,
        };
        let table = |answer: &CoverageAnswer| advice::text(answer, listed);
        let store = arguments.store.store()?;
        print(
            &store,
            ("query/coverage", &question),
            arguments.format,
            table,
        )
        .await?;
        Ok(ExitCode::SUCCESS)
    })
}
