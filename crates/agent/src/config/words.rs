//! Settings that are words: which engine, how the log is written, a label.

use std::str::FromStr;

use clap::ValueEnum;
use serde::Deserialize;

use super::ConfigError;

/// What takes the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineChoice {
    /// The best that the kernel allows.
    #[default]
    Auto,
    /// Stacks are unwound in the kernel.
    Ebpf,
    /// The kernel copies stacks, which are unwound here; deep ones are cut.
    PerfCopy,
}

impl EngineChoice {
    /// The word for logs, which is the engine's own.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ebpf => "ebpf",
            Self::PerfCopy => "perf_copy",
        }
    }
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// A label as it is given on a command line: `name=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(pub(super) String, pub(super) String);

impl FromStr for Label {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, value) = pair.ok_or_else(|| ConfigError::Label(text.to_owned()))?;
        Ok(Self(name.to_owned(), value.to_owned()))
    }
}
