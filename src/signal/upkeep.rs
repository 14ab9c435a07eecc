//! What goes on behind requests: the ledger is written, read and compared with what is stored.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use unhex_api::symbolize::ModuleStatus;
use unhex_build_id::Identity;

use super::Signal;
use super::ledger::Folded;
use super::objects::{FORGOTTEN_AFTER, LedgerError};
use super::observation::Missing;
use super::standing::module_status;
use super::view::millis;
use crate::artifacts::LocateError;

/// Build IDs that do not count and are compared with the store in one round all the same, those first
/// that were not for the longest time: each costs a listing of its records. Those that count are all
/// compared.
const CHECKS_MAX: usize = 2_000;

/// Of those, so many at once.
const CHECKS_AT_ONCE: usize = 16;

/// How long a start waits for the ledger; what is not compared by then does not count yet.
const START_WAIT_MAX: Duration = Duration::from_secs(10);

impl Signal {
    /// Takes up what earlier replicas knew, so that a restart changes nothing.
    pub(super) async fn take_up(&self) {
        let taking_up = async {
            self.note_outcome(self.synchronize().await);
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
                signal.note_outcome(signal.synchronize().await);
            }
            // Sums that would have been written a little later, too.
            signal.state.lock().written = 0;
            signal.note_outcome(signal.synchronize().await);
        });
        let (signal, stop) = (Arc::clone(self), stopping.clone());
        tasks.spawn(async move {
            let mut pause = signal.config.check_every;
            while !sleep(pause, &stop).await {
                let begun = Instant::now();
                tokio::select! {
                    () = signal.check() => {}
                    () = stop.cancelled() => return,
                }
                // A long list takes a part of the time, never all of it.
                pause = signal
                    .config
                    .check_every
                    .max(begun.elapsed().saturating_mul(2));
            }
        });
    }

    /// Counts a failure of the ledger, and says it once for as long as it stays the same.
    fn note_outcome(&self, result: Result<(), LedgerError>) {
        let kind = result.as_ref().err().map(LedgerError::kind);
        let before = std::mem::replace(&mut *self.failing.lock(), kind);
        match result {
            Ok(()) if before.is_some() => {
                tracing::info!("the ledger of unknown build IDs is written and read again");
            }
            Ok(()) => {}
            Err(error) => {
                self.metrics.ledger_failed();
                if before != kind {
                    tracing::warn!(%error, "the ledger of unknown build IDs stays in memory until it \
                        can be written and read: {error}");
                }
            }
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
            let now = self.time.now();
            let forgotten = now.saturating_sub(millis(FORGOTTEN_AFTER));
            state.own.forget_before(forgotten);
            state.totals.forget_before(forgotten);
            state.part_to_write(now)
        };
        let mut written = Ok(());
        if let Some(part) = part {
            written = objects.write(part).await;
            if written.is_err() {
                self.state.lock().own.note_unwritten();
            }
        }
        let contents = objects.read().await?;
        self.metrics.ledger_lacks(contents.unreadable);
        let others = contents.parts().filter(|part| part.replica != self.replica);
        let others = Folded::of(others, self.entries_max);
        self.state.lock().take_in(contents, others);
        written
    }

    /// Asks the store about the build IDs of the ledger, whoever uploaded in the meantime.
    pub async fn check(&self) {
        let due = self.view().due(CHECKS_MAX);
        let checks = due.into_iter().map(|identity| async move {
            let at = self.time.now();
            let found = self.status(&identity).await;
            (identity, at, found)
        });
        let mut checks = std::pin::pin!(stream::iter(checks).buffer_unordered(CHECKS_AT_ONCE));
        let mut failed = 0_usize;
        while let Some((identity, at, found)) = checks.next().await {
            let mut state = self.state.lock();
            match found.map(Missing::of) {
                Ok(None) => state.mend(&identity, at),
                Ok(missing) => state.note_asked(&identity, at, missing),
                // Not known now: the last answer stays.
                Err(error) => {
                    if failed == 0 {
                        tracing::warn!(%error, "{identity} cannot be looked for: {error}");
                    }
                    failed = failed.saturating_add(1);
                    state.note_asked(&identity, at, None);
                }
            }
        }
        if failed > 1 {
            tracing::warn!(
                failed,
                "{failed} unknown build IDs cannot be looked for now"
            );
        }
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
}

/// Waits, and says whether the stop came first.
async fn sleep(duration: Duration, stopping: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(duration) => false,
        () = stopping.cancelled() => true,
    }
}
