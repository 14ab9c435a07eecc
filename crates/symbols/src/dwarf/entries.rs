//! The attributes of functions and inlined calls that matter, of one entry at a time.

use std::rc::Rc;

use gimli::{AttributeValue, Endianity, RangeListsOffset, constants as dw};

use super::names::file_index;
use super::shapes::Shapes;
use super::unit::{OpenUnit, Place};
use super::units::Units;
use super::walk::{Entered, Walk};
use super::{Context, UnitError};

/// What an entry of a function or an inlined call says.
#[derive(Default)]
pub(super) struct Entry {
    low: Option<u64>,
    high: Option<High>,
    ranges: Option<RangeListsOffset>,
    /// The entry that names it.
    pub(super) origin: Option<Place>,
    /// The declaration that it completes.
    pub(super) specification: Option<Place>,
    /// Where a caller enters, if it says so.
    pub(super) pc: Option<u64>,
    pub(super) call_file: Option<u64>,
    pub(super) call_line: u32,
    pub(super) call_column: u32,
}

enum High {
    Address(u64),
    Size(u64),
}

impl<'a, E: Endianity> Units<'a, E> {
    /// Reads the attributes of the entry that was entered.
    pub(super) fn read_entry<'u>(
        &self,
        unit: &Rc<OpenUnit<'u, E>>,
        walk: &mut Walk<'_, 'u, E>,
        entered: &Entered,
        shapes: &Shapes,
    ) -> Result<Entry, UnitError>
    where
        'a: 'u,
    {
        let mut entry = Entry::default();
        let dwarf = self.sources.dwarf_of(unit);
        walk.read(entered, shapes, |attribute| {
            let value = attribute.value();
            match attribute.name() {
                dw::DW_AT_low_pc => entry.low = dwarf.attr_address(&unit.unit, value)?,
                dw::DW_AT_high_pc => {
                    entry.high = match value {
                        AttributeValue::Udata(size) => Some(High::Size(size)),
                        value => dwarf.attr_address(&unit.unit, value)?.map(High::Address),
                    };
                }
                dw::DW_AT_ranges => {
                    entry.ranges = dwarf.attr_ranges_offset(&unit.unit, value)?;
                }
                dw::DW_AT_entry_pc => {
                    entry.pc = match value {
                        AttributeValue::Udata(_) => None,
                        value => dwarf.attr_address(&unit.unit, value)?,
                    };
                }
                dw::DW_AT_abstract_origin => entry.origin = unit.target(&value),
                dw::DW_AT_specification => entry.specification = unit.target(&value),
                dw::DW_AT_call_file => entry.call_file = file_index(&value),
                dw::DW_AT_call_line => entry.call_line = number(&value),
                dw::DW_AT_call_column => entry.call_column = number(&value),
                _ => {}
            }
            Ok(())
        })?;
        entry.pc = entry.low.or(entry.pc);
        Ok(entry)
    }

    /// Appends the ranges of an entry that have code, in its order.
    pub(super) fn read_ranges<'u>(
        &self,
        context: &Context<'a>,
        unit: &Rc<OpenUnit<'u, E>>,
        entry: &Entry,
        into: &mut Vec<(u64, u64)>,
    ) -> Result<(), UnitError>
    where
        'a: 'u,
    {
        if let Some(offset) = entry.ranges {
            let mut ranges = self.sources.dwarf_of(unit).ranges(&unit.unit, offset)?;
            while let Some(range) = ranges.next()? {
                context.budget.spend(1)?;
                into.extend(context.code.live(range.begin, range.end));
            }
        } else if let Some(low) = entry.low {
            let high = match entry.high {
                Some(High::Address(high)) => high,
                Some(High::Size(size)) => low.saturating_add(size),
                None => return Ok(()),
            };
            into.extend(context.code.live(low, high));
        }
        Ok(())
    }
}

/// Most attributes (types, places of variables, flags) need not be decoded.
pub(super) fn is_wanted(name: gimli::DwAt) -> bool {
    matches!(
        name,
        dw::DW_AT_low_pc
            | dw::DW_AT_high_pc
            | dw::DW_AT_ranges
            | dw::DW_AT_entry_pc
            | dw::DW_AT_abstract_origin
            | dw::DW_AT_specification
            | dw::DW_AT_call_file
            | dw::DW_AT_call_line
            | dw::DW_AT_call_column
    )
}

fn number<R: gimli::Reader>(value: &AttributeValue<R>) -> u32 {
    let value = value.udata_value().unwrap_or(0);
    u32::try_from(value).unwrap_or(0)
}
