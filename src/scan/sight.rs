//! What scans could not see: while there is any, nobody knows that a build ID is absent.
//!
//! Debuggers remember for ten minutes that something does not exist, so that they are told so only when
//! every scanned path is there, and everything in it was looked at.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::Inner;
use super::away::Roots;
use super::open::blocking;
use crate::artifacts::LocateError;

/// What the last scan could see.
#[derive(Debug)]
pub(super) struct Sight {
    /// Whether all files were looked at once, now or by an earlier server, or were tried to.
    pub(super) is_complete: bool,
    /// The scanned paths as they were then.
    pub(super) roots: Roots,
    /// Files and folders that the system could not read; scanned paths, as they are given.
    pub(super) unread: FxHashSet<PathBuf>,
    /// Whether a scanned path was away.
    pub(super) was_away: bool,
}

impl Sight {
    /// What is seen by who has not scanned yet, and an earlier server may have.
    pub(super) fn before_scans(paths: &[PathBuf], is_complete: bool) -> Self {
        Self {
            is_complete,
            roots: Roots::of(paths),
            unread: FxHashSet::default(),
            was_away: false,
        }
    }

    /// Whether everything was seen.
    pub(super) fn is_clear(&self) -> bool {
        self.is_complete && self.unread.is_empty()
    }

    /// Whether that file or folder was tried and could not be read.
    pub(super) fn is_unread(&self, path: &Path) -> bool {
        self.unread.contains(path)
    }

    /// # Errors
    /// Unless everything was seen: what was not found may be there.
    pub(super) fn check(&self) -> Result<(), LocateError> {
        if !self.is_complete {
            let detail = "the folders are being scanned for the first time".to_owned();
            return Err(LocateError::InPlace { detail });
        }
        let Some(path) = self.unread.iter().next() else {
            return Ok(());
        };
        let (count, path) = (self.unread.len(), path.display());
        let detail = format!("{count} files and folders could not be read, {path} is one of them");
        Err(LocateError::InPlace { detail })
    }
}

impl Inner {
    /// What was seen up to now. Whoever looks something up takes it before that: what comes into sight
    /// meanwhile may be what was not found.
    pub(super) fn sight(&self) -> Arc<Sight> {
        Arc::clone(&self.sight.read())
    }

    /// The answer to what was not found by somebody who saw so much: only who sees everything, now
    /// too, can give it.
    pub(super) async fn absent<T>(
        self: &Arc<Self>,
        sight: &Arc<Sight>,
    ) -> Result<Option<T>, LocateError> {
        if !sight.was_away {
            sight.check()?;
        }
        let now = self.roots_now(sight).await?;
        if let Some((path, why)) = now.away().next() {
            let detail = format!("{} is away: {why}", path.display());
            return Err(LocateError::InPlace { detail });
        }
        if sight.was_away {
            // It is back, and need not be waited for until the next scan.
            self.rescan_soon();
        }
        sight.check()?;
        Ok(None)
    }

    /// The scanned paths as they are now. All who ask at once share one look: a file system whose server
    /// is gone may hold it for minutes, and with it one thread and not all.
    async fn roots_now(self: &Arc<Self>, sight: &Arc<Sight>) -> Result<Arc<Roots>, LocateError> {
        let flight = self.root_looks.join((), || {
            let sight = Arc::clone(sight);
            async move { blocking(move || Ok(Arc::new(sight.roots.now()))).await }
        });
        let cut = || LocateError::InPlace {
            detail: "the look at the scanned paths was cut off".to_owned(),
        };
        flight.await.ok_or_else(cut)?
    }
}
