//! Counts conversions by what came of them, whoever asks for them.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::{ConversionResult, ConversionSources, Convert, Converter, IndexFailureKind};
use crate::metrics::Metrics;

/// A converter whose conversions are counted.
#[derive(Clone, Debug)]
pub struct MeteredConverter {
    /// What converts.
    pub converter: Converter,
    /// What counts.
    pub metrics: Arc<Metrics>,
}

impl Convert for MeteredConverter {
    fn version(&self) -> u32 {
        self.converter.version()
    }

    fn convert<'a>(
        &'a self,
        sources: &'a ConversionSources,
        output: &'a Path,
    ) -> BoxFuture<'a, ConversionResult> {
        async move {
            let _running = self.metrics.conversion_running();
            let started = Instant::now();
            let result = Convert::convert(&self.converter, sources, output).await;
            self.metrics.converted(outcome(&result), started.elapsed());
            result
        }
        .boxed()
    }
}

/// The word of the metric for a result.
fn outcome(result: &ConversionResult) -> &'static str {
    match result {
        Ok(Ok(_)) => "converted",
        Ok(Err(failure)) => match failure.kind {
            IndexFailureKind::Malformed => "malformed",
            IndexFailureKind::Unsupported => "unsupported",
            IndexFailureKind::TooLarge => "too_large",
            IndexFailureKind::Timeout => "timeout",
        },
        Err(_unavailable) => "unavailable",
    }
}
