//! Damaged and hostile ELF files, made from sound ones by small pure functions.
//!
//! Each function takes the bytes of a sound 64-bit little-endian file and returns changed ones; what
//! was changed is in the name. [`all`] is a set of them to run against a server or a parser;
//! [`poor_but_sound`] are files that look odd and are not hostile.

mod bombs;
mod layout;
mod set;

pub use bombs::{Cyclic, cyclic_dies, demangling_bombs, nested_dies, self_referring_dies};
pub use layout::{Layout, SectionHeader};
pub use set::{all, poor_but_sound};

use std::io::Write;

/// A hostile file and what is wrong with it.
#[derive(Clone, Debug)]
pub struct Hostile {
    /// What is wrong, as a sentence.
    pub what: String,
    /// The file.
    pub bytes: Vec<u8>,
}

/// A field of a section header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionField {
    /// `sh_name`, 4 bytes.
    Name,
    /// `sh_type`, 4 bytes.
    Type,
    /// `sh_flags`.
    Flags,
    /// `sh_addr`.
    Address,
    /// `sh_offset`.
    Offset,
    /// `sh_size`.
    Size,
    /// `sh_link`, 4 bytes.
    Link,
    /// `sh_entsize`.
    EntrySize,
}

/// A field of the file header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderField {
    /// `e_machine`.
    Machine,
    /// `e_entry`.
    Entry,
    /// `e_phoff`.
    ProgramHeaderOffset,
    /// `e_shoff`.
    SectionHeaderOffset,
    /// `e_phentsize`.
    ProgramHeaderSize,
    /// `e_phnum`.
    ProgramHeaderCount,
    /// `e_shentsize`.
    SectionHeaderSize,
    /// `e_shnum`.
    SectionHeaderCount,
    /// `e_shstrndx`.
    SectionNames,
}

const SHF_COMPRESSED: u64 = 0x800;
const ELFCOMPRESS_ZLIB: u32 = 1;
const ELFCOMPRESS_ZSTD: u32 = 2;

/// The file with a field of its header set.
pub fn with_header(bytes: &[u8], field: HeaderField, value: u64) -> Vec<u8> {
    let (offset, size) = match field {
        HeaderField::Machine => (0x12, 2),
        HeaderField::Entry => (0x18, 8),
        HeaderField::ProgramHeaderOffset => (0x20, 8),
        HeaderField::SectionHeaderOffset => (0x28, 8),
        HeaderField::ProgramHeaderSize => (0x36, 2),
        HeaderField::ProgramHeaderCount => (0x38, 2),
        HeaderField::SectionHeaderSize => (0x3a, 2),
        HeaderField::SectionHeaderCount => (0x3c, 2),
        HeaderField::SectionNames => (0x3e, 2),
    };
    overwritten(bytes, offset, &value.to_le_bytes()[..size])
}

/// The file with a field of a section header set.
///
/// # Panics
/// If there is no such section.
pub fn with_section(bytes: &[u8], section: &str, field: SectionField, value: u64) -> Vec<u8> {
    let (offset, size) = match field {
        SectionField::Name => (0, 4),
        SectionField::Type => (4, 4),
        SectionField::Flags => (8, 8),
        SectionField::Address => (16, 8),
        SectionField::Offset => (24, 8),
        SectionField::Size => (32, 8),
        SectionField::Link => (40, 4),
        SectionField::EntrySize => (56, 8),
    };
    let header = Layout::of(bytes).section(section).header_offset;
    overwritten(bytes, header + offset, &value.to_le_bytes()[..size])
}

/// The file with other contents of a section, uncompressed, which are put at its end.
///
/// # Panics
/// If there is no such section.
pub fn with_contents(bytes: &[u8], section: &str, contents: &[u8]) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    changed.resize(bytes.len().next_multiple_of(16), 0);
    let offset = changed.len();
    changed.extend_from_slice(contents);
    let flags = Layout::of(bytes).section(section).flags & !SHF_COMPRESSED;
    let changed = with_section(&changed, section, SectionField::Offset, offset as u64);
    let changed = with_section(&changed, section, SectionField::Flags, flags);
    with_section(&changed, section, SectionField::Size, contents.len() as u64)
}

/// The file with another build ID of 20 bytes, or `None` when it has no such note: each hostile file
/// needs one of its own, since a server keeps one set of files a build ID.
pub fn with_build_id(bytes: &[u8], id: [u8; 20]) -> Option<Vec<u8>> {
    // Sizes of name and description, NT_GNU_BUILD_ID, and the name.
    const NOTE: &[u8] = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    let note = bytes
        .windows(NOTE.len())
        .position(|window| window == NOTE)?;
    let at = note + NOTE.len();
    bytes.get(at..at + id.len())?;
    Some(overwritten(bytes, at, &id))
}

/// How a compressed section says that it was compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// `ELFCOMPRESS_ZLIB`.
    Zlib,
    /// `ELFCOMPRESS_ZSTD`.
    Zstd,
}

/// A compressed section: what its header promises and what it unpacks to.
#[derive(Clone, Copy, Debug)]
pub struct Bomb {
    /// How it is compressed.
    pub packing: Packing,
    /// `ch_size`: the size after decompression, as the header says.
    pub claimed_bytes: u64,
    /// How many zero bytes it really unpacks to.
    pub unpacked_bytes: u64,
}

/// The file with a section that unpacks to many zeros.
///
/// # Panics
/// If there is no such section.
pub fn with_bomb(bytes: &[u8], section: &str, bomb: Bomb) -> Vec<u8> {
    let kind = match bomb.packing {
        Packing::Zlib => ELFCOMPRESS_ZLIB,
        Packing::Zstd => ELFCOMPRESS_ZSTD,
    };
    let mut contents = Vec::new();
    contents.extend_from_slice(&kind.to_le_bytes());
    contents.extend_from_slice(&[0; 4]);
    contents.extend_from_slice(&bomb.claimed_bytes.to_le_bytes());
    contents.extend_from_slice(&1_u64.to_le_bytes());
    contents.extend_from_slice(&packed_zeros(bomb.packing, bomb.unpacked_bytes));
    let flags = Layout::of(bytes).section(section).flags | SHF_COMPRESSED;
    let changed = with_contents(bytes, section, &contents);
    with_section(&changed, section, SectionField::Flags, flags)
}

/// The file cut at each place where something starts or ends, and in the middle of each section.
pub fn truncations(bytes: &[u8]) -> Vec<Hostile> {
    let layout = Layout::of(bytes);
    let mut cuts = vec![
        4,
        16,
        63,
        64,
        layout.section_headers,
        layout.section_headers + 1,
    ];
    for section in layout.sections.iter().filter(|s| s.has_bytes()) {
        let end = section.offset + section.size;
        cuts.extend([section.offset, section.offset + section.size / 2, end]);
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts.into_iter()
        .filter(|&cut| cut < bytes.len())
        .map(|cut| Hostile {
            what: format!("cut after {cut} of {} bytes", bytes.len()),
            bytes: bytes[..cut].to_vec(),
        })
        .collect()
}

fn overwritten(bytes: &[u8], offset: usize, value: &[u8]) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    changed[offset..offset + value.len()].copy_from_slice(value);
    changed
}

fn packed_zeros(packing: Packing, count: u64) -> Vec<u8> {
    let chunk = vec![0; 1 << 20];
    let mut left = count;
    let mut write = |sink: &mut dyn Write| {
        while left > 0 {
            let size = left.min(1 << 20);
            let part = usize::try_from(size).expect("at most 1 MiB");
            sink.write_all(&chunk[..part])
                .expect("memory can be written");
            left -= size;
        }
    };
    match packing {
        Packing::Zlib => {
            let mut encoder =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            write(&mut encoder);
            encoder.finish().expect("memory can be written")
        }
        Packing::Zstd => {
            let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("a zstd encoder");
            write(&mut encoder);
            encoder.finish().expect("memory can be written")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Read;

    use super::*;
    use crate::fixture::Program;

    fn sound() -> Vec<u8> {
        let text = "int f(int x) { return x * 2; }\nint main(void) { return f(0); }\n";
        Program::c(text).flags(&["-g"]).build().bytes()
    }

    #[test]
    fn a_forged_size_changes_that_field_alone() {
        let sound = sound();
        let forged = with_section(&sound, ".debug_info", SectionField::Size, 0x1234);
        assert_eq!(Layout::of(&forged).section(".debug_info").size, 0x1234);
        let changed = sound.iter().zip(&forged).filter(|(a, b)| a != b).count();
        assert!((1..=8).contains(&changed), "{changed} bytes");
    }

    #[test]
    fn a_build_id_is_replaced() {
        let program = Program::c("int main(void) { return 0; }").build();
        let file = tempfile::NamedTempFile::new().expect("a file");
        let changed = with_build_id(&program.bytes(), [7; 20]).expect("a note");
        std::fs::write(file.path(), changed).expect("written");
        let found = crate::fixture::build_id_of(file.path());
        assert_eq!(found, Some("07".repeat(20)));
        assert_eq!(with_build_id(b"\x7fELF", [7; 20]), None);
    }

    #[test]
    fn contents_are_replaced() {
        let changed = with_contents(&sound(), ".debug_str", b"other");
        let layout = Layout::of(&changed);
        let section = layout.section(".debug_str");
        assert_eq!(
            &changed[section.offset..section.offset + section.size],
            b"other"
        );
    }

    #[test]
    fn a_bomb_unpacks_to_what_was_asked_for() {
        let bomb = Bomb {
            packing: Packing::Zlib,
            claimed_bytes: 7,
            unpacked_bytes: 3 << 20,
        };
        let changed = with_bomb(&sound(), ".debug_info", bomb);
        let layout = Layout::of(&changed);
        let section = layout.section(".debug_info");
        let packed = &changed[section.offset + 24..section.offset + section.size];
        let mut unpacked = Vec::new();
        let mut decoder = flate2::read::ZlibDecoder::new(packed);
        decoder.read_to_end(&mut unpacked).expect("sound zlib");
        assert_eq!(unpacked.len(), 3 << 20);
        assert!(packed.len() < 64 << 10, "{} bytes", packed.len());
        assert_eq!(section.flags & SHF_COMPRESSED, SHF_COMPRESSED);
    }

    #[test]
    fn every_section_boundary_is_a_cut() {
        let sound = sound();
        let cuts: Vec<usize> = truncations(&sound).iter().map(|h| h.bytes.len()).collect();
        for section in Layout::of(&sound).sections.iter().filter(|s| s.has_bytes()) {
            assert!(cuts.contains(&section.offset), "{}", section.name);
        }
        assert!(cuts.iter().all(|&cut| cut < sound.len()));
    }

    #[test]
    fn every_hostile_file_is_another() {
        let files = all(&sound());
        let distinct: BTreeSet<&[u8]> = files.iter().map(|file| file.bytes.as_slice()).collect();
        assert_eq!(distinct.len(), files.len());
        assert!(files.len() >= 20, "{}", files.len());
    }
}
