//! One file a command: each has its arguments as a `clap::Args` and a `run` that takes them.

mod background;
mod engines;
mod log;
mod record;
mod run;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::restraint;

/// A host agent: whole-host CPU profiles, by build ID and address, with labels.
#[derive(Debug, Parser)]
#[command(name = "unhex-agent", version, about, long_about = None, after_help = EXAMPLES,
          args_conflicts_with_subcommands = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::Args,
}

const EXAMPLES: &str = "\
Examples:
  unhex-agent --store http://profiles.example:8003
      Samples everything on this host 19 times a second, and sends it to a profile store.
  unhex-agent record --duration 10s --out cpu.pb.gz --server http://symbols.example:8002
      Samples for ten seconds, asks a symbol server for names, and writes a pprof file.

`unhex-agent COMMAND --help` says more. It needs root, or five capabilities: docs/agent.md.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Sample this host and send profiles until it is stopped; what happens without a command.
    Run(Box<run::Args>),
    /// Sample this host for a while and write a pprof file.
    Record(Box<record::Args>),
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    restraint::keep_memory_small();
    let Arguments { command, run } = Arguments::parse();
    let done = match command {
        None => run::run(run),
        Some(Command::Run(arguments)) => run::run(*arguments),
        Some(Command::Record(arguments)) => record::run(*arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is no other place to say it.
            let _nobody_reads = writeln!(std::io::stderr(), "unhex-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_declared_soundly() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_flag_is_in_the_document() {
        let path = unhex_testkit::repository::root().join("docs/agent.md");
        let document = std::fs::read_to_string(path).unwrap();
        let command = Arguments::command();
        let commands = command.get_subcommands().chain([&command]);
        let flags = commands.flat_map(clap::Command::get_arguments);
        for flag in flags.filter_map(clap::Arg::get_long) {
            assert!(document.contains(&format!("--{flag}")), "--{flag}");
        }
    }

    #[test]
    fn without_a_command_it_runs() {
        let parsed = Arguments::try_parse_from(["unhex-agent", "--store", "http://x"]).unwrap();
        assert!(parsed.command.is_none());
        let record = ["unhex-agent", "record", "--duration", "2s", "--out", "f"];
        let parsed = Arguments::try_parse_from(record).unwrap();
        assert!(matches!(parsed.command, Some(Command::Record(_))));
    }
}
