//! Walks files, folders and archives, and says of each what it is.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use unhex_symbols::elf::{ElfError, SplitDwarf, what_is_it};
use walkdir::WalkDir;

use super::beside::{companions, program_of_packed};
use super::elf::ElfFacts;
use super::glob::Glob;
use super::mapped::Mapped;
use super::{Binary, Content, Finding, Label, Part, WithoutBuildId};
use crate::archive::{self, ArchiveError, ArchiveLimits, Format, Member};

/// Bytes from the start of a file that tell what it is: tar has its mark at 257.
const HEAD_BYTES: u64 = 512;

/// What is looked for, and where to.
#[derive(Clone, Debug, Default)]
pub(crate) struct SearchOptions {
    /// Files must match one of these, when there are any. Files that are named count always.
    pub(crate) include: Vec<Glob>,
    /// Files must match none of these.
    pub(crate) exclude: Vec<Glob>,
    /// Bounds on what is unpacked.
    pub(crate) limits: ArchiveLimits,
}

/// Told of each finding; may end the search.
pub(crate) type Emit<'a> = dyn FnMut(Finding) -> ControlFlow<()> + 'a;

/// One search over some paths.
pub(crate) struct Search<'a> {
    options: &'a SearchOptions,
    emit: &'a mut Emit<'a>,
    seen: HashSet<(u64, u64)>,
    found: u64,
}

/// How a file was come upon.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    /// The user named this very file.
    Itself,
    /// It lies in a folder or archive that the user named.
    Around,
}

impl<'a> Search<'a> {
    /// Looks at all `paths`, in their order, and tells `emit` what is there. Blocks on the disk.
    ///
    /// Links within a folder are not followed, so that no search leaves the paths or runs in
    /// circles; a path that is itself a link is. A file of many names is looked at once.
    pub(crate) fn run(paths: &[PathBuf], options: &'a SearchOptions, emit: &'a mut Emit<'a>) {
        let mut search = Self {
            options,
            emit,
            seen: HashSet::new(),
            found: 0,
        };
        for path in paths {
            if search.path(path).is_break() {
                return;
            }
        }
    }

    fn path(&mut self, path: &Path) -> ControlFlow<()> {
        let metadata = match path.metadata() {
            Ok(metadata) => metadata,
            Err(error) => return self.unreadable(path, &error.to_string()),
        };
        if !metadata.is_dir() {
            return self.file(path, &metadata, Named::Itself);
        }
        let before = self.found;
        self.folder(path)?;
        if self.found == before {
            return (self.emit)(Finding::Nothing {
                label: Label::of_path(path),
            });
        }
        ControlFlow::Continue(())
    }

    fn folder(&mut self, folder: &Path) -> ControlFlow<()> {
        let entries = WalkDir::new(folder).follow_links(false).sort_by_file_name();
        for entry in entries {
            let found = entry.and_then(|entry| {
                let metadata = entry.metadata()?;
                Ok((entry.into_path(), metadata))
            });
            match found {
                Ok((path, metadata)) if metadata.is_file() => {
                    if self.is_wanted(&path) {
                        self.file(&path, &metadata, Named::Around)?;
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    let path = error.path().unwrap_or(folder).to_owned();
                    let reason = error
                        .io_error()
                        .map_or_else(|| error.to_string(), ToString::to_string);
                    self.unreadable(&path, &reason)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn is_wanted(&self, path: &Path) -> bool {
        let options = self.options;
        let is_included = options.include.is_empty()
            || options.include.iter().any(|glob| glob.matches(path))
            || Format::of_name(path).is_some();
        is_included && !options.exclude.iter().any(|glob| glob.matches(path))
    }

    fn file(&mut self, path: &Path, metadata: &Metadata, named: Named) -> ControlFlow<()> {
        if !metadata.is_file() {
            return self.unreadable(path, "neither a file nor a folder");
        }
        if !self.seen.insert((metadata.dev(), metadata.ino())) {
            self.found += 1;
            return ControlFlow::Continue(());
        }
        let (file, head) = match open(path) {
            Ok(opened) => opened,
            Err(error) => return self.unreadable(path, &error.to_string()),
        };
        if head.starts_with(b"\x7fELF") {
            return self.elf_file(path, &file, named);
        }
        let format = match named {
            Named::Itself => Format::of_head(&head).or_else(|| Format::of_name(path)),
            Named::Around => Format::of_name(path),
        };
        match format {
            Some(format) => self.archive(path, file, (format, named)),
            None if named == Named::Itself => {
                let reason = format!(
                    "neither an ELF file nor an archive that can be read: it is {}",
                    what_is_it(&head)
                );
                self.unreadable(path, &reason)
            }
            None => ControlFlow::Continue(()),
        }
    }

    fn elf_file(&mut self, path: &Path, file: &File, named: Named) -> ControlFlow<()> {
        let bytes = match Mapped::of(file) {
            Ok(bytes) => bytes,
            Err(error) => return self.unreadable(path, &error.to_string()),
        };
        let facts = ElfFacts::read(&bytes);
        let companions = match (&facts, named) {
            (Ok(facts), Named::Itself) => companions(path, facts),
            _ => Vec::new(),
        };
        let elf = Elf {
            label: Label::of_path(path),
            file_name: file_name(path),
            content: Content::File(path.to_owned()),
            size_bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        };
        drop(bytes);
        self.elf(elf, facts, named)?;
        for companion in companions {
            if let Ok(metadata) = companion.metadata() {
                self.file(&companion, &metadata, Named::Around)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn elf(
        &mut self,
        elf: Elf,
        facts: Result<ElfFacts, ElfError>,
        named: Named,
    ) -> ControlFlow<()> {
        let label = elf.label;
        let facts = match facts {
            Ok(facts) => facts,
            Err(error) => {
                self.found += 1;
                let reason = error.to_string();
                return (self.emit)(Finding::Unreadable { label, reason });
            }
        };
        let is_packed = facts.summary.split_dwarf == Some(SplitDwarf::Dwp);
        if is_packed && let Some(build_id) = program_of_packed(elf.content.path()) {
            self.found += 1;
            return (self.emit)(Finding::Binary(Box::new(Binary {
                label,
                file_name: elf.file_name,
                content: elf.content,
                size_bytes: elf.size_bytes,
                build_id,
                part: Part::PackedSplitDwarf,
            })));
        }
        if let Some(excuse) = facts.excuse() {
            let reason = excuse.to_owned();
            return match named {
                Named::Itself => {
                    self.found += 1;
                    (self.emit)(Finding::Unreadable { label, reason })
                }
                Named::Around => (self.emit)(Finding::Skipped { label, reason }),
            };
        }
        self.found += 1;
        let Some(build_id) = facts.summary.build_id else {
            return (self.emit)(Finding::WithoutBuildId(WithoutBuildId {
                label,
                toolchain: facts.toolchain,
            }));
        };
        (self.emit)(Finding::Binary(Box::new(Binary {
            label,
            file_name: elf.file_name,
            content: elf.content,
            size_bytes: elf.size_bytes,
            build_id,
            part: Part::Whole {
                role: facts.summary.role,
                quality_estimate: facts.summary.quality_estimate,
            },
        })))
    }

    fn archive(
        &mut self,
        path: &Path,
        file: File,
        (format, named): (Format, Named),
    ) -> ControlFlow<()> {
        let label = Label::of_path(path);
        let before = self.found;
        let limits = self.options.limits.clone();
        let outcome = archive::unpack(file, format, &limits, &mut |member| {
            self.member(&label, member, limits.member_bytes_max)
        });
        match outcome {
            Err(error) => {
                self.found += 1;
                let reason = error.to_string();
                (self.emit)(Finding::Unreadable { label, reason })
            }
            Ok(ControlFlow::Continue(())) if self.found == before => {
                let reason = "an archive without binaries".to_owned();
                (self.emit)(match named {
                    Named::Itself => Finding::Unreadable { label, reason },
                    Named::Around => Finding::Skipped { label, reason },
                })
            }
            Ok(flow) => flow,
        }
    }

    fn member(
        &mut self,
        archive: &Label,
        member: &mut Member<'_>,
        bytes_max: u64,
    ) -> Result<ControlFlow<()>, ArchiveError> {
        let path = PathBuf::from(&member.name);
        if !self.is_wanted(&path) {
            return Ok(ControlFlow::Continue(()));
        }
        let label = archive.member(&member.label);
        let Some(unpacked) = member.unpack_elf(bytes_max)? else {
            return Ok(ControlFlow::Continue(()));
        };
        let bytes = Mapped::open(&unpacked.path)?;
        let facts = ElfFacts::read(&bytes);
        drop(bytes);
        let elf = Elf {
            label,
            file_name: file_name(&path),
            content: Content::Unpacked(unpacked.path),
            size_bytes: unpacked.size_bytes,
        };
        Ok(self.elf(elf, facts, Named::Around))
    }

    fn unreadable(&mut self, path: &Path, reason: &str) -> ControlFlow<()> {
        self.found += 1;
        (self.emit)(Finding::Unreadable {
            label: Label::of_path(path),
            reason: reason.to_owned(),
        })
    }
}

/// An ELF file before its role is known.
struct Elf {
    label: Label,
    file_name: String,
    content: Content,
    size_bytes: u64,
}

fn open(path: &Path) -> io::Result<(File, Vec<u8>)> {
    let file = File::open(path)?;
    let mut head = Vec::new();
    (&file).take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok((file, head))
}

/// The name without folders, as the server is told it.
fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
