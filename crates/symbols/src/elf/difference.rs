//! Whether two files under one build ID are the same code, and if not, what differs, in words.
//!
//! A debug-only file and the executable that it was split from are the same code: what stripping,
//! splitting and dwz change (offsets, section types, unloaded sections) is not looked at.

use super::file::ElfClass;
use super::summary::{AllocatedSection, ElfSummary};
use crate::segments::LoadSegment;

/// How two files differ in their code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodeDifference {
    /// 32 bits against 64.
    #[error("one file has 32-bit addresses, the other 64-bit ones")]
    Class,
    /// Other byte order.
    #[error("one file is little-endian, the other big-endian")]
    ByteOrder,
    /// Another processor.
    #[error("the machine is {this} in one file and {other} in the other")]
    Machine {
        /// `e_machine` of the first.
        this: u16,
        /// `e_machine` of the second.
        other: u16,
    },
    /// Another entry point.
    #[error("the entry point is {this:#x} in one file and {other:#x} in the other")]
    Entry {
        /// `e_entry` of the first.
        this: u64,
        /// `e_entry` of the second.
        other: u64,
    },
    /// Other segments.
    #[error("a loaded segment of {this} in one file is {other} in the other")]
    Segment {
        /// The segment in the first, in words.
        this: String,
        /// The segment in the second, in words.
        other: String,
    },
    /// Other sections.
    #[error("{this} in one file, {other} in the other")]
    Section {
        /// The section in the first, in words.
        this: String,
        /// The section in the second, in words.
        other: String,
    },
    /// Other code at the same place.
    #[error("the bytes of .text differ")]
    Text,
}

/// What makes `this` and `other` different code, if they are; the first difference that is found.
///
/// Tables that one of the two lacks are not compared: a file may be stripped of its section
/// headers, and an object file has no segments.
pub fn difference(this: &ElfSummary, other: &ElfSummary) -> Option<CodeDifference> {
    header_difference(this, other)
        .or_else(|| segment_difference(this, other))
        .or_else(|| section_difference(this, other))
        .or_else(|| match (this.text_sha256, other.text_sha256) {
            (Some(a), Some(b)) if a != b => Some(CodeDifference::Text),
            _ => None,
        })
}

fn header_difference(this: &ElfSummary, other: &ElfSummary) -> Option<CodeDifference> {
    if this.class != other.class {
        return Some(CodeDifference::Class);
    }
    if this.little_endian != other.little_endian {
        return Some(CodeDifference::ByteOrder);
    }
    if this.machine != other.machine {
        return Some(CodeDifference::Machine {
            this: this.machine,
            other: other.machine,
        });
    }
    (this.entry != other.entry).then_some(CodeDifference::Entry {
        this: this.entry,
        other: other.entry,
    })
}

fn segment_difference(this: &ElfSummary, other: &ElfSummary) -> Option<CodeDifference> {
    let (mine, theirs) = (&this.segments.0, &other.segments.0);
    if mine.is_empty() || theirs.is_empty() {
        return None;
    }
    let key = |s: &LoadSegment| (s.address, s.memory_size_bytes);
    let words = |s: Option<&LoadSegment>| match s {
        Some(s) => format!("{:#x} bytes at {:#x}", s.memory_size_bytes, s.address),
        None => "absent".to_owned(),
    };
    let (a, b) = first_difference(mine, theirs, key)?;
    Some(CodeDifference::Segment {
        this: words(a),
        other: words(b),
    })
}

fn section_difference(this: &ElfSummary, other: &ElfSummary) -> Option<CodeDifference> {
    let sorted = |summary: &ElfSummary| {
        let mut sections = summary.allocated_sections.clone();
        sections.sort();
        sections
    };
    let (mine, theirs) = (sorted(this), sorted(other));
    if mine.is_empty() || theirs.is_empty() {
        return None;
    }
    let key = |s: &AllocatedSection| (s.name.clone(), s.address, s.size_bytes);
    let words = |s: Option<&AllocatedSection>| match s {
        Some(s) => format!(
            "section {} has {:#x} bytes at {:#x}",
            s.name, s.size_bytes, s.address
        ),
        None => "no more loaded sections".to_owned(),
    };
    let (a, b) = first_difference(&mine, &theirs, key)?;
    Some(CodeDifference::Section {
        this: words(a),
        other: words(b),
    })
}

/// The first place where the keys of two lists differ; one side is `None` beyond its end.
fn first_difference<'a, T, K: PartialEq>(
    mine: &'a [T],
    theirs: &'a [T],
    key: impl Fn(&T) -> K,
) -> Option<(Option<&'a T>, Option<&'a T>)> {
    (0..mine.len().max(theirs.len()))
        .map(|at| (mine.get(at), theirs.get(at)))
        .find(|(a, b)| a.map(&key) != b.map(&key))
}

/// Class in words, for callers that print a summary.
impl std::fmt::Display for ElfClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Elf32 => "ELF32",
            Self::Elf64 => "ELF64",
        })
    }
}
