//! Debug files to symbol indexes, in a child process that may be killed.
//!
//! Debug files come from strangers: the child (`unhex convert-child`) has limits on memory,
//! CPU, time and output, and only what it wrote completely is looked at. [`child`] runs it,
//! [`outcome`] says what its end means, [`protocol`] is what the two say to each other, and
//! [`written`] reads the index before anybody believes it.

mod child;
mod convert;
mod failure;
mod metered;
mod outcome;
pub mod protocol;
mod written;

pub use convert::{ConversionResult, Convert};
pub use failure::{IndexFailure, IndexFailureKind};
pub use metered::MeteredConverter;

use std::path::{Path, PathBuf};
use std::time::Duration;

use unhex_symbols::quality::Quality;

use crate::limits::Limits;
use crate::metrics::QueueMeter;
use crate::queue::{ClientKey, FairQueue, QueueError, Share, Supply};

/// What a conversion takes beside its input: the program itself and its tables.
const BASE_MEMORY_BYTES: u64 = 64 << 20;

/// Starts conversion children, as many at once as their memory allows. Clones share that budget.
#[derive(Clone, Debug)]
pub struct Converter {
    program: PathBuf,
    limits: ConversionLimits,
    memory: FairQueue,
}

/// Bounds on conversion children.
#[derive(Clone, Debug)]
pub struct ConversionLimits {
    /// Wall clock of one conversion, and its CPU time.
    pub seconds_max: Duration,
    /// Address space of a child beyond its input files, which it maps.
    pub memory_bytes_max: u64,
    /// Largest symbol index that a conversion may write.
    pub output_bytes_max: u64,
    /// Memory of all children that run at once, by an estimate from the sizes of their inputs.
    pub memory_bytes_total_max: u64,
}

impl From<&Limits> for ConversionLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            seconds_max: limits.conversion_seconds_max,
            memory_bytes_max: limits.conversion_memory_bytes_max,
            output_bytes_max: limits.conversion_output_bytes_max,
            memory_bytes_total_max: limits.conversion_memory_bytes_total_max,
        }
    }
}

/// The files that one index is made from.
#[derive(Clone, Debug, Default)]
pub struct ConversionSources {
    /// The best debug file.
    pub debuginfo: Option<ConversionSource>,
    /// The executable: program headers, and symbols that the debug file lacks.
    pub executable: Option<ConversionSource>,
    /// The supplementary file that dwz made, if the debug file has one.
    pub supplement: Option<ConversionSource>,
    /// The package of split units (`.dwp`).
    pub dwp: Option<ConversionSource>,
}

/// One file that an index is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversionSource {
    /// Where it lies, complete and never changed.
    pub path: PathBuf,
    /// SHA-256 of its bytes, which the index names: the store knows it, and hashing again would
    /// cost more than the conversion.
    pub sha256: [u8; 32],
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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the converter could not be run: {detail}")]
pub struct ConverterUnavailable {
    /// What failed.
    pub detail: String,
}

impl From<QueueError> for ConverterUnavailable {
    fn from(error: QueueError) -> Self {
        Self {
            detail: format!("there is no memory for it: {error}"),
        }
    }
}

impl Converter {
    /// A converter that starts `program`, an `unhex` program; the configuration says which one,
    /// since in tests the current one is another.
    pub fn new(program: PathBuf, limits: ConversionLimits, meter: QueueMeter) -> Self {
        let total = limits.memory_bytes_total_max.max(1);
        // They are this server's own, all of them.
        let supply = Supply {
            total,
            per_client_max: total,
        };
        Self {
            program,
            limits,
            memory: FairQueue::new(supply, meter),
        }
    }

    /// Runs a child that converts `sources` into a new file at `output`, within the limits. Waits
    /// until the children that run leave enough memory. When the future is dropped, the child is
    /// killed. What it wrote is as long as it says, and not looked at.
    ///
    /// The outer error means that nothing is known of the files; the inner one is a fact about
    /// them. After either one, nothing is left at `output`.
    ///
    /// # Errors
    /// If the child cannot be started, its disk is full, or somebody else kills it.
    async fn run(&self, sources: &ConversionSources, output: &Path) -> ConversionResult {
        let _memory = self.reserve_memory(sources).await?;
        let ended = child::run(&self.program, &self.limits, sources, output).await?;
        let outcome = outcome::of(&ended, &self.limits)
            .and_then(|outcome| written_completely(outcome, output));
        if !matches!(outcome, Ok(Ok(_))) {
            let _absent_is_fine = tokio::fs::remove_file(output).await;
        }
        outcome
    }

    async fn reserve_memory(
        &self,
        sources: &ConversionSources,
    ) -> Result<Share, ConverterUnavailable> {
        let mut input_bytes = 0_u64;
        for ConversionSource { path, .. } in sources.all() {
            let metadata = tokio::fs::metadata(path).await.map_err(|error| {
                let detail = format!("{} cannot be read: {error}", path.display());
                ConverterUnavailable { detail }
            })?;
            input_bytes = input_bytes.saturating_add(metadata.len());
        }
        // Compressed debug sections are a third of what they hold, and peak memory is the sections
        // plus the output.
        let estimate = input_bytes
            .saturating_mul(3)
            .saturating_add(BASE_MEMORY_BYTES);
        let bytes = estimate.min(self.limits.memory_bytes_max);
        Ok(self.memory.take(ClientKey::SERVER, bytes, None).await?)
    }
}

impl ConversionSources {
    /// The files that are there, in the order in which an index names them.
    fn all(&self) -> impl Iterator<Item = &ConversionSource> {
        [
            &self.debuginfo,
            &self.executable,
            &self.supplement,
            &self.dwp,
        ]
        .into_iter()
        .flatten()
    }
}

/// The outcome, unless the index is not as long on disk as the child says.
fn written_completely(outcome: Result<Converted, IndexFailure>, output: &Path) -> ConversionResult {
    let Ok(converted) = &outcome else {
        return Ok(outcome);
    };
    match std::fs::metadata(output) {
        Ok(metadata) if metadata.len() == converted.size_bytes => Ok(outcome),
        Ok(metadata) => Err(ConverterUnavailable {
            detail: format!(
                "it says that it wrote {} bytes, but {} are there",
                converted.size_bytes,
                metadata.len()
            ),
        }),
        Err(error) => Err(ConverterUnavailable {
            detail: format!("its output cannot be read: {error}"),
        }),
    }
}

#[cfg(test)]
mod tests;
