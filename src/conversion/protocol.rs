//! What parent and child say to each other: flags in, one line of JSON out.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use serde::{Deserialize, Serialize};
use unhex_build_id::Hex;

use super::{ConversionSource, Converted, IndexFailure};

/// The name of the hidden command.
pub const COMMAND: &str = "convert-child";

/// The flags of the hidden command `unhex convert-child`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct ConvertChildArgs {
    /// The best debug file.
    #[arg(long, value_parser = OsStringValueParser::new().try_map(|argument| SourceArg::parse(&argument)))]
    pub debuginfo: Option<SourceArg>,
    /// The executable.
    #[arg(long, value_parser = OsStringValueParser::new().try_map(|argument| SourceArg::parse(&argument)))]
    pub executable: Option<SourceArg>,
    /// The supplementary file.
    #[arg(long, value_parser = OsStringValueParser::new().try_map(|argument| SourceArg::parse(&argument)))]
    pub supplement: Option<SourceArg>,
    /// The package of split units.
    #[arg(long, value_parser = OsStringValueParser::new().try_map(|argument| SourceArg::parse(&argument)))]
    pub dwp: Option<SourceArg>,
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

/// A source as one argument: its SHA-256 in hex, a colon, its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceArg(pub ConversionSource);

/// An argument that is no [`SourceArg`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a source is 64 hex digits, a colon and a path")]
pub struct ParseSourceArgError;

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
    pub(super) fn to_arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![COMMAND.into()];
        let paths = [
            (
                "--debuginfo",
                self.debuginfo.as_ref().map(SourceArg::to_argument),
            ),
            (
                "--executable",
                self.executable.as_ref().map(SourceArg::to_argument),
            ),
            (
                "--supplement",
                self.supplement.as_ref().map(SourceArg::to_argument),
            ),
            ("--dwp", self.dwp.as_ref().map(SourceArg::to_argument)),
            ("--output", Some(self.output.clone().into())),
        ];
        for (flag, value) in paths {
            if let Some(value) = value {
                // One argument, so that a path that starts with a dash is no flag.
                let mut argument = OsString::from(format!("{flag}="));
                argument.push(value);
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

impl From<&ConversionSource> for SourceArg {
    fn from(source: &ConversionSource) -> Self {
        Self(source.clone())
    }
}

impl SourceArg {
    fn to_argument(&self) -> OsString {
        let mut argument = OsString::new();
        argument.push(Hex(&self.0.sha256).to_string());
        argument.push(":");
        argument.push(&self.0.path);
        argument
    }

    fn parse(argument: &OsStr) -> Result<Self, ParseSourceArgError> {
        let (hex, path) = argument
            .as_bytes()
            .split_at_checked(64)
            .ok_or(ParseSourceArgError)?;
        let path = path.strip_prefix(b":").ok_or(ParseSourceArgError)?;
        let mut sha256 = [0; 32];
        for (byte, digits) in sha256.iter_mut().zip(hex.as_chunks::<2>().0) {
            let digits = std::str::from_utf8(digits).map_err(|_no_text| ParseSourceArgError)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_no_hex| ParseSourceArgError)?;
        }
        let path = PathBuf::from(OsStr::from_bytes(path));
        Ok(Self(ConversionSource { path, sha256 }))
    }
}
