//! The walk over DWARF, one unit after the other: functions, inlined calls, lines.
//!
//! A unit is read whole before its results count, so that a damaged one leaves nothing behind; its
//! functions then come from the symbol table. Nothing here recurses.

mod clones;
mod entries;
mod files;
mod flatten;
mod functions;
mod language;
mod lines;
mod names;
mod unit;
mod units;
mod walk;

use gimli::{EndianSlice, Endianity};

use crate::convert::{Budget, CodeMap, ConvertError, Draft, DwarfSections, FunctionKey, Symbols};

type Reader<'a, E> = EndianSlice<'a, E>;

/// What the walk reads.
pub(crate) struct Context<'a> {
    /// The decompressed sections.
    pub(crate) sections: &'a DwarfSections<'a>,
    /// Those of the supplementary file, if it is at hand.
    pub(crate) supplement: Option<&'a DwarfSections<'a>>,
    /// Those of the package of split units, if it is at hand.
    pub(crate) package: Option<&'a DwarfSections<'a>>,
    /// Where code is.
    pub(crate) code: &'a CodeMap,
    /// The symbol tables.
    pub(crate) symbols: &'a Symbols<'a>,
    /// Limits.
    pub(crate) budget: &'a Budget<'a>,
}

/// What the walk found.
pub(crate) struct Walked<'a> {
    /// Rows, pieces, nodes, files.
    pub(crate) draft: Draft,
    /// The functions, by index.
    pub(crate) functions: Vec<FunctionKey<'a>>,
    /// How many units there are.
    pub(crate) counts: UnitCounts,
}

/// How many units there are, and how many were not read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnitCounts {
    /// All.
    pub(crate) units: u32,
    /// Damaged ones.
    pub(crate) units_failed: u32,
    /// Skeletons whose split part is not at hand.
    pub(crate) units_without_dwo: u32,
}

/// Why a unit was not read: damage, which costs the unit, or a limit, which ends the conversion.
pub(crate) enum UnitError {
    /// The unit is damaged.
    Damaged,
    /// The conversion is over.
    Fatal(ConvertError),
}

impl UnitError {
    /// Entries without end, which no compiler writes: whoever made them made the whole file so.
    ///
    /// In a supplementary file or a package they cost the unit only: others bring those, and must
    /// not take away what the debug file says.
    fn endless(place: unit::Place, found: &str) -> Self {
        if place.source != unit::Source::Main {
            return Self::Damaged;
        }
        Self::Fatal(ConvertError::Malformed {
            what: "section .debug_info".to_owned(),
            detail: format!("at {:#x}, {found}", place.offset),
        })
    }
}

impl From<gimli::Error> for UnitError {
    fn from(_: gimli::Error) -> Self {
        Self::Damaged
    }
}

impl From<ConvertError> for UnitError {
    fn from(error: ConvertError) -> Self {
        Self::Fatal(error)
    }
}

/// Walks all units.
pub(crate) fn walk<'a, E: Endianity>(
    context: &Context<'a>,
    endian: E,
) -> Result<Walked<'a>, ConvertError> {
    let mut units = units::Units::open(context, endian)?;
    let mut counts = UnitCounts {
        units_failed: units.unreadable,
        ..UnitCounts::default()
    };
    let mut found = functions::Found::default();
    for number in 0..units.len() {
        context.budget.spend(1)?;
        if !units.has_code(number) {
            continue;
        }
        counts.units = counts.units.saturating_add(1);
        let before = found.mark();
        match functions::walk_unit(context, &mut units, number, &mut found) {
            Ok(unit) => {
                counts.units_failed = counts.units_failed.saturating_add(unit.failed_lines.into());
                counts.units_without_dwo = counts
                    .units_without_dwo
                    .saturating_add(unit.without_dwo.into());
            }
            Err(UnitError::Damaged) => {
                found.rewind(&before);
                counts.units_failed = counts.units_failed.saturating_add(1);
            }
            Err(UnitError::Fatal(error)) => return Err(error),
        }
    }
    let (functions, paths) = units.into_parts();
    let mut draft = found.draft;
    draft.files = paths;
    Ok(Walked {
        draft,
        functions,
        counts,
    })
}
