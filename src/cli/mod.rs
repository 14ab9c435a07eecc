//! One file a command: each has its arguments as a `clap::Args` and a `run` that takes them.

mod binaries;
mod check;
mod connection;
mod convert_child;
mod log_lines;
mod serve;
mod status;
mod symbolize;
mod table;
mod upload;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::conversion::protocol::ConvertChildArgs;

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
  unhex upload --with-sources ./program
      Sends the program, its debug information and its sources there.
  unhex symbolize --binary ./program 0x1139
      Prints the function, file and line at an address.
  DEBUGINFOD_URLS=http://127.0.0.1:8002 gdb ./program
      gdb finds names, lines and sources there.

`unhex COMMAND --help` says more, with examples.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the symbol server.
    Serve(Box<serve::Args>),
    /// Upload binaries, debug files and sources.
    Upload(Box<upload::Args>),
    /// Fail when the store cannot symbolize a binary.
    Check(Box<check::Args>),
    /// Turn addresses into functions, files and lines.
    Symbolize(Box<symbolize::Args>),
    /// Show what the store knows of a build ID, or whether the server is well.
    Status(Box<status::Args>),
    /// Convert one debug file; the server starts this itself.
    #[command(hide = true)]
    ConvertChild(Box<ConvertChildArgs>),
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Upload(arguments) => upload::run(*arguments),
        Command::Check(arguments) => check::run(*arguments),
        Command::Symbolize(arguments) => symbolize::run(*arguments),
        Command::Status(arguments) => status::run(*arguments),
        Command::ConvertChild(arguments) => convert_child::run(*arguments),
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
