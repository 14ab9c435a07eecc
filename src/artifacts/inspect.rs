//! What an uploaded file is, whether it may come in, and under which build ID and kinds.

use std::collections::BTreeSet;

use unhex_build_id::{BuildId, FileHash, Identity};
use unhex_symbols::elf::{ElfSummary, FileFormat, SplitDwarf, TextHash, what_is_it};
use unhex_symbols::quality::Quality;

use super::homes;
use super::ingested::{IngestError, Target};
use super::located::ArtifactKind;
use super::mapped::Mapped;
use super::sources::{self, SourceLimits};
use super::store::StoreError;

/// `e_type` of a core dump.
const ET_CORE: u16 = 4;

/// A file that may come in.
#[derive(Debug)]
pub(super) struct Inspected {
    /// The GNU build ID that the file itself has, or the internal one of its other identity.
    pub(super) own_id: Option<BuildId>,
    /// What it is good for; not empty.
    pub(super) kinds: BTreeSet<ArtifactKind>,
    pub(super) quality: Quality,
    pub(super) identities: Vec<Identity>,
    pub(super) elf: Option<ElfSummary>,
    pub(super) source_files: Option<u64>,
}

impl Inspected {
    /// As what it is recorded: the wanted kind if it is that, else what it is.
    pub(super) fn kind(&self, wanted: Option<ArtifactKind>) -> ArtifactKind {
        let first = [ArtifactKind::Debuginfo, ArtifactKind::Executable];
        wanted
            .into_iter()
            .chain(first)
            .chain(self.kinds.iter().copied())
            .find(|kind| self.kinds.contains(kind))
            .unwrap_or(ArtifactKind::Debuginfo)
    }
}

/// Looks at a whole file, which `target` says something about.
pub(super) fn inspect(
    file: &Mapped,
    target: &Target,
    limits: &SourceLimits,
) -> Result<Inspected, IngestError> {
    let wanted = target.kind();
    if wanted == Some(ArtifactKind::Sources) {
        return inspect_sources(file, limits);
    }
    if wanted.is_none() && what_is_it(file.bytes()) == FileFormat::Zip {
        return Err(refused(
            "a zip archive does not say whose sources it has; \
             PUT it to /buildid/{build ID}/sources",
        ));
    }
    let mut unreadable = None;
    let elf = ElfSummary::read_with(file.bytes(), |text| match file.hash_of(text) {
        Ok(hash) => Some(TextHash(hash.0)),
        Err(error) => {
            unreadable = Some(error);
            None
        }
    });
    if let Some(error) = unreadable {
        return Err(StoreError::from_io("reading", &"an upload", error).into());
    }
    let elf = elf.map_err(|error| refused(error.to_string()))?;
    if elf.file_type == ET_CORE {
        return Err(refused(
            "it is a core dump; an executable or debuginfo is needed",
        ));
    }
    match (elf.split_dwarf, wanted) {
        (Some(SplitDwarf::Dwo), _) => Err(refused(
            "it is the split DWARF of one unit (.dwo); pack those of a program with dwp and \
             PUT that to /buildid/{build ID}/dwp",
        )),
        (Some(SplitDwarf::Dwp), None) => Err(refused(
            "it is packed split DWARF, which does not say whose it is; \
             PUT it to /buildid/{build ID}/dwp",
        )),
        (Some(SplitDwarf::Dwp), Some(_)) => Ok(inspect_dwp(elf)),
        (None, Some(ArtifactKind::Dwp)) => {
            Err(refused("it has no packed split DWARF (.debug_cu_index)"))
        }
        (None, _) => inspect_elf(file, elf),
    }
}

fn inspect_elf(file: &Mapped, elf: ElfSummary) -> Result<Inspected, IngestError> {
    let mut kinds = BTreeSet::new();
    if elf.role.is_executable() {
        kinds.insert(ArtifactKind::Executable);
    }
    if elf.role.is_debuginfo() {
        kinds.insert(ArtifactKind::Debuginfo);
    }
    if kinds.is_empty() {
        return Err(refused(
            "it has neither loaded code or data nor debug information",
        ));
    }
    let hash = FileHash::of(file.bytes());
    let mut identities: Vec<Identity> = elf
        .go_build_id
        .clone()
        .map(Identity::Go)
        .into_iter()
        .collect();
    // Profilers hash the program that runs, never its debug file.
    if elf.role.is_executable() {
        identities.push(Identity::FileHash(hash));
    }
    let own_id = match (&elf.build_id, &elf.go_build_id) {
        (Some(id), _) if homes::is_internal(id) => {
            return Err(refused(format!(
                "its build ID {id} lies in the range of internal ones"
            )));
        }
        (Some(id), _) => Some(id.clone()),
        (None, Some(go)) => homes::of_go(go).ok(),
        (None, None) => homes::of_file_hash(&hash).ok(),
    };
    Ok(Inspected {
        own_id,
        kinds,
        quality: elf.quality_estimate,
        identities,
        elf: Some(elf),
        source_files: None,
    })
}

fn inspect_dwp(elf: ElfSummary) -> Inspected {
    Inspected {
        own_id: elf.build_id.clone(),
        kinds: BTreeSet::from([ArtifactKind::Dwp]),
        quality: Quality::None,
        identities: Vec::new(),
        elf: Some(elf),
        source_files: None,
    }
}

fn inspect_sources(file: &Mapped, limits: &SourceLimits) -> Result<Inspected, IngestError> {
    let format = what_is_it(file.bytes());
    if format != FileFormat::Zip {
        return Err(refused(format!(
            "the file is {format}; a zip archive of sources is needed"
        )));
    }
    let archive = file.reopen().map_err(|error| refused(error.to_string()))?;
    let files = sources::check_bundle(archive, limits).map_err(|error| match error {
        sources::SourcesError::TooLarge { .. } => IngestError::LimitExceeded(error.to_string()),
        other => refused(other.to_string()),
    })?;
    Ok(Inspected {
        own_id: None,
        kinds: BTreeSet::from([ArtifactKind::Sources]),
        quality: Quality::None,
        identities: Vec::new(),
        elf: None,
        source_files: Some(files),
    })
}

fn refused(detail: impl Into<String>) -> IngestError {
    IngestError::Refused {
        detail: detail.into(),
    }
}
