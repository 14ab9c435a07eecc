//! One file a command: each has its arguments as a `clap::Args` and a `run` that takes them.

mod amounts;
mod coverage;
mod delete;
mod log_lines;
mod query;
mod serve;
mod store;
mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A profile store: profiles go in by OTLP and as pprof, and come out merged, with names.
#[derive(Debug, Parser)]
#[command(name = "unhex-store", version, about, long_about = None, after_help = EXAMPLES,
          arg_required_else_help = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  unhex-store serve
      Serves on 127.0.0.1:8003, keeps everything in ./unhex-store-data, and asks the symbol server
      at 127.0.0.1:8002 for names.
  curl --data-binary @cpu.pprof 'http://127.0.0.1:8003/profiles?service=checkout&version=2.4'
      Stores a profile.
  unhex-store query top '{service=\"checkout\"}'
      Shows the functions with the most CPU time.
  unhex-store coverage
      Says what to upload or turn on, so that all of it has names.

`unhex-store COMMAND --help` says more, with examples.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the profile store.
    Serve(Box<serve::Args>),
    /// Ask a store for labels, series, profiles and functions.
    Query(Box<query::Args>),
    /// Say what is missing for complete names, by CPU share.
    Coverage(Box<coverage::Args>),
    /// Delete profiles by label, for mistakes.
    Delete(Box<delete::Args>),
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Query(arguments) => query::run(*arguments),
        Command::Coverage(arguments) => coverage::run(*arguments),
        Command::Delete(arguments) => delete::run(*arguments),
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
}
