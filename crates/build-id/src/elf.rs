//! Which identities an ELF file carries in its notes.
//!
//! The notes are looked for in sections first, since the program headers of a debug-only file
//! point at what is no longer there, then in segments, since section headers can be stripped.
//! Linkers disagree on the alignment of notes: the declared one is tried first, then the other.
//! Whatever is damaged has no identity; that is never an error here.

use object::Endianness;
use object::elf::{FileHeader32, FileHeader64, PT_NOTE, SHT_NOTE};
use object::read::ReadRef;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use crate::{BuildId, GoBuildId};

/// Bytes of notes that are looked at in one file: real ones have a few hundred, a kernel a few
/// thousand; headers that all name the same long range must not cost hours.
const NOTE_BYTES_MAX: usize = 16 << 20;

/// `NT_GNU_BUILD_ID`, a type of the owner "GNU".
const TYPE_GNU_BUILD_ID: u32 = 3;

/// `ELF_NOTE_GOBUILDID_TAG`, a type of the owner "Go".
const TYPE_GO_BUILD_ID: u32 = 4;

/// The identities in the notes of an ELF file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElfIdentities {
    /// The GNU build ID: the first one, when there are several.
    pub gnu: Option<BuildId>,
    /// The Go build ID.
    pub go: Option<GoBuildId>,
}

impl ElfIdentities {
    /// The identities of the ELF file whose whole content is `file`; none when it is no ELF file.
    ///
    /// Reads headers and notes only: at most 16 MiB of notes, whatever the headers say.
    pub fn read(file: &[u8]) -> Self {
        Self::read_parts(file)
    }

    /// The same of a file that is not in memory, of which only the parts that are needed are read.
    pub fn read_parts<'data>(file: impl ReadRef<'data>) -> Self {
        let mut found = Self::default();
        match file.read_bytes_at(0, 5) {
            Ok(b"\x7fELF\x01") => found.read_class::<FileHeader32<Endianness>, _>(file),
            Ok(b"\x7fELF\x02") => found.read_class::<FileHeader64<Endianness>, _>(file),
            _ => None,
        };
        found
    }

    fn read_class<'data, Elf, R>(&mut self, file: R) -> Option<()>
    where
        Elf: FileHeader<Endian = Endianness>,
        R: ReadRef<'data>,
    {
        let header = Elf::parse(file).ok()?;
        let endian = header.endian().ok()?;
        let mut budget = NOTE_BYTES_MAX;
        for section in header.section_headers(endian, file).unwrap_or_default() {
            if section.sh_type(endian) == SHT_NOTE {
                let align = section.sh_addralign(endian).into();
                let data = section.data(endian, file).unwrap_or_default();
                self.read_notes(
                    &Notes {
                        data,
                        align,
                        endian,
                    },
                    &mut budget,
                );
            }
        }
        for segment in header.program_headers(endian, file).unwrap_or_default() {
            if segment.p_type(endian) == PT_NOTE && self.gnu.is_none() {
                let align = segment.p_align(endian).into();
                let data = segment.data(endian, file).unwrap_or_default();
                self.read_notes(
                    &Notes {
                        data,
                        align,
                        endian,
                    },
                    &mut budget,
                );
            }
        }
        Some(())
    }

    /// Reads one section or segment of notes by its declared alignment, then by the other one.
    fn read_notes(&mut self, notes: &Notes<'_>, budget: &mut usize) {
        let declared = if notes.align == 8 { 8 } else { 4 };
        for align in [declared, 12 - declared] {
            let Some(left) = budget.checked_sub(notes.data.len()) else {
                return;
            };
            *budget = left;
            let before = (self.gnu.is_some(), self.go.is_some());
            let mut at = 0;
            while let Some(note) = notes.note(at, align) {
                self.take(&note);
                at = note.next;
            }
            if before != (self.gnu.is_some(), self.go.is_some()) {
                return;
            }
        }
    }

    fn take(&mut self, note: &Note<'_>) {
        let owner = note.owner.split(|&byte| byte == 0).next();
        match (owner, note.kind) {
            (Some(b"GNU"), TYPE_GNU_BUILD_ID) if self.gnu.is_none() => {
                self.gnu = BuildId::from_bytes(note.description).ok();
            }
            (Some(b"Go"), TYPE_GO_BUILD_ID) if self.go.is_none() => {
                let text = std::str::from_utf8(note.description).ok();
                self.go = text.and_then(|text| text.trim_end_matches('\0').parse().ok());
            }
            _ => {}
        }
    }
}

/// A run of notes.
struct Notes<'data> {
    data: &'data [u8],
    align: u64,
    endian: Endianness,
}

/// One note.
struct Note<'data> {
    owner: &'data [u8],
    kind: u32,
    description: &'data [u8],
    next: usize,
}

impl<'data> Notes<'data> {
    /// The note at `at`; `None` at the end and where the lengths cannot be.
    fn note(&self, at: usize, align: usize) -> Option<Note<'data>> {
        let name_length = self.word(at)?;
        let description_length = self.word(at.checked_add(4)?)?;
        let kind = self.word(at.checked_add(8)?)?;
        let owner_at = at.checked_add(12)?;
        let owner_end = owner_at.checked_add(usize::try_from(name_length).ok()?)?;
        let description_at = owner_end.checked_next_multiple_of(align)?;
        let description_end =
            description_at.checked_add(usize::try_from(description_length).ok()?)?;
        Some(Note {
            owner: self.data.get(owner_at..owner_end)?,
            kind,
            description: self.data.get(description_at..description_end)?,
            next: description_end.checked_next_multiple_of(align)?,
        })
    }

    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.data.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(match self.endian {
            Endianness::Little => u32::from_le_bytes(bytes),
            Endianness::Big => u32::from_be_bytes(bytes),
        })
    }
}

#[cfg(test)]
mod tests;
