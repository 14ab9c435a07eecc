//! All scanned files that have something to serve, in memory: by path, by build ID, and by the paths
//! of sources in archives.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use rustc_hash::{FxHashMap, FxHashSet};
use unhex_build_id::BuildId;
use unhex_symbols::quality::Quality;

use super::entry::{Found, ScannedFile};
use crate::artifacts::ArtifactKind;
use crate::metrics::ScanCounts;

/// All scanned files.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    files: FxHashSet<ByPath>,
    by_id: FxHashMap<BuildId, Vec<Found>>,
    sources: FxHashMap<u64, Vec<Arc<ScannedFile>>>,
    /// `entry::dull_hash` of the files that have nothing to serve.
    dull: FxHashSet<u64>,
    /// Raised by each change.
    version: u64,
}

/// A file that is found by its path.
#[derive(Clone, Debug)]
struct ByPath(Arc<ScannedFile>);

impl Borrow<Path> for ByPath {
    fn borrow(&self) -> &Path {
        &self.0.path
    }
}

impl PartialEq for ByPath {
    fn eq(&self, other: &Self) -> bool {
        self.0.path == other.0.path
    }
}

impl Eq for ByPath {}

impl Hash for ByPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As `Path` is hashed, by which it is looked for.
        self.0.path.hash(state);
    }
}

impl Catalogue {
    /// The file at a path.
    pub(super) fn file(&self, path: &Path) -> Option<Arc<ScannedFile>> {
        let known = self.known.read();
        known.files.get(path).map(|file| Arc::clone(&file.0))
    }

    /// All files, in no order.
    pub(super) fn files(&self) -> Vec<Arc<ScannedFile>> {
        let known = self.known.read();
        known.files.iter().map(|file| Arc::clone(&file.0)).collect()
    }

    /// The files of a kind, the best first: by what they promise, then the newest.
    pub(super) fn of_kind(&self, id: &BuildId, kind: ArtifactKind) -> Vec<Found> {
        let known = self.known.read();
        let found = known.by_id.get(id).into_iter().flatten();
        let is_kind = |found: &&Found| found.traits().is_some_and(|traits| traits.is(kind));
        let mut found: Vec<Found> = found.filter(is_kind).cloned().collect();
        drop(known);
        found.sort_by_cached_key(|found| {
            let quality = found.traits().map(|traits| traits.quality);
            (Reverse(quality), Reverse(found.modified()), found.tag())
        });
        found
    }

    /// What the best file of a kind promises.
    pub(super) fn promise(&self, id: &BuildId, kind: ArtifactKind) -> Option<Quality> {
        let known = self.known.read();
        let traits = known.by_id.get(id)?.iter().filter_map(Found::traits);
        traits
            .filter(|traits| traits.is(kind))
            .map(|traits| traits.quality)
            .max()
    }

    /// Archives that may have the source of this [`path_hash`](super::entry::path_hash).
    pub(super) fn archives_with(&self, path_hash: u64) -> Vec<Arc<ScannedFile>> {
        let known = self.known.read();
        known.sources.get(&path_hash).cloned().unwrap_or_default()
    }

    /// Takes in a file, in the place of one that was at its path.
    pub(super) fn insert(&self, file: Arc<ScannedFile>) {
        let mut known = self.known.write();
        known.remove(&file.path);
        for found in file.found() {
            if let Some(id) = found.traits().map(|traits| traits.id.clone()) {
                known.by_id.entry(id).or_default().push(found);
            }
        }
        for &hash in file.sources() {
            let files = known.sources.entry(hash).or_default();
            files.push(Arc::clone(&file));
        }
        known.files.insert(ByPath(file));
        known.version += 1;
    }

    /// Forgets the file at a path. Answers whether there was one.
    pub(super) fn remove(&self, path: &Path) -> bool {
        let mut known = self.known.write();
        let was_there = known.remove(path);
        known.version += u64::from(was_there);
        was_there
    }

    /// Whether a file is known to have nothing to serve.
    pub(super) fn is_dull(&self, hash: u64) -> bool {
        self.known.read().dull.contains(&hash)
    }

    /// Notes that a file has nothing to serve.
    pub(super) fn note_dull(&self, hash: u64) {
        let mut known = self.known.write();
        known.version += u64::from(known.dull.insert(hash));
    }

    /// Forgets all other files that have nothing to serve.
    pub(super) fn keep_dull(&self, seen: &FxHashSet<u64>) {
        let mut known = self.known.write();
        let before = known.dull.len();
        known.dull.retain(|hash| seen.contains(hash));
        known.version += u64::from(known.dull.len() != before);
    }

    /// Those files, as numbers.
    pub(super) fn dull(&self) -> Vec<u64> {
        self.known.read().dull.iter().copied().collect()
    }

    /// A number that changes with each change.
    pub(super) fn version(&self) -> u64 {
        self.known.read().version
    }

    /// How much is known.
    pub(super) fn counts(&self) -> ScanCounts {
        let known = self.known.read();
        let found = known.by_id.values().flatten();
        let (members, elf_files): (Vec<_>, Vec<_>) = found.partition(|found| found.is_member());
        ScanCounts {
            files: known.files.len(),
            dull: known.dull.len(),
            build_ids: known.by_id.len(),
            elf_files: elf_files.len(),
            members: members.len(),
        }
    }
}

impl Known {
    fn remove(&mut self, path: &Path) -> bool {
        let Some(ByPath(file)) = self.files.take(path) else {
            return false;
        };
        for found in file.found() {
            let id = found.traits().map(|traits| &traits.id);
            if let Some(id) = id
                && let Some(all) = self.by_id.get_mut(id)
            {
                all.retain(|other| !Arc::ptr_eq(&other.file, &file));
                if all.is_empty() {
                    self.by_id.remove(id);
                }
            }
        }
        for hash in file.sources() {
            if let Some(all) = self.sources.get_mut(hash) {
                all.retain(|other| !Arc::ptr_eq(other, &file));
                if all.is_empty() {
                    self.sources.remove(hash);
                }
            }
        }
        true
    }
}
