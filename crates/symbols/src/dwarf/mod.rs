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
mod shapes;
mod unit;
mod units;
mod walk;

use std::rc::Rc;

use gimli::{DebugInfo, EndianSlice, Endianity};

use crate::convert::{
    Budget, CodeMap, ConvertError, Draft, DwarfSections, FunctionKey, InfoStream, NamePool,
    PackedInfo, Symbols,
};

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
#[derive(Default)]
pub(crate) struct Walked {
    /// Rows, pieces, nodes, files.
    pub(crate) draft: Draft,
    /// The functions, by index.
    pub(crate) functions: Vec<FunctionKey>,
    /// Their names.
    pub(crate) names: NamePool,
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
    /// An entry refers to another unit, which is not here.
    Elsewhere,
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

/// Walks all units; `None` when entries refer to other units than their own, and only one unit at a
/// time is here, so that the section has to be unpacked as a whole.
pub(crate) fn walk<E: Endianity>(
    context: &Context<'_>,
    endian: E,
) -> Result<Option<Walked>, ConvertError> {
    let units = units::Units::open(context, endian)?;
    let counts = UnitCounts {
        units_failed: units.unreadable,
        ..UnitCounts::default()
    };
    let mut walker = Walker {
        context,
        units,
        counts,
        found: functions::Found::default(),
    };
    let is_whole = match context.sections.packed_info() {
        Some(packed) => walker.walk_packed(packed, endian)?,
        None => walker.walk_all()?,
    };
    Ok(is_whole.then(|| walker.finish()))
}

/// The walk, as far as it has come.
struct Walker<'c, 'a, E: Endianity> {
    context: &'c Context<'a>,
    units: units::Units<'a, E>,
    counts: UnitCounts,
    found: functions::Found,
}

impl<'a, E: Endianity> Walker<'_, 'a, E> {
    fn walk_all(&mut self) -> Result<bool, ConvertError> {
        for number in 0..self.units.len() {
            self.context.budget.spend(1)?;
            if !self.units.has_code(number) {
                continue;
            }
            let unit = self.units.unit(number);
            if !self.walk_one(unit, number)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn walk_packed(&mut self, packed: &PackedInfo<'_>, endian: E) -> Result<bool, ConvertError> {
        let mut stream = InfoStream::new(packed)?;
        let mut number = 0_usize;
        while let Some((start, bytes)) = stream.next_unit(endian)? {
            self.context.budget.spend(1)?;
            let Ok(Some(header)) = DebugInfo::new(bytes, endian).units().next() else {
                self.counts.units_failed = self.counts.units_failed.saturating_add(1);
                stream.finish()?;
                break;
            };
            self.context.budget.units(number.saturating_add(1))?;
            if units::has_code(&header) {
                let unit = self.units.streamed(header, start);
                if !self.walk_one(unit.map_err(UnitError::from), number)? {
                    return Ok(false);
                }
            }
            number = number.saturating_add(1);
        }
        Ok(true)
    }

    /// Reads a unit that has code; false when more than this unit is needed for it.
    fn walk_one<'u>(
        &mut self,
        unit: Result<Rc<unit::OpenUnit<'u, E>>, UnitError>,
        number: usize,
    ) -> Result<bool, ConvertError>
    where
        'a: 'u,
    {
        let Self {
            context,
            units,
            counts,
            found,
        } = self;
        counts.units = counts.units.saturating_add(1);
        let before = found.mark();
        let outcome =
            unit.and_then(|unit| functions::walk_unit(context, units, unit, number, found));
        match outcome {
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
            Err(UnitError::Elsewhere) => return Ok(false),
            Err(UnitError::Fatal(error)) => return Err(error),
        }
        Ok(true)
    }

    fn finish(self) -> Walked {
        let (functions, names, files) = self.units.into_parts();
        Walked {
            draft: Draft {
                files,
                ..self.found.draft
            },
            functions,
            names,
            counts: self.counts,
        }
    }
}
