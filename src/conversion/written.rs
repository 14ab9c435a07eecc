//! Reads an index back that a child has just written: one that is published is believed by every
//! server that finds it.
//!
//! What is wrong with an index of this program's own version is a fact about its sources, as a
//! converter that dies on them is. An index of another version says that the wrong program was run.

use std::fs::File;
use std::path::Path;

use memmap2::Mmap;
use unhex_symbols::CONVERTER_VERSION;
use unhex_symbols::index::{Facts, IndexError, SymbolIndex};

use super::{
    ConversionResult, ConversionSources, Converted, ConverterUnavailable, IndexFailure,
    IndexFailureKind,
};

/// The result of a conversion that wrote `output`, once that was read.
pub(super) async fn check(
    converted: Converted,
    sources: &ConversionSources,
    output: &Path,
) -> ConversionResult {
    let expected: Vec<[u8; 32]> = sources.all().map(|source| source.sha256).collect();
    let path = output.to_owned();
    let reading = tokio::task::spawn_blocking(move || {
        let checked = read(converted, &expected, &path);
        if !matches!(checked, Ok(Ok(_))) {
            remove(&path);
        }
        checked
    });
    reading.await.unwrap_or_else(|error| {
        Err(unavailable(format!(
            "its index was not read to the end: {error}"
        )))
    })
}

fn read(converted: Converted, sources: &[[u8; 32]], output: &Path) -> ConversionResult {
    let unread = |error| unavailable(format!("its index cannot be read: {error}"));
    let facts = match facts(&map(output).map_err(unread)?) {
        Ok(facts) => facts,
        Err(error @ (IndexError::NotAnIndex | IndexError::UnknownVersion { .. })) => {
            return Err(unavailable(error.to_string()));
        }
        Err(error) => {
            return Ok(Err(IndexFailure {
                kind: IndexFailureKind::Malformed,
                detail: format!("the converter made an index that cannot be read: {error}"),
            }));
        }
    };
    if facts.converter_version != CONVERTER_VERSION {
        return Err(unavailable(format!(
            "it is version {} of the converter, this server has version {CONVERTER_VERSION}",
            facts.converter_version
        )));
    }
    if facts.sources != sources {
        return Err(unavailable("its index is of other files".to_owned()));
    }
    Ok(Ok(converted))
}

/// What a whole and sound index says of itself.
fn facts(bytes: &[u8]) -> Result<Facts, IndexError> {
    let index = SymbolIndex::parse(bytes)?;
    index.verify()?;
    index.facts()
}

#[expect(
    unsafe_code,
    reason = "an index may be larger than the memory that reading it may take"
)]
fn map(output: &Path) -> std::io::Result<Mmap> {
    let file = File::open(output)?;
    // SAFETY: the child that wrote the file has ended, with everything that it started, and nobody
    // else knows the path yet.
    unsafe { Mmap::map(&file) }
}

fn remove(output: &Path) {
    if let Err(error) = std::fs::remove_file(output) {
        tracing::warn!(%error, "an index of no use stays until the server stops");
    }
}

fn unavailable(detail: String) -> ConverterUnavailable {
    ConverterUnavailable { detail }
}
