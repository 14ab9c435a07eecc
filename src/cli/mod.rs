//! One file a command: each has its arguments as a `clap::Args` and a `run` that takes them.

mod binaries;
mod connection;
mod serve;
mod upload;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A symbol server: debug files go in, debuginfod clients get them back, addresses become names.
#[derive(Debug, Parser)]
#[command(name = "unhex", version, about, long_about = None, after_help = EXAMPLES,
          arg_required_else_help = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  unhex serve
      Serves on 127.0.0.1:8002 and keeps everything in ./unhex-data.
  DEBUGINFOD_URLS=http://127.0.0.1:8002 gdb ./program
      gdb finds names, lines and sources there.

`unhex COMMAND --help` says more, with examples.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the symbol server.
    Serve(Box<serve::Args>),
    /// Upload binaries, debug files and sources.
    Upload(Box<upload::Args>),
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Upload(arguments) => upload::run(*arguments),
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
