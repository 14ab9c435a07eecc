//! The samples as a Delta Lake table, for other engines: a view that is derived from the fold, and that nothing here reads.
//!
//! Any replica may export, as often as it likes: it loads the log, compares what the fold says with what the log says, and commits the difference. A commit is made on a condition
//! and is never tried again as it is: who finds that somebody else was first loads the log and compares anew. So two replicas cost work and never a row; a
//! log that is lost, or damaged by a store that ignores conditions, is right again with the next commit.
//!
//! The log lies in `_delta_log/` at the root of the table, since paths in it are relative to where it lies. [`wanted`] is what the log should have; hours with
//! rows that are deleted and still in files are left out of it until they are compacted, since a reader of Parquet knows no tombstones.

mod log;
mod tasks;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use deltalake_core::DeltaTable;
use deltalake_core::kernel::Action;

pub use wanted::{Difference, NewFile, OldFile, difference};

use crate::clock::Clock;
use crate::objects::Objects;
use crate::reading::{ReadingError, Records};
use crate::table::fold::{FoldError, HourState};
use crate::table::names::{Hour, ObjectName};

/// How often one export compares anew since another replica was first, before it leaves it to the next one.
const ATTEMPTS_MAX: u32 = 5;

/// Writes the Delta log of a table. Keeps what it read of it.
#[derive(Debug)]
pub struct Exporter {
    objects: Objects,
    clock: Clock,
    records: Records,
    table: Option<DeltaTable>,
    counters: Arc<ExportCounters>,
}

/// Exports since the start, by how they ended.
#[derive(Debug, Default)]
pub struct ExportCounters {
    /// The log says what the fold says.
    pub written: AtomicU64,
    /// Other replicas were faster each time.
    pub busy: AtomicU64,
    /// The log could not be read or written.
    pub failed: AtomicU64,
}

/// What an export did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The version of the log that says what the fold said.
    pub version: u64,
    /// Files that were added to it.
    pub added: usize,
    /// Files that were removed from it.
    pub removed: usize,
    /// Hours that are left out until they are compacted.
    pub hours_left_out: usize,
    /// How often somebody else was first.
    pub conflicts: u32,
}

/// A log that could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The log cannot be read or written.
    #[error("the Delta log")]
    Log(#[from] deltalake_core::DeltaTableError),
    /// What lies in the store is not known.
    #[error("the table")]
    Reading(#[from] ReadingError),
    /// Other replicas were faster each time; the next export says what this one would have.
    #[error("{ATTEMPTS_MAX} times another replica was first")]
    Busy,
}

impl Exporter {
    /// The exporter of a table. Nothing is read or written yet.
    pub fn new(objects: Objects, clock: Clock) -> Self {
        Self {
            objects,
            clock,
            records: Records::default(),
            table: None,
            counters: Arc::default(),
        }
    }

    /// How its exports go; to be asked for before they run.
    pub fn counters(&self) -> Arc<ExportCounters> {
        Arc::clone(&self.counters)
    }

    /// The hours that the log has files of, as far as it was read.
    fn hours(&self) -> Result<BTreeSet<Hour>, ExportError> {
        let Some(table) = &self.table else {
            return Ok(BTreeSet::new());
        };
        let files = log::files(table)?;
        let names = files.keys().filter_map(|key| key.parse().ok());
        Ok(names.filter_map(|name| hour_of(&name)).collect())
    }

    /// Makes the log say what the fold says of the hours that were looked at. Those of them without a state are gone; hours that cannot be folded, and all others,
    /// stay in it as they are.
    ///
    /// Costs a LIST and a few GETs when there is nothing to do, and a PUT with some hundred bytes for each file that came or went.
    ///
    /// # Errors
    /// If the store fails, or others are faster; whatever was committed is right.
    pub async fn export(
        &mut self,
        looked_at: &BTreeSet<Hour>,
        states: &BTreeMap<Hour, Result<HourState, FoldError>>,
    ) -> Result<Exported, ExportError> {
        for conflicts in 0..ATTEMPTS_MAX {
            let exported = self.attempt(looked_at, states).await;
            match exported {
                Ok(Some(exported)) => {
                    return Ok(Exported {
                        conflicts,
                        ..exported
                    });
                }
                Ok(None) => {}
                Err(error) => {
                    // Whatever is kept may be what does not fit.
                    self.table = None;
                    return Err(error.into());
                }
            }
        }
        Err(ExportError::Busy)
    }

    /// `None` if somebody else was first.
    async fn attempt(
        &mut self,
        looked_at: &BTreeSet<Hour>,
        states: &BTreeMap<Hour, Result<HourState, FoldError>>,
    ) -> Result<Option<Exported>, deltalake_core::DeltaTableError> {
        let mut table = match self.table.take() {
            Some(mut table) => {
                table.update_state().await?;
                table
            }
            None => Box::pin(log::open(&self.objects)).await?,
        };
        let listed = log::files(&table)?;
        let difference = difference(looked_at, states, listed.keys().map(String::as_str));
        let mut exported = Exported {
            added: difference.adds.len(),
            removed: difference.removes.len(),
            hours_left_out: difference.hours_left_out.len(),
            ..Exported::default()
        };
        let adds = difference.adds.iter();
        let adds = adds.map(|add| Action::Add(log::add(add)));
        let removes = difference.removes.iter().filter_map(|remove| {
            let file = listed.get(&remove.key)?;
            Some(Action::Remove(file.remove_action(remove.is_change)))
        });
        let actions: Vec<Action> = adds.chain(removes).collect();
        if !actions.is_empty() && !Box::pin(log::commit(&mut table, actions)).await? {
            self.table = Some(table);
            return Ok(None);
        }
        exported.version = table.version().unwrap_or_default();
        self.table = Some(table);
        Ok(Some(exported))
    }
}

fn hour_of(name: &ObjectName) -> Option<Hour> {
    match name {
        ObjectName::Segment(name) => Some(name.hour),
        ObjectName::Output(name) => Some(name.hour),
        ObjectName::Record(_) => None,
    }
}
