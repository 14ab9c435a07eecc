//! Where the headers and sections of a sound 64-bit little-endian ELF file lie.
//!
//! Read by hand: the mutations need the offsets of the headers themselves, and a reader that is
//! tested by them should not be what makes them.

/// The places in an ELF file.
#[derive(Clone, Debug)]
pub struct Layout {
    /// `e_shoff`: where the section headers start.
    pub section_headers: usize,
    /// The sections, in the order of their headers; the first is the empty one.
    pub sections: Vec<SectionHeader>,
}

/// One section header, and where it lies.
#[derive(Clone, Debug)]
pub struct SectionHeader {
    /// The name in the section name table.
    pub name: String,
    /// Offset of this header in the file.
    pub header_offset: usize,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_offset`.
    pub offset: usize,
    /// `sh_size`.
    pub size: usize,
}

const SHT_NULL: u32 = 0;
const SHT_NOBITS: u32 = 8;

impl Layout {
    /// Reads the headers of a sound file.
    ///
    /// # Panics
    /// If the file is not sound.
    pub fn of(bytes: &[u8]) -> Self {
        assert_eq!(&bytes[..6], b"\x7fELF\x02\x01", "64-bit little-endian ELF");
        let section_headers = word(bytes, 0x28);
        let count = usize::from(half(bytes, 0x3c));
        let names_index = usize::from(half(bytes, 0x3e));
        let header = |index: usize| section_headers + index * 64;
        let names = word(bytes, header(names_index) + 24);
        let sections = (0..count)
            .map(|index| {
                let at = header(index);
                let name = names + usize::try_from(quad(bytes, at)).expect("64-bit host");
                SectionHeader {
                    name: text(&bytes[name..]),
                    header_offset: at,
                    kind: quad(bytes, at + 4),
                    flags: word(bytes, at + 8) as u64,
                    offset: word(bytes, at + 24),
                    size: word(bytes, at + 32),
                }
            })
            .collect();
        Self {
            section_headers,
            sections,
        }
    }

    /// The section of that name.
    ///
    /// # Panics
    /// If there is none.
    pub fn section(&self, name: &str) -> &SectionHeader {
        self.sections
            .iter()
            .find(|section| section.name == name)
            .unwrap_or_else(|| panic!("no section {name}"))
    }
}

impl SectionHeader {
    /// Whether the section has bytes in the file.
    pub fn has_bytes(&self) -> bool {
        self.kind != SHT_NULL && self.kind != SHT_NOBITS && self.size > 0
    }
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("2 bytes"))
}

fn quad(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn word(bytes: &[u8], at: usize) -> usize {
    let value = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    usize::try_from(value).expect("64-bit host")
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).expect("a name ends");
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
