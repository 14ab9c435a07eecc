//! Opening a scanned file only if it still is what it was when it was scanned.
//!
//! Length and time have to be the same, and the build ID is read again from the very file that is
//! opened. One that changed is looked at again at once, so that what it is now can be found.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use unhex_build_id::BuildId;

use super::Inner;
use super::entry::{Found, ScannedFile, Stamp};
use super::headers::Headers;
use super::look::Seen;
use super::roots::{is_refusal, open_known};
use crate::artifacts::store::Lease;
use crate::artifacts::{Artifact, ArtifactKind, Fingerprint, LocateError, Origin, Section};

/// How often candidates are looked for: those that changed meanwhile are other candidates then.
const ATTEMPTS_MAX: usize = 2;

impl Inner {
    /// The best file of a kind that is still there.
    pub(super) async fn locate(
        self: &Arc<Self>,
        id: &BuildId,
        kind: ArtifactKind,
    ) -> Result<Option<Artifact>, LocateError> {
        let sight = self.sight();
        let mut failure = None;
        for _ in 0..ATTEMPTS_MAX {
            let candidates = self.catalogue.of_kind(id, kind);
            if candidates.is_empty() {
                break;
            }
            for found in candidates {
                match self.open(found).await {
                    Ok(Some(artifact)) => return Ok(Some(artifact)),
                    Ok(None) => {}
                    Err(error) => failure = Some(error),
                }
            }
            // Looking again would not tell more.
            if failure.is_some() {
                break;
            }
        }
        match failure {
            Some(error) => Err(error),
            None => self.absent(&sight).await,
        }
    }

    /// A candidate, opened and verified; `None` when it is no longer what it was.
    ///
    /// # Errors
    /// If nobody knows what it is now.
    pub(super) async fn open(
        self: &Arc<Self>,
        found: Found,
    ) -> Result<Option<Artifact>, LocateError> {
        let (inner, file) = (Arc::clone(self), Arc::clone(&found.file));
        let opened = blocking(move || inner.open_unchanged(&file)).await?;
        let Some(opened) = opened else {
            return Ok(None);
        };
        let (file, unchanged, lease) = if found.is_member() {
            drop(opened);
            let Some((file, kept)) = self.members.file_of(&found).await? else {
                return Ok(None);
            };
            (file, None, kept.lease)
        } else {
            let fingerprint = Fingerprint::of(&opened).map_err(|error| failed(&found, &error))?;
            (opened, Some(fingerprint), Lease::unlimited())
        };
        let inner = Arc::clone(self);
        let verified = blocking(move || inner.verify(file, &found, unchanged)).await?;
        Ok(verified.map(|artifact| Artifact { lease, ..artifact }))
    }

    /// The file on disk, if it has the length and the time that it had.
    fn open_unchanged(&self, scanned: &ScannedFile) -> io::Result<Option<File>> {
        let file = match open_known(&self.sight().roots, &scanned.path) {
            Ok(Some(file)) => file,
            Ok(None) => {
                self.catalogue.remove(&scanned.path);
                return Ok(None);
            }
            // It is left as it was known: whoever may not read it now may do so again.
            Err(error) if is_refusal(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        if Stamp::of(&file.metadata()?) == scanned.stamp {
            return Ok(Some(file));
        }
        self.look_again(&scanned.path)?;
        Ok(None)
    }

    fn verify(
        &self,
        file: File,
        found: &Found,
        unchanged: Option<Fingerprint>,
    ) -> io::Result<Option<Artifact>> {
        let size_bytes = file.metadata()?.len();
        let headers = Headers::read(&file, size_bytes)?;
        let summary = headers.and_then(|headers| headers.summary().ok());
        let id = summary.and_then(|summary| summary.build_id);
        if id.as_ref() != found.traits().map(|traits| &traits.id) {
            match &found.member() {
                Some(_) => self.members.forget(found),
                None => self.look_again(&found.file.path)?,
            }
            return Ok(None);
        }
        Ok(Some(Artifact {
            // Children open it by this path, whatever happens to its own.
            path: open_path(&file),
            file,
            lease: Lease::unlimited(),
            size_bytes,
            tag: found.tag(),
            modified: whole_seconds(found.modified()),
            file_name: Some(found.shown_path()),
            archive: found.shown_archive(),
            origin: Origin::Scanned,
            unchanged,
        }))
    }

    /// Looks at a file that changed, without waiting for the next scan.
    ///
    /// # Errors
    /// If it is not known what it is now.
    fn look_again(&self, path: &Path) -> io::Result<()> {
        let not_known = |what: &str| Err(io::Error::other(format!("{} {what}", path.display())));
        // An archive takes its time, which whoever asks has not.
        if super::packages::format_of(path, &self.looking.config).is_some() {
            // One that cannot be read is tried again by itself.
            if !self.sight().is_unread(path) {
                self.rescan_soon();
            }
            return not_known("has changed and is looked at again");
        }
        match self.looking.look_at(path)? {
            Seen::Something(stamp, content) => {
                let file = ScannedFile::new(path.to_owned(), stamp, content);
                // The scan that runs must not take it for one that is gone.
                file.see(self.rounds.load(std::sync::atomic::Ordering::Relaxed));
                self.catalogue.insert(Arc::new(file));
            }
            Seen::Changing => return not_known("is being written to"),
            Seen::Nothing(_) | Seen::Gone | Seen::Refused(_) | Seen::Damaged(..) => {
                self.catalogue.remove(path);
            }
        }
        Ok(())
    }

    /// The bytes of a section: of the debuginfo, else of the executable.
    pub(super) async fn section(
        self: &Arc<Self>,
        id: &BuildId,
        name: &str,
    ) -> Result<Option<Section>, LocateError> {
        for kind in [ArtifactKind::Debuginfo, ArtifactKind::Executable] {
            let Some(artifact) = self.locate(id, kind).await? else {
                continue;
            };
            let name = name.to_owned();
            let found = blocking(move || {
                let headers = Headers::read(&artifact.file, artifact.size_bytes)?;
                let range = headers.and_then(|headers| headers.section(&name));
                Ok(range.map(|range| (artifact, range)))
            });
            if let Some((artifact, range)) = found.await? {
                return Ok(Some(Section {
                    artifact,
                    offset_bytes: range.start,
                    size_bytes: range.end.saturating_sub(range.start),
                }));
            }
        }
        Ok(None)
    }
}

/// A path by which this user's processes reach a file that is open here.
fn open_path(file: &File) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

/// HTTP knows no parts of seconds.
pub(super) fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

fn failed(found: &Found, error: &io::Error) -> LocateError {
    LocateError::InPlace {
        detail: format!("{}: {error}", found.file.path.display()),
    }
}

/// Runs what blocks on the disk.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, LocateError> {
    let failed = |detail: String| LocateError::InPlace { detail };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| failed(error.to_string()))?
        .map_err(|error| failed(error.to_string()))
}
