//! Debug files to symbol indexes, in a child process that may be killed.
//!
//! Debug files come from strangers: the child has limits on memory, CPU, time and output, and only
//! what it wrote completely is looked at.

use std::path::{Path, PathBuf};

use unhex_symbols::quality::Quality;

use crate::artifacts::IndexFailure;

/// Starts conversion children.
#[derive(Clone, Debug)]
pub struct Converter {
    /// The `unhex` program; the configuration says which, since in tests the current one is another.
    pub program: PathBuf,
}

/// The files that one index is made from.
#[derive(Clone, Debug, Default)]
pub struct ConversionSources {
    /// The best debug file.
    pub debuginfo: Option<PathBuf>,
    /// The executable: program headers, and symbols that the debug file lacks.
    pub executable: Option<PathBuf>,
}

/// What a finished conversion says of the index that it wrote.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Converted {
    /// What its symbols are good for.
    pub quality: Quality,
    /// Functions in the index.
    pub functions: u64,
    /// Rows with a line in the index.
    pub lines: u64,
    /// DWARF units that were skipped since they are damaged.
    pub units_failed: u32,
    /// Build ID, in hex, of the supplementary file that was not at hand.
    pub needs_supplement: Option<String>,
    /// The version of the converter that made it.
    pub converter_version: u32,
    /// Length of the index.
    pub size_bytes: u64,
}

/// A conversion that could not even be tried; it says nothing of the file and is never remembered.
#[derive(Debug, thiserror::Error)]
#[error("the converter could not be run: {detail}")]
pub struct ConverterUnavailable {
    /// What failed.
    pub detail: String,
}

impl Converter {
    /// Converts `sources` into a new file at `output`, within the limits.
    ///
    /// The outer error means that nothing is known of the files; the inner one is a fact about them.
    ///
    /// # Errors
    /// If the child cannot be started or its disk is full.
    #[expect(
        clippy::unused_async,
        reason = "the seam is settled before its child is there"
    )]
    pub async fn convert(
        &self,
        _sources: &ConversionSources,
        _output: &Path,
    ) -> Result<Result<Converted, IndexFailure>, ConverterUnavailable> {
        Err(ConverterUnavailable {
            detail: "not built yet".to_owned(),
        })
    }
}
