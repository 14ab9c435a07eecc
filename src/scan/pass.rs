//! One round through all folders: what is new or changed is looked at, what is gone is forgotten.
//!
//! One thread walks and several look at files. What could not be read counts and is left as it was
//! known: only a folder that was read whole tells that something is gone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};

use rustc_hash::FxHashSet;
use tokio_util::sync::CancellationToken;
use walkdir::WalkDir;

use super::catalogue::Catalogue;
use super::entry::{Content, Found, ScannedFile, Stamp, dull_hash};
use super::look::{Looking, Seen};
use super::packages;
use super::roots::{is_absence, open_without_links};
use crate::archive::Format;
use crate::artifacts::Clock;
use crate::metrics::{ScanMeter, ScanRole};

/// Paths that wait to be looked at: enough that no thread waits for the walk, and little memory.
const QUEUE_MAX: usize = 1_024;
/// A file that was written so few seconds ago may be written again without another time.
const RACY_SECONDS: u64 = 2;
/// Failures of one round that are named in the log; the rest is counted.
const LOGGED_MAX: usize = 20;

/// What a round works with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round<'a> {
    pub(super) looking: &'a Looking,
    pub(super) catalogue: &'a Catalogue,
    pub(super) meter: &'a ScanMeter,
    pub(super) clock: &'a Clock,
    pub(super) stopping: &'a CancellationToken,
    /// What is never scanned: this server's own folder.
    pub(super) own: &'a Path,
    /// The number of the round, never 0.
    pub(super) number: u32,
}

/// What came of a round.
#[derive(Debug, Default)]
pub(super) struct Rounded {
    /// The folders, without links in their paths.
    pub(super) roots: Vec<PathBuf>,
    /// Whether all files were looked at that could be.
    pub(super) is_complete: bool,
    /// Files and folders that could not be read.
    pub(super) failures: usize,
    /// Files that were forgotten.
    pub(super) forgotten: u64,
}

/// What the threads of a round find.
#[derive(Debug, Default)]
struct Findings {
    /// Files with nothing to serve.
    dull: parking_lot::Mutex<FxHashSet<u64>>,
    /// Where it is not known what is there.
    unsure: parking_lot::Mutex<Vec<PathBuf>>,
    failures: AtomicUsize,
}

impl Round<'_> {
    /// Runs the round. Blocks, for as long as the disks and archives take.
    pub(super) fn run(self) -> Rounded {
        let findings = Findings::default();
        let (sender, receiver) = sync_channel::<PathBuf>(QUEUE_MAX);
        let receiver = std::sync::Mutex::new(receiver);
        let roots = std::thread::scope(|scope| {
            for _ in 0..self.looking.config.threads {
                scope.spawn(|| self.look(&receiver, &findings));
            }
            let _busy = self.meter.busy(ScanRole::Traverse);
            let roots = self.walk_all(&sender, &findings);
            drop(sender);
            roots
        });
        let is_complete = !self.stopping.is_cancelled();
        let forgotten = if is_complete {
            self.forget(&findings)
        } else {
            0
        };
        if is_complete {
            self.meter.done(ScanRole::Traverse);
        }
        Rounded {
            roots,
            is_complete,
            failures: findings.failures.into_inner(),
            forgotten,
        }
    }

    fn walk_all(self, sender: &SyncSender<PathBuf>, findings: &Findings) -> Vec<PathBuf> {
        let mut roots = Vec::new();
        for path in &self.looking.config.paths {
            match fs::canonicalize(path) {
                Ok(root) => {
                    self.walk(&root, sender, findings);
                    roots.push(root);
                }
                Err(error) => findings.fail(self.meter, path, &error),
            }
        }
        roots
    }

    fn walk(self, root: &Path, sender: &SyncSender<PathBuf>, findings: &Findings) {
        let follow = self.looking.config.follow_links;
        let entries = WalkDir::new(root).follow_links(follow).into_iter();
        for entry in entries.filter_entry(|entry| entry.path() != self.own) {
            if self.stopping.is_cancelled() {
                return;
            }
            let found = entry.and_then(|entry| {
                let is_file = entry.file_type().is_file();
                let metadata = is_file.then(|| entry.metadata()).transpose()?;
                Ok(metadata.map(|metadata| (entry.into_path(), Stamp::of(&metadata))))
            });
            match found {
                Ok(Some((path, stamp))) => self.visit(path, stamp, (sender, findings)),
                Ok(None) => {}
                // The end of a loop of links, or a link to nothing.
                Err(error) if follow && error.loop_ancestor().is_some() => {}
                Err(error) => {
                    let path = error.path().unwrap_or(root).to_owned();
                    let error = error.into_io_error();
                    let error = error.unwrap_or_else(|| io::Error::other("a loop of links"));
                    // Files come and go.
                    if !(is_absence(&error) && path != root) {
                        findings.fail(self.meter, &path, &error);
                    }
                }
            }
        }
    }

    fn visit(self, path: PathBuf, stamp: Stamp, to: (&SyncSender<PathBuf>, &Findings)) {
        let (sender, findings) = to;
        let path = if self.looking.config.follow_links {
            fs::canonicalize(&path).unwrap_or(path)
        } else {
            path
        };
        if path.starts_with(self.own) || !self.is_wanted(&path) {
            return;
        }
        if let Some(known) = self.catalogue.file(&path)
            && known.stamp == stamp
        {
            known.see(self.number);
            return;
        }
        let hash = dull_hash(&path, stamp);
        if self.catalogue.is_dull(hash) {
            findings.dull.lock().insert(hash);
            return;
        }
        self.meter.queued();
        // The receivers live as long as this does.
        if sender.send(path).is_err() {
            self.meter.unqueued();
        }
    }

    fn is_wanted(self, path: &Path) -> bool {
        let config = &self.looking.config;
        if config.include.is_none() && config.exclude.is_none() {
            return true;
        }
        let path = path.to_string_lossy();
        let included = config.include.as_ref();
        let excluded = config.exclude.as_ref();
        included.is_none_or(|pattern| pattern.is_in(&path))
            && !excluded.is_some_and(|pattern| pattern.is_in(&path))
    }

    fn look(self, paths: &std::sync::Mutex<Receiver<PathBuf>>, findings: &Findings) {
        loop {
            let next = paths.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(path) = next else {
                return;
            };
            self.meter.unqueued();
            if self.stopping.is_cancelled() {
                continue;
            }
            let _busy = self.meter.busy(ScanRole::Scan);
            self.look_at(path, findings);
            self.meter.done(ScanRole::Scan);
        }
    }

    fn look_at(self, path: PathBuf, findings: &Findings) {
        let seen = match self.looking.look_at(&path) {
            Ok(seen) => seen,
            Err(error) if is_absence(&error) => return,
            Err(error) => return findings.fail(self.meter, &path, &error),
        };
        let ending = ending_of(&path, self.looking);
        let (stamp, content) = match seen {
            Seen::Changing => return findings.unsure.lock().push(path),
            Seen::Something(stamp, content) => (stamp, Some(content)),
            Seen::Nothing(stamp) => (stamp, None),
            Seen::Damaged(stamp, reason) => {
                findings.fail(self.meter, &path, &io::Error::other(reason));
                (stamp, None)
            }
        };
        self.meter.scanned(ending, stamp.size_bytes);
        let Some(content) = content else {
            let hash = dull_hash(&path, stamp);
            self.catalogue.remove(&path);
            if !self.is_racy(stamp) {
                self.catalogue.note_dull(hash);
                findings.dull.lock().insert(hash);
            }
            return;
        };
        let file = Arc::new(ScannedFile::new(path, stamp, content));
        file.see(self.number);
        count(self.meter, ending, &file);
        self.catalogue.insert(file);
    }

    fn is_racy(self, stamp: Stamp) -> bool {
        let written = stamp.modified().duration_since(std::time::UNIX_EPOCH);
        let written = written.unwrap_or_default().as_secs();
        written.saturating_add(RACY_SECONDS) >= self.clock.unix_seconds()
    }

    /// Forgets what this round did not see, where it saw all.
    fn forget(self, findings: &Findings) -> u64 {
        let unsure = findings.unsure.lock();
        let is_unsure = |path: &Path| unsure.iter().any(|other| path.starts_with(other));
        let mut forgotten = 0_u64;
        for file in self.catalogue.files() {
            if !file.was_seen(self.number) && !is_unsure(&file.path) {
                forgotten += u64::from(self.catalogue.remove(&file.path));
            }
        }
        if unsure.is_empty() {
            self.catalogue.keep_dull(&findings.dull.lock());
        }
        forgotten
    }
}

impl Findings {
    fn fail(&self, meter: &ScanMeter, path: &Path, error: &io::Error) {
        meter.failed();
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        if before < LOGGED_MAX {
            tracing::warn!(path = %path.display(), %error, "{} is not scanned: {error}", path.display());
        }
        self.unsure.lock().push(path.to_owned());
    }
}

/// Forgets the files that are gone or changed. Answers how many, and how many are as they were.
pub(super) fn groom(catalogue: &Catalogue, stopping: &CancellationToken) -> (u64, u64) {
    let (mut stale, mut fresh) = (0_u64, 0_u64);
    for file in catalogue.files() {
        if stopping.is_cancelled() {
            break;
        }
        let now = open_without_links(&file.path).and_then(|file| file.metadata());
        let is_gone = match now {
            Ok(metadata) => Stamp::of(&metadata) != file.stamp,
            Err(error) => is_absence(&error),
        };
        if is_gone && catalogue.remove(&file.path) {
            stale += 1;
        } else {
            fresh += 1;
        }
    }
    (stale, fresh)
}

/// The ending of an archive that is looked into, for metrics.
pub(super) fn ending_of<'a>(path: &Path, looking: &'a Looking) -> Option<&'a str> {
    packages::format_of(path, &looking.config)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let endings = looking.config.archives.iter();
    let asked_for = endings
        .map(String::as_str)
        .find(|ending| name.ends_with(ending));
    asked_for.or_else(|| Format::ending_of(path))
}

/// Counts what was found in a file.
fn count(meter: &ScanMeter, ending: Option<&str>, file: &Arc<ScannedFile>) {
    let ending = match file.content {
        Content::Elf(_) => None,
        Content::Archive(_) => ending,
    };
    let (mut executables, mut debuginfos) = (0, 0);
    for found in file.found() {
        if let Some(traits) = Found::traits(&found) {
            executables += u64::from(traits.role.is_executable());
            debuginfos += u64::from(traits.role.is_debuginfo());
        }
    }
    meter.found(ending, executables, debuginfos);
}
