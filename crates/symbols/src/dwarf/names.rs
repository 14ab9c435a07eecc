//! Which function an entry is: the name and declaration that it, or its origin, has.
//!
//! An inlined call or a concrete function refers to its abstract origin, that to its
//! specification, perhaps in another unit. The first name on that way counts, the linkage name
//! before the plain one.

use std::rc::Rc;

use gimli::{AttributeValue, Endianity, constants as dw};
use rustc_hash::FxHashMap;

use super::entries::Entry;
use super::unit::{OpenUnit, Place};
use super::units::Units;
use super::{Context, UnitError};
use crate::convert::{ConvertError, FunctionKey};
use crate::model::{Language, NONE, Provenance};

/// Origins and specifications that are followed: real ones have three, a cycle has no end.
const HOPS_MAX: usize = 64;

/// Bytes of a name that are kept.
const NAME_BYTES_MAX: usize = 16 << 10;

/// All functions, each once, and which entry is which.
#[derive(Default)]
pub(super) struct Functions<'a> {
    keys: Vec<FunctionKey<'a>>,
    known: FxHashMap<FunctionKey<'a>, u32>,
    /// By offset of the entry in its unit, those of the unit that is being read.
    by_entry: FxHashMap<usize, Known<'a>>,
    /// By place of the entry, those of other units.
    by_foreign_entry: FxHashMap<Place, Known<'a>>,
}

/// What is known of an entry.
#[derive(Clone, Copy)]
struct Known<'a> {
    named: Named<'a>,
    /// The index of the function of its best name, once somebody asked; most entries are the origin
    /// of many inlined calls.
    function: u32,
}

/// Whether an entry is in the unit that is being read, and how it is found again.
#[derive(Clone, Copy)]
enum Whose {
    Own(usize),
    Foreign(Place),
}

/// A name that may be read later, with the unit that it is read by.
type Unread<'a, E> = (Rc<OpenUnit<'a, E>>, AttributeValue<super::Reader<'a, E>>);

/// What an entry says of its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named<'a> {
    pub(super) linkage_name: Option<&'a [u8]>,
    pub(super) name: Option<&'a [u8]>,
    pub(super) declaration_file: u32,
    pub(super) declaration_line: u32,
    pub(super) language: Language,
}

impl<'a> Named<'a> {
    /// The linkage name, else the plain one; empty when there is none.
    pub(super) fn best(&self) -> &'a [u8] {
        let name = self.linkage_name.or(self.name).unwrap_or_default();
        name.get(..NAME_BYTES_MAX).unwrap_or(name)
    }

    /// The function of that name.
    pub(super) fn key(&self, name: &'a [u8]) -> FunctionKey<'a> {
        FunctionKey {
            name,
            declaration_file: self.declaration_file,
            declaration_line: self.declaration_line,
            language: self.language,
            provenance: Provenance::Dwarf,
        }
    }
}

impl<'a> Functions<'a> {
    /// The index of a function.
    pub(super) fn intern(
        &mut self,
        key: FunctionKey<'a>,
        context: &Context<'a>,
    ) -> Result<u32, ConvertError> {
        if let Some(&index) = self.known.get(&key) {
            return Ok(index);
        }
        context
            .budget
            .functions(self.keys.len().saturating_add(1))?;
        let index = u32::try_from(self.keys.len()).unwrap_or(NONE);
        self.keys.push(key);
        self.known.insert(key, index);
        Ok(index)
    }

    /// Forgets the entries of a unit that was read: they are not met again but from other units.
    pub(super) fn forget_own_entries(&mut self) {
        self.by_entry.clear();
    }

    fn known(&mut self, whose: Whose) -> Option<&mut Known<'a>> {
        match whose {
            Whose::Own(offset) => self.by_entry.get_mut(&offset),
            Whose::Foreign(place) => self.by_foreign_entry.get_mut(&place),
        }
    }

    fn remember(&mut self, whose: Whose, known: Known<'a>) {
        match whose {
            Whose::Own(offset) => self.by_entry.insert(offset, known),
            Whose::Foreign(place) => self.by_foreign_entry.insert(place, known),
        };
    }

    pub(super) fn into_keys(self) -> Vec<FunctionKey<'a>> {
        self.keys
    }
}

impl<'a, E: Endianity> Units<'a, E> {
    /// The index of the function that the entry at a place names.
    pub(super) fn function_at(
        &mut self,
        context: &Context<'a>,
        current: &Rc<OpenUnit<'a, E>>,
        entry: Place,
    ) -> Result<u32, UnitError> {
        let whose = whose(current, entry);
        let mut known = match self.functions.known(whose) {
            Some(known) if known.function != NONE => return Ok(known.function),
            Some(known) => *known,
            None => Known {
                named: self.read_chain(context, current, entry)?,
                function: NONE,
            },
        };
        let key = known.named.key(known.named.best());
        known.function = self.functions.intern(key, context)?;
        self.functions.remember(whose, known);
        Ok(known.function)
    }

    /// What the entry at a place says of its function.
    pub(super) fn named(
        &mut self,
        context: &Context<'a>,
        current: &Rc<OpenUnit<'a, E>>,
        entry: Place,
    ) -> Result<Named<'a>, UnitError> {
        let whose = whose(current, entry);
        if let Some(known) = self.functions.known(whose) {
            return Ok(known.named);
        }
        let named = self.read_chain(context, current, entry)?;
        let function = NONE;
        self.functions.remember(whose, Known { named, function });
        Ok(named)
    }

    /// Follows an entry to its origin and that to its specification.
    fn read_chain(
        &mut self,
        context: &Context<'a>,
        current: &Rc<OpenUnit<'a, E>>,
        entry: Place,
    ) -> Result<Named<'a>, UnitError> {
        let mut named = Named {
            linkage_name: None,
            name: None,
            declaration_file: NONE,
            declaration_line: 0,
            language: current.language,
        };
        let mut plain = None;
        let mut next = Some(entry);
        let mut hops = 0_usize;
        let mut must_end = false;
        while let Some(place) = next {
            context.budget.spend(1)?;
            let Some(unit) = self.unit_of(current, place)? else {
                break;
            };
            next = self.read_name(context, &unit, place, &mut named, &mut plain)?;
            must_end |= next.is_some_and(|next| leads_on(place, next));
            let is_known = named.linkage_name.is_some() && named.declaration_line != 0;
            if is_known && !must_end {
                break;
            }
            hops = hops.saturating_add(1);
            if hops > HOPS_MAX {
                let found = format!(
                    "an entry refers to another, that to a third, more than {HOPS_MAX} times"
                );
                return Err(UnitError::endless(place, &found));
            }
        }
        if let (None, Some((unit, value))) = (named.linkage_name, plain) {
            self.read_text(&unit, value, &mut named.name);
        }
        Ok(named)
    }

    /// Follows a reference that may be part of a cycle, though nobody may ask for its name.
    pub(super) fn check_reference(
        &mut self,
        context: &Context<'a>,
        current: &Rc<OpenUnit<'a, E>>,
        own: Place,
        entry: &Entry,
    ) -> Result<(), UnitError> {
        let mut references = [entry.origin, entry.specification].into_iter().flatten();
        if references.any(|target| leads_on(own, target)) {
            self.named(context, current, own)?;
        }
        Ok(())
    }

    /// Adds what one entry says; the entry that it refers to. The first plain name is only
    /// remembered: where a linkage name follows, nobody wants to know it.
    fn read_name(
        &mut self,
        context: &Context<'a>,
        unit: &Rc<OpenUnit<'a, E>>,
        place: Place,
        named: &mut Named<'a>,
        plain: &mut Option<Unread<'a, E>>,
    ) -> Result<Option<Place>, UnitError> {
        let at = unit.entry_at(place).ok_or(UnitError::Damaged)?;
        let mut entries = unit.unit.entries_raw(Some(at))?;
        let Some(abbreviation) = entries.read_abbreviation()? else {
            return Ok(None);
        };
        let (mut next, mut file, mut line) = (None, None, None);
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            let value = attribute.value();
            match attribute.name() {
                dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name => {
                    self.read_text(unit, value, &mut named.linkage_name);
                }
                dw::DW_AT_name if plain.is_none() => *plain = Some((Rc::clone(unit), value)),
                dw::DW_AT_decl_file => file = file_index(&value),
                dw::DW_AT_decl_line => line = value.udata_value(),
                dw::DW_AT_abstract_origin | dw::DW_AT_specification => {
                    next = unit.target(&value);
                }
                _ => {}
            }
        }
        if let (Some(file), NONE) = (file, named.declaration_file) {
            named.declaration_file = self.files.of(&self.sources, unit, file, context.budget)?;
        }
        if let (Some(line), 0) = (line, named.declaration_line) {
            named.declaration_line = u32::try_from(line).unwrap_or(0);
        }
        Ok(next)
    }

    fn read_text(
        &self,
        unit: &Rc<OpenUnit<'a, E>>,
        value: AttributeValue<super::Reader<'a, E>>,
        into: &mut Option<&'a [u8]>,
    ) {
        if into.is_none() {
            let text = self
                .sources
                .dwarf_of(unit)
                .attr_string(&unit.unit, value)
                .ok();
            *into = text
                .map(|text| text.slice())
                .filter(|text| !text.is_empty());
        }
    }
}

fn whose<E: Endianity>(current: &OpenUnit<'_, E>, entry: Place) -> Whose {
    match current.entry_at(entry) {
        Some(offset) => Whose::Own(offset.0),
        None => Whose::Foreign(entry),
    }
}

/// Whether a reference leads forwards: each cycle has one that does, so that the others need not be
/// followed to their end.
fn leads_on(from: Place, to: Place) -> bool {
    from.source == to.source && from.offset <= to.offset
}

/// The file index in an attribute, whatever its form.
pub(super) fn file_index<R: gimli::Reader>(value: &AttributeValue<R>) -> Option<u64> {
    match value {
        AttributeValue::FileIndex(index) => Some(*index),
        other => other.udata_value(),
    }
}
