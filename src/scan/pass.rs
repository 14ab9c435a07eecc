//! One round through all folders: what is new or changed is looked at, what is gone is forgotten.
//!
//! One thread walks and several look at files. What could not be read counts and is left as it was
//! known: only a folder that was read whole tells that something is gone. What the system failed to
//! read may be anything, see [`sight`](super::sight); what it refuses to this server, or is damaged, is
//! as good as nothing.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};

use rustc_hash::FxHashSet;
use tokio_util::sync::CancellationToken;
use walkdir::WalkDir;

use super::away::Roots;
use super::catalogue::Catalogue;
use super::entry::{Content, Found, ScannedFile, Stamp, dull_hash};
use super::look::{Looking, Seen};
use super::packages;
use super::roots::{is_absence, is_refusal, open_known};
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
    /// The scanned paths as they were at the last look.
    pub(super) roots: &'a Roots,
    /// The number of the round, never 0.
    pub(super) number: u32,
}

/// What came of a round.
#[derive(Debug, Default)]
pub(super) struct Rounded {
    /// The scanned paths as they are in the end.
    pub(super) roots: Roots,
    /// Whether one of them was away at the start or is in the end.
    pub(super) was_away: bool,
    /// Files and folders that the system could not read; scanned paths as they are given.
    pub(super) unread: FxHashSet<PathBuf>,
    /// Whether all files were looked at that could be.
    pub(super) is_complete: bool,
    /// Files and folders that could not be read, or are damaged.
    pub(super) failures: usize,
    /// Files that were forgotten.
    pub(super) forgotten: u64,
}

/// What the threads of a round find.
#[derive(Debug, Default)]
struct Findings {
    /// Files with nothing to serve.
    dull: parking_lot::Mutex<FxHashSet<u64>>,
    /// What the system could not read.
    unread: parking_lot::Mutex<FxHashSet<PathBuf>>,
    /// Where it is not known for other reasons what is there.
    unsure: parking_lot::Mutex<FxHashSet<PathBuf>>,
    failures: AtomicUsize,
}

impl Round<'_> {
    /// Runs the round. Blocks, for as long as the disks and archives take.
    pub(super) fn run(self) -> Rounded {
        let findings = Findings::default();
        let (sender, receiver) = sync_channel::<PathBuf>(QUEUE_MAX);
        let receiver = std::sync::Mutex::new(receiver);
        let before = self.roots.now();
        std::thread::scope(|scope| {
            for _ in 0..self.looking.config.threads {
                scope.spawn(|| self.look(&receiver, &findings));
            }
            let _busy = self.meter.busy(ScanRole::Traverse);
            for root in before.there() {
                self.walk(root, &sender, &findings);
            }
            drop(sender);
        });
        // One that went away meanwhile had files that nobody saw.
        let after = before.now();
        let mut was_away = false;
        for (path, why) in before.away().chain(after.away()) {
            was_away = true;
            findings.fail(self.meter, path, &why);
        }
        let is_complete = !self.stopping.is_cancelled();
        let forgotten = if is_complete {
            self.forget(&findings, [&before, &after])
        } else {
            0
        };
        Rounded {
            roots: after,
            was_away,
            unread: findings.unread.into_inner(),
            is_complete,
            failures: findings.failures.into_inner(),
            forgotten,
        }
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
                    if path == root || !(is_absence(&error) || is_refusal(&error)) {
                        findings.fail(self.meter, &path, &error);
                    } else if is_refusal(&error) {
                        findings.refuse(self.meter, path, &error);
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
            Err(error) => return findings.fail(self.meter, &path, &error),
        };
        let ending = ending_of(&path, self.looking);
        let (stamp, content) = match seen {
            // Files come and go.
            Seen::Gone => return,
            Seen::Changing => {
                findings.unsure.lock().insert(path);
                return;
            }
            Seen::Refused(error) => return findings.refuse(self.meter, path, &error),
            Seen::Something(stamp, content) => (stamp, Some(content)),
            Seen::Nothing(stamp) => (stamp, None),
            Seen::Damaged(stamp, reason) => {
                findings.note(self.meter, &path, &reason);
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
    fn forget(self, findings: &Findings, roots: [&Roots; 2]) -> u64 {
        let (unread, unsure) = (findings.unread.lock(), findings.unsure.lock());
        let is_in = |path: &Path| unread.contains(path) || unsure.contains(path);
        let is_unsure =
            |path: &Path| path.ancestors().any(is_in) || roots.iter().any(|roots| roots.hide(path));
        let mut forgotten = 0_u64;
        for file in self.catalogue.files() {
            if !file.was_seen(self.number) && !is_unsure(&file.path) {
                forgotten += u64::from(self.catalogue.remove(&file.path));
            }
        }
        if unread.is_empty() && unsure.is_empty() {
            self.catalogue.keep_dull(&findings.dull.lock());
        }
        forgotten
    }
}

impl Findings {
    /// The system cannot read it.
    fn fail(&self, meter: &ScanMeter, path: &Path, error: &dyn Display) {
        if self.unread.lock().insert(path.to_owned()) {
            self.note(meter, path, error);
        }
    }

    /// This server may not read it.
    fn refuse(&self, meter: &ScanMeter, path: PathBuf, error: &dyn Display) {
        self.note(meter, &path, error);
        self.unsure.lock().insert(path);
    }

    fn note(&self, meter: &ScanMeter, path: &Path, error: &dyn Display) {
        meter.failed();
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        if before < LOGGED_MAX {
            tracing::warn!(path = %path.display(), %error, "{} is not scanned: {error}", path.display());
        }
    }
}

/// What came of a grooming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Groomed {
    /// Files that are gone and were forgotten.
    pub(super) gone: u64,
    /// Files that changed, which a scan has to look at.
    pub(super) changed: u64,
    /// Files that are as they were, or nobody knows.
    pub(super) fresh: u64,
}

/// Forgets the files that are gone.
pub(super) fn groom(catalogue: &Catalogue, roots: &Roots, stopping: &CancellationToken) -> Groomed {
    let mut groomed = Groomed::default();
    for file in catalogue.files() {
        if stopping.is_cancelled() {
            break;
        }
        let now = open_known(roots, &file.path)
            .and_then(|found| found.map(|found| found.metadata()).transpose());
        match now {
            Ok(None) if catalogue.remove(&file.path) => groomed.gone += 1,
            Ok(Some(metadata)) if Stamp::of(&metadata) != file.stamp => groomed.changed += 1,
            _ => groomed.fresh += 1,
        }
    }
    groomed
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
