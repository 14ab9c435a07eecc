//! Which binary a mapping has, each read once however many processes have it mapped.
//!
//! Two ways lead to one that is known already, so that a storm of processes costs no reading: the numbers by which the kernel's
//! records tell a file from all others, for some seconds, and the file's device, inode and time of change. A build ID is believed: who gives a
//! file that of another spoils no stacks but those of his own process and of others without a better claim to it.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use unhex_build_id::Identity;
use unhex_symbols::segments::LoadSegments;

use super::binary_file::BinaryFile;
use super::maps::{Backing, MappedFile};
use super::opening::{self, Candidate, FileKey, Found};
use super::{Binary, BinaryKind, Region, vdso};
use crate::sample::ProcessId;

/// Binaries that are remembered, some 500 bytes each: a host with a thousand containers, each with libraries of its own.
const BINARIES_MAX: usize = 20_000;

/// Names that one binary is remembered under: more are those of a process that makes copies.
const NAMES_MAX: usize = 16;

/// How long a file is known by the numbers that records say, before it is looked at again: they stay when it is written anew in place.
const TOLD_NANOS: u64 = 10_000_000_000;

/// Device, generation and inode, as records say them.
type Told = (u64, u64, u64);

/// Every binary that was seen.
#[derive(Debug)]
pub(super) struct Binaries {
    /// By identity, one for each name and layout.
    known: FxHashMap<Identity, Vec<Arc<Binary>>>,
    by_file: FxHashMap<FileKey, Arc<Binary>>,
    /// And when it was looked at.
    by_record: FxHashMap<Told, (Arc<Binary>, u64)>,
    anonymous: Arc<Binary>,
    vdso: Option<(Arc<Binary>, Arc<[u8]>)>,
}

impl Default for Binaries {
    fn default() -> Self {
        Self {
            known: FxHashMap::default(),
            by_file: FxHashMap::default(),
            by_record: FxHashMap::default(),
            anonymous: Arc::new(Binary::anonymous()),
            vdso: own_vdso(),
        }
    }
}

fn own_vdso() -> Option<(Arc<Binary>, Arc<[u8]>)> {
    let bytes = vdso::read_own()?;
    let elf = BinaryFile::of_memory(Arc::clone(&bytes))?;
    let binary = Binary {
        name: "[vdso]".to_owned(),
        identity: elf.identity(),
        segments: elf.segments(),
        kind: BinaryKind::Vdso,
    };
    Some((Arc::new(binary), bytes))
}

impl Binaries {
    /// What a process has mapped there, at that time.
    pub(super) fn of_mapping(
        &mut self,
        process: ProcessId,
        mapped: &MappedFile,
        now_nanos: u64,
    ) -> Arc<Binary> {
        let path = match &mapped.backing {
            Backing::File { path } => path,
            Backing::Vdso => return self.vdso_at(mapped),
            Backing::Anonymous => return Arc::clone(&self.anonymous),
        };
        let name = String::from_utf8_lossy(path).into_owned();
        let told = mapped.told.filter(|_| mapped.inode != 0);
        let told = told.map(|(device, generation)| (device, generation, mapped.inode));
        let known = told.and_then(|told| self.by_record.get(&told));
        let fresh = known.filter(|(_, then)| now_nanos.saturating_sub(*then) < TOLD_NANOS);
        if let Some(binary) = fresh.map(|(binary, _)| Arc::clone(binary)) {
            return self.interned(binary, &name);
        }
        for candidate in opening::candidates(process, mapped.mapping, path) {
            let is_surely_it = candidate.found == Found::ByMapping;
            if !is_surely_it && candidate.key.inode != mapped.inode {
                continue;
            }
            let key = candidate.key;
            let known = self.by_file.get(&key).map(Arc::clone);
            let Some(binary) = known.or_else(|| self.read(&candidate, &name)) else {
                continue;
            };
            let binary = self.interned(binary, &name);
            self.make_room();
            self.by_file.insert(key, Arc::clone(&binary));
            if let Some(told) = told {
                self.by_record
                    .insert(told, (Arc::clone(&binary), now_nanos));
            }
            return binary;
        }
        // Not remembered: another process may have the file at hand.
        Arc::new(Binary {
            name,
            identity: None,
            segments: LoadSegments::default(),
            kind: BinaryKind::File,
        })
    }

    /// The file of a binary that a process has mapped, or had a moment ago; `None` if it is not to be had any more,
    /// and for memory without a file.
    pub(super) fn open(&self, process: ProcessId, region: &Region) -> Option<BinaryFile> {
        let binary = &region.binary;
        match binary.kind {
            BinaryKind::Anonymous => None,
            BinaryKind::Vdso => BinaryFile::of_memory(Arc::clone(&self.vdso.as_ref()?.1)),
            BinaryKind::File => {
                let path = binary.name.as_bytes();
                let files = opening::candidates(process, region.mapping, path);
                let elves = files.filter_map(|file| BinaryFile::of_file(file.open()?));
                let mut same = elves
                    .filter(|elf| binary.identity.is_some() && elf.identity() == binary.identity);
                same.next()
            }
        }
    }

    /// What a file is; `None` if it cannot be opened.
    fn read(&self, candidate: &Candidate, name: &str) -> Option<Arc<Binary>> {
        let Some(elf) = BinaryFile::of_file(candidate.open()?) else {
            return Some(Arc::clone(&self.anonymous));
        };
        Some(Arc::new(Binary {
            name: name.to_owned(),
            identity: elf.identity(),
            segments: elf.segments(),
            kind: BinaryKind::File,
        }))
    }

    /// A process of 32 bits has another one, which this process cannot read; it lies below 4 GiB.
    fn vdso_at(&self, mapped: &MappedFile) -> Arc<Binary> {
        let is_of_32_bits = mapped.mapping.end.0 <= 1 << 32;
        let own = self.vdso.as_ref().filter(|_| !is_of_32_bits);
        Arc::clone(own.map_or(&self.anonymous, |(binary, _)| binary))
    }

    /// The one that is like it, if it is known already.
    fn interned(&mut self, binary: Arc<Binary>, name: &str) -> Arc<Binary> {
        let Some(identity) = binary.identity.clone() else {
            return binary;
        };
        let variants = self.known.entry(identity).or_default();
        let is_same =
            |known: &&Arc<Binary>| known.name == name && known.segments == binary.segments;
        match variants.iter().find(is_same) {
            Some(known) => Arc::clone(known),
            None => renamed(&binary, name, variants),
        }
    }

    /// Forgets all when there are too many: those that are mapped stay with their processes, and are read once more
    /// when they are mapped again.
    fn make_room(&mut self) {
        let counts = [self.known.len(), self.by_file.len(), self.by_record.len()];
        if counts.into_iter().any(|count| count > BINARIES_MAX) {
            self.known.clear();
            self.by_file.clear();
            self.by_record.clear();
        }
    }
}

fn renamed(binary: &Arc<Binary>, name: &str, variants: &mut Vec<Arc<Binary>>) -> Arc<Binary> {
    let named = if binary.name == name {
        Arc::clone(binary)
    } else {
        let name = name.to_owned();
        Arc::new(Binary {
            name,
            ..Binary::clone(binary)
        })
    };
    if variants.len() < NAMES_MAX {
        variants.push(Arc::clone(&named));
    }
    named
}
