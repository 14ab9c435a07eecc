//! Deletions: of what has expired, and of what somebody wants gone. Both are tombstones, of which readers leave the rows out at once; compaction
//! and the sweeper take them off the disk.

use std::collections::BTreeSet;

use tracing::info;

use super::{MaintainError, Maintenance};
use crate::reading::{HourRange, Place, READ, look};
use crate::table::fold::HourState;
use crate::table::names::{FileKind, Hour};
use crate::table::plan;
use crate::table::record::{Deletion, Record, RowSelector, TOMBSTONES_APPLIED_MAX, Tombstone};

/// Deletions of one hour from which on no more are taken: a compaction can name twice as many, and replicas may write at once.
const DELETIONS_MAX: usize = TOMBSTONES_APPLIED_MAX / 2;

/// What a deletion did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Hours that have a tombstone now because of it.
    pub hours: Vec<Hour>,
    /// Hours that had one already that says as much.
    pub hours_before: Vec<Hour>,
}

impl Maintenance {
    /// Deletes rows of all hours of a range that there is anything of: those that are there, and those that come later.
    ///
    /// Readers miss them from the next look on, which is seconds later. It is not undone; doing it again after an error goes on where it
    /// ended.
    ///
    /// # Errors
    /// If the store fails, or an hour cannot be read: then earlier hours are deleted already.
    pub async fn delete(
        &self,
        range: HourRange,
        kinds: &BTreeSet<FileKind>,
        rows: &RowSelector,
    ) -> Result<Deleted, MaintainError> {
        let deletion = Deletion {
            kinds: kinds.clone(),
            rows: rows.clone(),
        };
        let places = Place::all_of(&range.iter().collect(), self.clock.now());
        let seen = look(&self.objects, &self.records, &self.clock, &places, READ).await?;
        let mut deleted = Deleted::default();
        for (hour, state) in seen.states {
            let state = state.map_err(|source| MaintainError::Hour { hour, source })?;
            if is_said(&state, &deletion) {
                deleted.hours_before.push(hour);
                continue;
            }
            self.put_tombstone(&state, deletion.clone()).await?;
            deleted.hours.push(hour);
        }
        Ok(deleted)
    }

    /// Says of an hour what has expired of it.
    pub(super) async fn expire(&self, state: &HourState) -> Result<usize, MaintainError> {
        let due = plan::expired(state, &self.options.retention, self.clock.now());
        let count = due.len();
        for deletion in due {
            self.put_tombstone(state, deletion).await?;
        }
        Ok(count)
    }

    async fn put_tombstone(
        &self,
        state: &HourState,
        deletion: Deletion,
    ) -> Result<(), MaintainError> {
        let (hour, said) = (state.hour(), state.tombstones().len());
        if said >= DELETIONS_MAX {
            return Err(MaintainError::TooManyDeletions(hour, said));
        }
        let id = self.clock.publish_id();
        let rows = deletion.rows.clone();
        let tombstone = Record::Tombstone(Tombstone { id, hour, deletion }.into());
        let (key, json) = (tombstone.name().to_string(), tombstone.to_json()?);
        self.objects.put(&key, json.into()).await?;
        self.counters.deleted();
        info!(%hour, %id, ?rows, "deleted rows of {hour}");
        Ok(())
    }
}

fn is_said(state: &HourState, wanted: &Deletion) -> bool {
    let said = state.tombstones().iter().map(|body| &body.deletion);
    let mut of_kinds = said.filter(|said| said.kinds.is_superset(&wanted.kinds));
    of_kinds.any(|said| said.rows.contains(&wanted.rows))
}
