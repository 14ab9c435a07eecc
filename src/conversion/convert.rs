//! The seam between who wants symbol indexes and what makes them.
//!
//! What is published is believed, so an index is read whole before anybody hears of it: a child of
//! another version, or with a fault, may write what this program cannot read.

use std::fmt;
use std::path::Path;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::{ConversionSources, Converted, Converter, ConverterUnavailable, IndexFailure, written};

/// What a conversion ends in: an outer error says nothing of the files, the inner one is a fact.
pub type ConversionResult = Result<Result<Converted, IndexFailure>, ConverterUnavailable>;

/// What makes symbol indexes; a seam for tests.
pub trait Convert: fmt::Debug + Send + Sync + 'static {
    /// Raised whenever it makes another index of the same files.
    fn version(&self) -> u32;

    /// Converts `sources` into a new file at `output`. What it answers has been read back: an index
    /// that it calls converted can be opened.
    fn convert<'a>(
        &'a self,
        sources: &'a ConversionSources,
        output: &'a Path,
    ) -> BoxFuture<'a, ConversionResult>;
}

impl Convert for Converter {
    fn version(&self) -> u32 {
        unhex_symbols::CONVERTER_VERSION
    }

    fn convert<'a>(
        &'a self,
        sources: &'a ConversionSources,
        output: &'a Path,
    ) -> BoxFuture<'a, ConversionResult> {
        async move {
            match self.run(sources, output).await? {
                Ok(converted) => written::check(converted, sources, output).await,
                Err(failure) => Ok(Err(failure)),
            }
        }
        .boxed()
    }
}
