//! What goes on behind requests: the ledger is written, read and compared with what is stored.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use rustc_hash::FxHashSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use unhex_api::symbolize::ModuleStatus;
use unhex_build_id::Identity;

use super::Signal;
use super::ledger::{Folded, Segment};
use super::objects::LedgerError;
use super::observation::Missing;
use super::standing::module_status;
use super::view::Checked;
use crate::artifacts::LocateError;

/// Build IDs that are compared with the store in one round, those first that were not for the longest
/// time: each costs a listing of its records.
const CHECKS_MAX: usize = 2_000;

/// Of those, so many at once.
const CHECKS_AT_ONCE: usize = 16;

/// How long a start waits for the ledger; what is not compared by then counts as it was.
const START_WAIT_MAX: Duration = Duration::from_secs(10);

impl Signal {
    /// Takes up what earlier replicas knew, so that a restart changes nothing.
    pub(super) async fn take_up(&self) {
        let taking_up = async {
            self.log_failure(self.synchronize().await);
            self.check().await;
        };
        if tokio::time::timeout(START_WAIT_MAX, taking_up)
            .await
            .is_err()
        {
            tracing::warn!("the ledger of unknown build IDs is read while requests are answered");
        }
    }

    /// Writes, reads and compares at the intervals that are configured, until the stop.
    pub fn run(self: &Arc<Self>, tasks: &TaskTracker, stopping: &CancellationToken) {
        let (signal, stop) = (Arc::clone(self), stopping.clone());
        tasks.spawn(async move {
            while !sleep(signal.config.write_every, &stop).await {
                signal.log_failure(signal.synchronize().await);
            }
            signal.log_failure(signal.synchronize().await);
        });
        let (signal, stop) = (Arc::clone(self), stopping.clone());
        tasks.spawn(async move {
            while !sleep(signal.config.check_every, &stop).await {
                tokio::select! {
                    () = signal.check() => {}
                    () = stop.cancelled() => return,
                }
            }
        });
    }

    fn log_failure(&self, result: Result<(), LedgerError>) {
        if let Err(error) = result {
            self.metrics.ledger_failed();
            tracing::warn!(%error, "the ledger of unknown build IDs is not in step: {error}");
        }
    }

    /// Writes what this replica saw, if that changed, and reads what all others did.
    ///
    /// # Errors
    /// If the store cannot be written or read now; what was not written is tried again.
    pub async fn synchronize(&self) -> Result<(), LedgerError> {
        let mut objects = self.objects.lock().await;
        let part = {
            let mut state = self.state.lock();
            state.own.forget_before(objects.forgotten_before());
            let sent = state.table.sent();
            state.own.changed_part(|| sent)
        };
        let mut written = Ok(());
        if let Some(part) = part {
            written = objects.write(part).await;
            if written.is_err() {
                self.state.lock().own.note_unwritten();
            }
        }
        let segments = objects.read().await?;
        let decisions = objects.read_decisions().await?;
        let folded = self.fold_others(&segments);
        let mut state = self.state.lock();
        state.elsewhere = Arc::new(folded);
        state.ignored.replace(decisions);
        let (own, elsewhere) = (&state.own, Arc::clone(&state.elsewhere));
        let is_listed = |id: &Identity| own.get(id).is_some() || elsewhere.entries.contains_key(id);
        let gone: Vec<Identity> = state
            .checked
            .keys()
            .filter(|id| !is_listed(id))
            .cloned()
            .collect();
        for identity in gone {
            state.checked.remove(&identity);
        }
        drop(state);
        written
    }

    fn fold_others(&self, segments: &[Arc<Segment>]) -> Folded {
        let parts = segments.iter().flat_map(|segment| &segment.parts);
        let others = parts.filter(|part| part.replica != self.replica);
        Folded::of(others, self.entries_max)
    }

    /// Asks the store about the build IDs of the ledger, whoever uploaded in the meantime.
    pub async fn check(&self) {
        let due = self.due();
        let checks = due.into_iter().map(|identity| async move {
            let at = self.now();
            let found = self.status(&identity).await;
            (identity, at, found)
        });
        let mut checks = std::pin::pin!(stream::iter(checks).buffer_unordered(CHECKS_AT_ONCE));
        while let Some((identity, at, found)) = checks.next().await {
            match found {
                Ok(status) => self.note_checked(&identity, at, Missing::of(status)),
                // Not known now: it stays as it was.
                Err(error) => tracing::warn!(%error, "{identity} cannot be looked for: {error}"),
            }
        }
    }

    /// The build IDs to ask about, those first that were not asked about for the longest time.
    fn due(&self) -> Vec<Identity> {
        let state = self.state.lock();
        let listed: FxHashSet<&Identity> = state
            .own
            .identities()
            .chain(state.elsewhere.entries.keys())
            .collect();
        let mut due: Vec<(Option<u64>, &Identity)> = listed
            .into_iter()
            .map(|identity| {
                (
                    state.checked.get(identity).map(|checked| checked.at),
                    identity,
                )
            })
            .collect();
        if due.len() > CHECKS_MAX {
            due.select_nth_unstable(CHECKS_MAX);
            due.truncate(CHECKS_MAX);
        }
        due.into_iter()
            .map(|(_, identity)| identity.clone())
            .collect()
    }

    async fn status(&self, identity: &Identity) -> Result<ModuleStatus, LocateError> {
        let status = module_status(&self.artifacts, identity).await?;
        if status == ModuleStatus::Pending
            && let Some(id) = self.artifacts.resolve(identity).await?
        {
            // Nobody else may ask for the index of a profile whose frames are named elsewhere.
            self.artifacts.index(&id).await?;
        }
        Ok(status)
    }

    fn note_checked(&self, identity: &Identity, at: u64, missing: Option<Missing>) {
        let mut state = self.state.lock();
        match missing {
            None => state.mend(identity, at),
            Some(_) => {
                state
                    .checked
                    .insert(identity.clone(), Checked { at, missing });
            }
        }
    }
}

/// Waits, and says whether the stop came first.
async fn sleep(duration: Duration, stopping: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(duration) => false,
        () = stopping.cancelled() => true,
    }
}
