//! Why a query failed: too large, too late, or for a reason that only its text tells.

use std::error::Error;
use std::path::PathBuf;

use datafusion::common::DataFusionError;
use parquet::errors::ParquetError;

/// A query that failed, or an engine that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// It needs more memory than there is, also by way of the disk. A shorter time, or fewer at once, may do.
    #[error("the query needs more memory than it may have: {0}")]
    Memory(String),
    /// A file of the reading was swept. Another reading has what replaced it.
    #[error("a file is gone since the table was listed: {0}")]
    Gone(String),
    /// Anything else, as a file that is damaged or a store that is away.
    #[error("the query failed")]
    Query(#[source] Box<DataFusionError>),
    /// The folder for what does not fit into memory cannot be used.
    #[error("the folder {folder:?} for spilled rows cannot be used")]
    Spill {
        /// Which folder.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No threads.
    #[error("threads for queries cannot be started")]
    Threads(#[source] std::io::Error),
    /// The program ends.
    #[error("the engine has ended")]
    Ended,
    /// A fault of this program, whose message is in the log.
    #[error("the query ended by a fault of the program")]
    Panicked,
}

impl From<DataFusionError> for EngineError {
    fn from(error: DataFusionError) -> Self {
        if let DataFusionError::ResourcesExhausted(text) = error.find_root() {
            return Self::Memory(text.clone());
        }
        match gone(&error) {
            Some(path) => Self::Gone(path),
            None => Self::Query(Box::new(error)),
        }
    }
}

/// The key that the store did not have, wherever in the chain it says so.
fn gone(error: &DataFusionError) -> Option<String> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        let found = error.downcast_ref::<object_store::Error>().or_else(|| {
            error
                .downcast_ref::<Box<object_store::Error>>()
                .map(|e| &**e)
        });
        if let Some(object_store::Error::NotFound { path, .. }) = found {
            return Some(path.clone());
        }
        if let Some(path) = error.downcast_ref().and_then(gone_footer) {
            return Some(path);
        }
        next = error.source();
    }
    None
}

/// `DataFusion` keeps of a footer that cannot be fetched the text alone: that of [`object_store::Error::NotFound`].
fn gone_footer(error: &ParquetError) -> Option<String> {
    let ParquetError::General(text) = error else {
        return None;
    };
    let (_, rest) = text.split_once("Object at location ")?;
    let (path, _) = rest.split_once(" not found")?;
    Some(path.to_owned())
}
