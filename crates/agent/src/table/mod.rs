//! How to get from a frame to its caller, at each address of a binary: `.eh_frame` as rows that a kernel program can search.
//!
//! `.eh_frame` is a program for a small machine, which nobody wants to run at interrupt time. Run once, it yields
//! rules, of which compilers use few kinds: [`Rule`] has those, in 32 bits. A [`Row`] is an address and the rule from there
//! on, 8 bytes; [`UnwindTable`] has the rows of a binary by address. What the rules say of registers is what stacks
//! need: the caller's stack pointer, its `rbp` and where it goes on.

mod build;
mod rule;

use unhex_symbols::address::LinkAddress;

pub use build::EhFrameSection;
pub use rule::{FramePointer, Rule, Word};

/// From an address on: one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Bytes from the base of the table.
    pub address: u32,
    /// The rule, as the kernel program reads it.
    pub word: Word,
}

/// The rules of one binary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnwindTable {
    base: u64,
    rows: Vec<Row>,
    covered_bytes: u64,
    skipped: u64,
    damaged: u64,
}

impl UnwindTable {
    /// The link address that the rows count from.
    pub fn base(&self) -> LinkAddress {
        LinkAddress(self.base)
    }

    /// Its rows, by address; no two neighbours have the same rule.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Bytes of code that have a rule other than [`Rule::Gap`].
    pub fn covered_bytes(&self) -> u64 {
        self.covered_bytes
    }

    /// Functions that were left out, whose entries cannot be read or are not of code.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Functions that are followed only up to an instruction that makes no sense.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// The rule at a link address; a gap before the first row and after the last.
    ///
    /// Costs one binary search.
    pub fn rule_at(&self, address: LinkAddress) -> Rule {
        let relative = address.0.checked_sub(self.base);
        let Some(relative) = relative.and_then(|relative| u32::try_from(relative).ok()) else {
            return Rule::Gap;
        };
        let after = self.rows.partition_point(|row| row.address <= relative);
        let row = after.checked_sub(1).and_then(|place| self.rows.get(place));
        row.map_or(Rule::Gap, |row| row.word.rule())
    }
}

/// Why a binary has no table. What concerns one function is no error: it is [`UnwindTable::skipped`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// More of something than anybody needs.
    #[error("more than {max} {what}")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How many are read.
        max: u64,
    },
}
