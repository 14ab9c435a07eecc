//! Why a file is refused as an ELF file, in words for whoever sent it.

use super::FileFormat;

/// Why a file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// Another kind of file.
    #[error("the file is {0}; an ELF file is needed")]
    NotElf(FileFormat),
    /// A class or byte order that does not exist.
    #[error("the ELF header has {field} {value}, which does not exist")]
    UnknownIdent {
        /// `class` or `byte order`.
        field: &'static str,
        /// Its value.
        value: u8,
    },
    /// The file ends before something that its tables promise.
    #[error("the file is truncated: {what} ends at byte {end}, the file has {length}")]
    Truncated {
        /// What lies beyond the end.
        what: String,
        /// Where it would end.
        end: u64,
        /// Length of the file.
        length: u64,
    },
    /// More of something than is accepted.
    #[error("the file has {count} {what}, more than {max}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many are accepted.
        max: usize,
    },
    /// A table that cannot be read.
    #[error("{what} cannot be read: {detail}")]
    Damaged {
        /// Which table.
        what: &'static str,
        /// What the parser says.
        detail: String,
    },
    /// A count that is said to be elsewhere and is not there: gABI, `PN_XNUM`.
    #[error(
        "the ELF header says that section 0 has the number of program headers, which says {count} \
         there: a number below 65535 stands in the ELF header"
    )]
    NoProgramHeaderCount {
        /// `sh_info` of section 0.
        count: u32,
    },
    /// A reference to a section that the file does not have.
    #[error("{what} are said to be in section {index}, the file has {count}")]
    NoSuchSection {
        /// What is said to be there.
        what: String,
        /// The index of the section.
        index: u32,
        /// How many sections there are.
        count: usize,
    },
    /// A symbol table whose entries are no symbols.
    #[error(
        "section {section} says that each of its symbols has {size} bytes; they have {expected}"
    )]
    SymbolSize {
        /// The symbol table.
        section: String,
        /// Its `sh_entsize`.
        size: u64,
        /// The size of a symbol in files of this class.
        expected: u64,
    },
}
