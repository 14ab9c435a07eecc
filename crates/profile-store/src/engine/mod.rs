//! Queries over exactly the files of a [`Reading`], by `DataFusion`: within a limit of memory, and beyond it on disk.
//!
//! [`Engine::samples`] and [`Engine::totals`] are the rows of a reading as a `DataFrame`, deleted rows left out. Each row of the table is in
//! the samples once, and in the totals once: those of compacted hours as they lie there, those of fresh segments row by row.
//! Whoever asks adds up; sums of counts and values may need more than 64 bits.
//!
//! [`file_table`] scans a list of files and reads of them what a query needs: files of other hours, row groups of other services and columns
//! that nobody asks for are not read. [`deleted`] are the rows of tombstones as expressions, [`failure`] what went wrong in words
//! that tell a query that is too large from one that came too late.
//!
//! Work runs on threads of its own ([`Engine::run`]), so that neither ingest nor health checks wait behind it; whoever lets go of the
//! future ends the work.

mod deleted;
mod failure;
mod file_table;
mod frames;
mod threads;
mod whole_files;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use object_store::ObjectStore;

pub use failure::EngineError;
pub use file_table::ScanFile;
pub use frames::{sample_columns, total_columns};

use crate::reading::Reading;
use crate::table::fold::LiveFile;
use crate::table::names::{FileKind, Hour};
use threads::Threads;
use whole_files::WholeFiles;

/// Footers of files that are kept in memory: one has some 10 KB, and files never change.
const FOOTERS_BYTES_MAX: usize = 64 << 20;

/// Consumers of memory that an error names.
const CONSUMERS_SHOWN_MAX: usize = 3;

/// The memory that a sort keeps back to merge what it spilled.
const SORT_RESERVED_BYTES: usize = 4 << 20;

/// Which part of an engine's memory small files may take beside it.
const KEPT_PART: usize = 4;

/// The name that the store has within a plan.
const STORE_URL: &str = "table://profiles";

/// What an engine may take of the machine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Memory of all its queries at once; beyond it they spill, or fail. A quarter as much again is for small files that are kept.
    pub memory_bytes: usize,
    /// A folder for what does not fit. It belongs to this engine, which empties it at its start.
    pub spill: PathBuf,
    /// Room in that folder.
    pub spill_bytes_max: u64,
    /// Threads, and parts that a query is worked on in at once.
    pub threads: NonZeroUsize,
    /// Into how many parts for each thread few large files are cut. Rows of one service lie together in a file, so that in a part for each thread one may have
    /// all of them; but each part has memory of its own.
    pub parts_per_thread: NonZeroUsize,
}

/// Reads the table. Clones are handles to the same.
#[derive(Clone)]
pub struct Engine {
    context: SessionContext,
    files: WholeFiles,
    threads: Arc<Threads>,
    /// Of few large files.
    parts: usize,
}

impl Engine {
    /// An engine over a store.
    ///
    /// # Errors
    /// If the folder for spilling cannot be made, or no threads.
    pub fn new(store: Arc<dyn ObjectStore>, options: &EngineOptions) -> Result<Self, EngineError> {
        empty(&options.spill).map_err(|source| EngineError::Spill {
            folder: options.spill.clone(),
            source,
        })?;
        let spill = DiskManagerMode::Directories(vec![options.spill.clone()]);
        let spill = DiskManagerBuilder::default()
            .with_mode(spill)
            .with_max_temp_directory_size(options.spill_bytes_max);
        let shown = NonZeroUsize::new(CONSUMERS_SHOWN_MAX).unwrap_or(NonZeroUsize::MIN);
        let pool = TrackConsumersPool::new(FairSpillPool::new(options.memory_bytes), shown);
        let runtime = RuntimeEnvBuilder::new()
            .with_disk_manager_builder(spill)
            .with_memory_pool(Arc::new(pool))
            .with_metadata_cache_limit(FOOTERS_BYTES_MAX)
            .build_arc()?;
        let context = SessionContext::new_with_config_rt(config(options), runtime);
        let url = store_url()?;
        context.register_object_store(url.as_ref(), Arc::clone(&store));
        let kept_bytes_max = options.memory_bytes / KEPT_PART;
        Ok(Self {
            context,
            files: WholeFiles::new(store, u64::try_from(kept_bytes_max).unwrap_or(u64::MAX)),
            threads: Arc::new(Threads::new(options.threads)?),
            parts: options
                .threads
                .saturating_mul(options.parts_per_thread)
                .get(),
        })
    }

    /// The samples of a reading: labels, stack, time, series, count, period.
    ///
    /// # Errors
    /// If the plan cannot be made.
    pub fn samples(&self, reading: &Reading) -> Result<DataFrame, EngineError> {
        let hours = reading.hours().iter();
        let files = hours.flat_map(|hour| hour.files(FileKind::Samples));
        frames::samples(self, files)
    }

    /// The totals of a reading: labels, stack, hour, count, value. Several rows of one hour may have the same stack and
    /// labels.
    ///
    /// # Errors
    /// If the plan cannot be made.
    pub fn totals(&self, reading: &Reading) -> Result<DataFrame, EngineError> {
        let hours = reading.hours().iter();
        let files = hours.flat_map(|hour| hour.files(FileKind::Totals));
        frames::totals(self, files)
    }

    /// Does some work on the engine's threads; it ends when the future is dropped.
    ///
    /// # Errors
    /// If the engine ends, or the work panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, EngineError> {
        self.threads.run(work).await
    }

    /// Bytes that its queries have now, by their own account.
    pub fn memory_bytes(&self) -> usize {
        self.context.runtime_env().memory_pool.reserved()
    }

    pub(crate) fn context(&self) -> &SessionContext {
        &self.context
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("files", &self.files)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// The rows of live files of one kind.
pub(crate) fn live_rows<'a>(
    engine: &Engine,
    kind: FileKind,
    live: impl IntoIterator<Item = (Hour, &'a LiveFile)>,
) -> Result<DataFrame, EngineError> {
    match kind {
        FileKind::Samples => frames::samples(engine, live),
        FileKind::Totals => frames::totals(engine, live),
    }
}

fn store_url() -> Result<ObjectStoreUrl, EngineError> {
    Ok(ObjectStoreUrl::parse(STORE_URL)?)
}

fn config(options: &EngineOptions) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(options.threads.get())
        .with_information_schema(false)
        // The table of files has cut them as it wants them; the optimizer would put the pieces together again.
        .with_repartition_file_scans(false)
        .with_sort_spill_reservation_bytes(SORT_RESERVED_BYTES);
    let parquet = &mut config.options_mut().execution.parquet;
    parquet.pushdown_filters = true;
    parquet.reorder_filters = true;
    // The files have neither.
    parquet.enable_page_index = false;
    parquet.bloom_filter_on_read = false;
    config
}

/// What a process left behind that was killed goes.
fn empty(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
