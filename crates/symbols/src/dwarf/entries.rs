//! The attributes of functions and inlined calls that matter, of one entry at a time.

use std::rc::Rc;

use gimli::{AttributeValue, Endianity, EntriesRaw, RangeListsOffset, UnitOffset, constants as dw};

use super::names::file_index;
use super::unit::{OpenUnit, Place};
use super::units::Units;
use super::{Context, Reader, UnitError};

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
    /// Reads the attributes of the entry whose abbreviation was just read.
    pub(super) fn read_entry(
        &self,
        unit: &Rc<OpenUnit<'a, E>>,
        entries: &mut EntriesRaw<'_, Reader<'a, E>>,
        attributes: &[gimli::AttributeSpecification],
    ) -> Result<Entry, UnitError> {
        let mut entry = Entry::default();
        let dwarf = self.sources.dwarf_of(unit);
        for specification in attributes {
            if !is_wanted(specification.name()) {
                entries.skip_attributes(std::slice::from_ref(specification))?;
                continue;
            }
            let attribute = entries.read_attribute_inline(*specification)?;
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
        }
        entry.pc = entry.low.or(entry.pc);
        Ok(entry)
    }

    /// Appends the ranges of an entry that have code, in its order.
    pub(super) fn read_ranges(
        &self,
        context: &Context<'a>,
        unit: &Rc<OpenUnit<'a, E>>,
        entry: &Entry,
        into: &mut Vec<(u64, u64)>,
    ) -> Result<(), UnitError> {
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

/// Whether no function with code is below an entry of that tag, so that its children need not be read.
///
/// gcc puts a method's code below its class only if that is local to a function; the declaration in
/// any other class is completed elsewhere ("we always want the DIE for this function that has the
/// `*_pc` attributes to be under `comp_unit_die`", gcc's dwarf2out.cc).
pub(super) fn holds_no_code<E: Endianity>(
    unit: &OpenUnit<'_, E>,
    tag: gimli::DwTag,
    is_outside_functions: bool,
) -> bool {
    match tag {
        dw::DW_TAG_enumeration_type | dw::DW_TAG_array_type | dw::DW_TAG_subroutine_type => true,
        dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
            unit.is_gnu && is_outside_functions
        }
        _ => false,
    }
}

/// Skips the attributes of an entry; where its next sibling is, if it says so and that is behind.
pub(super) fn skip_to_sibling<R: gimli::Reader<Offset = usize>>(
    entries: &mut EntriesRaw<'_, R>,
    attributes: &[gimli::AttributeSpecification],
) -> Result<Option<UnitOffset>, gimli::Error> {
    let is_sibling = |a: &gimli::AttributeSpecification| a.name() == dw::DW_AT_sibling;
    let at = attributes.iter().position(is_sibling);
    let (before, rest) = attributes
        .split_at_checked(at.unwrap_or(attributes.len()))
        .unwrap_or_default();
    entries.skip_attributes(before)?;
    let Some((sibling, rest)) = rest.split_first() else {
        return Ok(None);
    };
    let value = entries.read_attribute(*sibling)?.value();
    entries.skip_attributes(rest)?;
    Ok(match value {
        AttributeValue::UnitRef(offset) if offset > entries.next_offset() => Some(offset),
        _ => None,
    })
}

/// Most attributes (types, places of variables, flags) need not be decoded.
fn is_wanted(name: gimli::DwAt) -> bool {
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
