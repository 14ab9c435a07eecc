//! What is remembered of a scanned file: enough to find it by build ID and to tell that it changed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use unhex_build_id::BuildId;
use unhex_symbols::elf::{ElfRole, ElfSummary};
use unhex_symbols::quality::Quality;

use crate::artifacts::{ArtifactKind, canonical_source_path};

/// What changes when somebody writes to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) size_bytes: u64,
    /// Seconds and nanoseconds since 1970.
    modified: (i64, u32),
}

/// What an ELF file is to its build ID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Traits {
    pub(super) id: BuildId,
    pub(super) role: ElfRole,
    pub(super) quality: Quality,
    /// The build ID of the supplementary file that it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) supplement: Option<BuildId>,
}

/// One file on disk that has something to serve.
#[derive(Debug)]
pub(super) struct ScannedFile {
    /// Without links in it.
    pub(super) path: Box<Path>,
    pub(super) stamp: Stamp,
    pub(super) content: Content,
    /// The last scan that found it so.
    seen: AtomicU32,
}

/// What a file has to serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Content {
    /// It is an ELF file itself.
    Elf(Traits),
    /// It is an archive of some.
    Archive(Archived),
}

/// What an archive has to serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Archived {
    /// ELF files with a build ID.
    pub(super) members: Box<[Member]>,
    /// [`path_hash`] of the paths of all other files: sources may be among them, and there may be
    /// very many.
    pub(super) sources: Box<[u64]>,
}

/// An ELF file in an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Member {
    /// As the archive has it, after the names of archives in it that it is in.
    pub(super) name: Box<str>,
    pub(super) size_bytes: u64,
    /// Seconds since 1970.
    pub(super) modified: u64,
    pub(super) traits: Traits,
}

/// One ELF file that was found: a file, or a member of an archive.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) file: Arc<ScannedFile>,
    /// The number of the member.
    pub(super) member: Option<u32>,
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or_default();
        Self {
            size_bytes: metadata.len(),
            modified: (metadata.mtime(), nanoseconds),
        }
    }

    pub(super) fn modified(self) -> SystemTime {
        let (seconds, nanoseconds) = self.modified;
        let seconds = u64::try_from(seconds).unwrap_or_default();
        UNIX_EPOCH + Duration::new(seconds, nanoseconds)
    }
}

impl Traits {
    /// What a file is whose headers were read; `None` when nobody could ask for it.
    pub(super) fn of(summary: ElfSummary) -> Option<Self> {
        let is_asked_for = summary.role.is_executable() || summary.role.is_debuginfo();
        let id = summary.build_id.filter(|_| is_asked_for)?;
        Some(Self {
            id,
            role: summary.role,
            quality: summary.quality_estimate,
            supplement: summary.supplement.map(|supplement| supplement.build_id),
        })
    }

    pub(super) fn is(&self, kind: ArtifactKind) -> bool {
        match kind {
            ArtifactKind::Executable => self.role.is_executable(),
            ArtifactKind::Debuginfo => self.role.is_debuginfo(),
            ArtifactKind::Dwp | ArtifactKind::Sources => false,
        }
    }
}

impl Archived {
    /// Whether nobody could ask for anything in it.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.sources.is_empty()
    }
}

impl ScannedFile {
    pub(super) fn new(path: PathBuf, stamp: Stamp, content: Content) -> Self {
        Self {
            path: path.into_boxed_path(),
            stamp,
            content,
            seen: AtomicU32::new(0),
        }
    }

    /// Notes that the scan of this number has found it.
    pub(super) fn see(&self, scan: u32) {
        self.seen.store(scan, Ordering::Relaxed);
    }

    /// Whether that scan has.
    pub(super) fn was_seen(&self, scan: u32) -> bool {
        self.seen.load(Ordering::Relaxed) == scan
    }

    /// The ELF files in it.
    pub(super) fn found(self: &Arc<Self>) -> impl Iterator<Item = Found> {
        let members = match &self.content {
            Content::Elf(_) => vec![None],
            Content::Archive(archive) => (0..)
                .take(archive.members.len())
                .map(Some)
                .collect::<Vec<Option<u32>>>(),
        };
        members.into_iter().map(|member| Found {
            file: Arc::clone(self),
            member,
        })
    }

    /// The paths of sources that it may have.
    pub(super) fn sources(&self) -> &[u64] {
        match &self.content {
            Content::Elf(_) => &[],
            Content::Archive(archive) => &archive.sources,
        }
    }
}

impl Found {
    /// Whether it lies in an archive.
    pub(super) fn is_member(&self) -> bool {
        self.member.is_some()
    }

    /// The member of the archive, if it is one.
    pub(super) fn member(&self) -> Option<&Member> {
        match &self.file.content {
            Content::Elf(_) => None,
            Content::Archive(archive) => archive.members.get(usize::try_from(self.member?).ok()?),
        }
    }

    /// What it is; `None` for a member that is not there, which no [`ScannedFile::found`] gives.
    pub(super) fn traits(&self) -> Option<&Traits> {
        match &self.file.content {
            Content::Elf(traits) => Some(traits),
            Content::Archive(_) => self.member().map(|member| &member.traits),
        }
    }

    /// When it was changed last.
    pub(super) fn modified(&self) -> SystemTime {
        self.member().map_or_else(
            || self.file.stamp.modified(),
            |member| UNIX_EPOCH + Duration::from_secs(member.modified),
        )
    }

    /// The path by which users know it: on disk, or in its archive.
    pub(super) fn shown_path(&self) -> String {
        self.member().map_or_else(
            || self.file.path.to_string_lossy().into_owned(),
            |member| member_path(&member.name),
        )
    }

    /// The path of its archive.
    pub(super) fn shown_archive(&self) -> Option<String> {
        self.member
            .map(|_| self.file.path.to_string_lossy().into_owned())
    }

    /// Another one for other bytes, as far as stamps tell.
    pub(super) fn tag(&self) -> [u8; 32] {
        let Stamp {
            size_bytes,
            modified,
        } = self.file.stamp;
        let mut hash = Sha256::new();
        hash.update(self.file.path.as_os_str().as_encoded_bytes());
        hash.update([0]);
        hash.update(self.member().map_or("", |member| &member.name));
        hash.update([0]);
        hash.update(size_bytes.to_le_bytes());
        hash.update(modified.0.to_le_bytes());
        hash.update(modified.1.to_le_bytes());
        hash.finalize().into()
    }
}

/// The path that a member of an archive has where it is unpacked.
pub(super) fn member_path(name: &str) -> String {
    canonical_source_path(&format!("/{name}")).unwrap_or_else(|| name.to_owned())
}

/// A number for a path; others that have the same one are told apart by the path itself.
pub(super) fn path_hash(path: &[u8]) -> u64 {
    let hash: [u8; 32] = Sha256::digest(path).into();
    let start = hash.first_chunk().copied().unwrap_or_default();
    u64::from_le_bytes(start)
}

/// A number for a file that has nothing to serve, in this state.
pub(super) fn dull_hash(path: &Path, stamp: Stamp) -> u64 {
    let mut hash = Sha256::new();
    hash.update(path.as_os_str().as_encoded_bytes());
    hash.update([0]);
    hash.update(stamp.size_bytes.to_le_bytes());
    hash.update(stamp.modified.0.to_le_bytes());
    hash.update(stamp.modified.1.to_le_bytes());
    let hash: [u8; 32] = hash.finalize().into();
    let start = hash.first_chunk().copied().unwrap_or_default();
    u64::from_le_bytes(start)
}
