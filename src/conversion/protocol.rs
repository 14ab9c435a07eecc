//! What parent and child say to each other: flags in, one line of JSON out.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Converted;
use crate::artifacts::IndexFailure;

/// The name of the hidden command.
pub const COMMAND: &str = "convert-child";

/// The flags of the hidden command `unhex convert-child`.
#[derive(Clone, Debug, clap::Args)]
pub struct ConvertChildArgs {
    /// The best debug file.
    #[arg(long)]
    pub debuginfo: Option<PathBuf>,
    /// The executable.
    #[arg(long)]
    pub executable: Option<PathBuf>,
    /// Where the index goes; must not exist yet.
    #[arg(long)]
    pub output: PathBuf,
    /// Address space beyond the mapped inputs, in bytes.
    #[arg(long)]
    pub memory_bytes_max: u64,
    /// CPU time, in seconds.
    #[arg(long)]
    pub cpu_seconds_max: u64,
    /// Longest index, in bytes.
    #[arg(long)]
    pub output_bytes_max: u64,
}

/// What the child prints before it exits with 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildReport {
    /// The index is at the output path, complete.
    Converted(Converted),
    /// There is no index, and that is a fact about the input.
    Failed(IndexFailure),
    /// There is no index, and that says nothing of the input, such as a full disk.
    Unavailable {
        /// What failed.
        detail: String,
    },
}

impl ConvertChildArgs {
    /// The arguments that [`clap`] parses into this again.
    pub(super) fn to_arguments(&self) -> Vec<std::ffi::OsString> {
        let mut arguments = vec![COMMAND.into()];
        let paths = [
            ("--debuginfo", self.debuginfo.as_ref()),
            ("--executable", self.executable.as_ref()),
            ("--output", Some(&self.output)),
        ];
        for (flag, path) in paths {
            if let Some(path) = path {
                // One argument, so that a path that starts with a dash is no flag.
                let mut argument = std::ffi::OsString::from(format!("{flag}="));
                argument.push(path);
                arguments.push(argument);
            }
        }
        for (flag, number) in [
            ("--memory-bytes-max", self.memory_bytes_max),
            ("--cpu-seconds-max", self.cpu_seconds_max),
            ("--output-bytes-max", self.output_bytes_max),
        ] {
            arguments.push(format!("{flag}={number}").into());
        }
        arguments
    }
}
