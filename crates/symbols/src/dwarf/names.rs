//! Which function an entry is: the name and declaration that it, or its origin, has.
//!
//! An inlined call or a concrete function refers to its abstract origin, that to its
//! specification, perhaps in another unit. The first name on that way counts, the linkage name
//! before the plain one.

use std::rc::Rc;

use gimli::{AttributeValue, DebugStrOffset, Endianity, constants as dw};
use rustc_hash::FxHashMap;

use super::entries::Entry;
use super::unit::{OpenUnit, Place, Source};
use super::units::{Holder, Units};
use super::{Context, UnitError};
use crate::convert::{Budget, ConvertError, FunctionKey, NO_NAME, NameId, NamePool};
use crate::model::{Language, NONE, Provenance};

/// Origins and specifications that are followed: real ones have three, a cycle has no end.
const HOPS_MAX: usize = 64;

/// All functions, each once, and which entry is which.
#[derive(Default)]
pub(super) struct Functions {
    pub(super) names: NamePool,
    keys: Vec<FunctionKey>,
    known: FxHashMap<FunctionKey, u32>,
    /// By offset of the entry in its unit, those of the unit that is being read.
    by_entry: FxHashMap<usize, Known>,
    /// By place of the entry, those of other units.
    by_foreign_entry: FxHashMap<Place, Known>,
}

/// What is known of an entry.
#[derive(Clone, Copy)]
struct Known {
    named: Named,
    /// The index of the function of its best name; most entries are the origin of many inlined
    /// calls.
    function: u32,
}

/// Whether an entry is in the unit that is being read, and how it is found again.
#[derive(Clone, Copy)]
enum Whose {
    Own(usize),
    Foreign(Place),
}

/// Where a name is that may be read later.
#[derive(Clone, Copy)]
enum Text<'u> {
    /// At an offset in the strings of the debug file.
    Main(DebugStrOffset),
    /// At an offset in those of the supplementary file.
    Supplement(DebugStrOffset),
    /// In the unit, or in strings of its own.
    Here(&'u [u8]),
}

/// A plain name that was met.
#[derive(Clone, Copy)]
enum Plain {
    Read(NameId),
    Unread(Text<'static>),
}

/// What an entry says of its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) linkage_name: NameId,
    pub(super) name: NameId,
    pub(super) declaration_file: u32,
    pub(super) declaration_line: u32,
    pub(super) language: Language,
}

impl Named {
    /// The linkage name, else the plain one; the empty one when there is none.
    pub(super) fn best(&self) -> NameId {
        if self.linkage_name == NO_NAME {
            self.name
        } else {
            self.linkage_name
        }
    }

    /// The function of that name.
    pub(super) fn key(&self, name: NameId) -> FunctionKey {
        FunctionKey {
            name,
            declaration_file: self.declaration_file,
            declaration_line: self.declaration_line,
            language: self.language,
            provenance: Provenance::Dwarf,
        }
    }
}

impl Functions {
    /// The index of a function.
    pub(super) fn intern(
        &mut self,
        key: FunctionKey,
        budget: &Budget<'_>,
    ) -> Result<u32, ConvertError> {
        if let Some(&index) = self.known.get(&key) {
            return Ok(index);
        }
        budget.functions(self.keys.len().saturating_add(1))?;
        let index = u32::try_from(self.keys.len()).unwrap_or(NONE);
        self.keys.push(key);
        self.known.insert(key, index);
        Ok(index)
    }

    /// Forgets the entries of a unit that was read: they are not met again but from other units.
    pub(super) fn forget_own_entries(&mut self) {
        self.by_entry.clear();
    }

    fn known(&self, whose: Whose) -> Option<&Known> {
        match whose {
            Whose::Own(offset) => self.by_entry.get(&offset),
            Whose::Foreign(place) => self.by_foreign_entry.get(&place),
        }
    }

    fn remember(&mut self, whose: Whose, known: Known) {
        match whose {
            Whose::Own(offset) => self.by_entry.insert(offset, known),
            Whose::Foreign(place) => self.by_foreign_entry.insert(place, known),
        };
    }

    pub(super) fn into_parts(self) -> (Vec<FunctionKey>, NamePool) {
        (self.keys, self.names)
    }
}

impl<'a, E: Endianity> Units<'a, E> {
    /// The index of the function that the entry at a place names.
    pub(super) fn function_at<'u>(
        &mut self,
        context: &Context<'a>,
        current: &Rc<OpenUnit<'u, E>>,
        entry: Place,
    ) -> Result<u32, UnitError>
    where
        'a: 'u,
    {
        let whose = whose(current, entry);
        if let Some(known) = self.functions.known(whose) {
            return Ok(known.function);
        }
        let named = self.read_chain(context, current, entry)?;
        let key = named.key(named.best());
        let function = self.functions.intern(key, context.budget)?;
        self.functions.remember(whose, Known { named, function });
        Ok(function)
    }

    /// What the entry at a place says of its function.
    pub(super) fn named<'u>(
        &mut self,
        context: &Context<'a>,
        current: &Rc<OpenUnit<'u, E>>,
        entry: Place,
    ) -> Result<Named, UnitError>
    where
        'a: 'u,
    {
        match self.functions.known(whose(current, entry)) {
            Some(known) => Ok(known.named),
            None => self.read_chain(context, current, entry),
        }
    }

    /// Follows an entry to its origin and that to its specification.
    fn read_chain<'u>(
        &mut self,
        context: &Context<'a>,
        current: &Rc<OpenUnit<'u, E>>,
        entry: Place,
    ) -> Result<Named, UnitError>
    where
        'a: 'u,
    {
        let mut named = Named {
            linkage_name: NO_NAME,
            name: NO_NAME,
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
            next = match self.unit_of(current, place)? {
                Some(Holder::Current) => {
                    self.read_name(context, current, place, &mut named, &mut plain)?
                }
                Some(Holder::Other(unit)) => {
                    self.read_name(context, &unit, place, &mut named, &mut plain)?
                }
                None => break,
            };
            must_end |= next.is_some_and(|next| leads_on(place, next));
            let is_known = named.linkage_name != NO_NAME && named.declaration_line != 0;
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
        if named.linkage_name == NO_NAME {
            named.name = match plain {
                Some(Plain::Read(name)) => name,
                Some(Plain::Unread(text)) => self.read_text(context, text)?,
                None => NO_NAME,
            };
        }
        Ok(named)
    }

    /// Follows a reference that may be part of a cycle, though nobody may ask for its name.
    pub(super) fn check_reference<'u>(
        &mut self,
        context: &Context<'a>,
        current: &Rc<OpenUnit<'u, E>>,
        own: Place,
        entry: &Entry,
    ) -> Result<(), UnitError>
    where
        'a: 'u,
    {
        let mut references = [entry.origin, entry.specification].into_iter().flatten();
        if references.any(|target| leads_on(own, target)) {
            self.named(context, current, own)?;
        }
        Ok(())
    }

    /// Adds what one entry says; the entry that it refers to. The first plain name is only
    /// remembered: where a linkage name follows, nobody wants to know it.
    fn read_name<'u>(
        &mut self,
        context: &Context<'a>,
        unit: &Rc<OpenUnit<'u, E>>,
        place: Place,
        named: &mut Named,
        plain: &mut Option<Plain>,
    ) -> Result<Option<Place>, UnitError>
    where
        'a: 'u,
    {
        let at = unit.entry_at(place).ok_or(UnitError::Damaged)?;
        let mut entries = unit.unit.entries_raw(Some(at))?;
        let Some(abbreviation) = entries.read_abbreviation()? else {
            return Ok(None);
        };
        let (mut next, mut file, mut line) = (None, None, None);
        let attributes = abbreviation.attributes();
        let mut read = 0_usize;
        for (number, specification) in attributes.iter().enumerate() {
            if !tells_of_name(specification.name()) {
                continue;
            }
            entries.skip_attributes(attributes.get(read..number).unwrap_or_default())?;
            read = number.saturating_add(1);
            let value = entries.read_attribute(*specification)?.value();
            match specification.name() {
                dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name
                    if named.linkage_name == NO_NAME =>
                {
                    if let Some(text) = self.text(unit, value) {
                        named.linkage_name = self.read_text(context, text)?;
                    }
                }
                dw::DW_AT_name if plain.is_none() => {
                    *plain = Some(match self.text(unit, value) {
                        Some(Text::Main(offset)) => Plain::Unread(Text::Main(offset)),
                        Some(Text::Supplement(offset)) => Plain::Unread(Text::Supplement(offset)),
                        Some(here) => Plain::Read(self.read_text(context, here)?),
                        None => Plain::Read(NO_NAME),
                    });
                }
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

    /// Where the text of an attribute is; `None` when it has none.
    fn text<'u>(
        &self,
        unit: &OpenUnit<'u, E>,
        value: AttributeValue<super::Reader<'u, E>>,
    ) -> Option<Text<'u>>
    where
        'a: 'u,
    {
        let dwarf = self.sources.dwarf_of(unit);
        Some(match (unit.source, value) {
            (Source::Main, AttributeValue::DebugStrRef(offset)) => Text::Main(offset),
            (Source::Main, AttributeValue::DebugStrOffsetsIndex(index)) => {
                Text::Main(dwarf.string_offset(&unit.unit, index).ok()?)
            }
            (Source::Main, AttributeValue::DebugStrRefSup(offset))
            | (Source::Supplement, AttributeValue::DebugStrRef(offset)) => Text::Supplement(offset),
            (_, value) => Text::Here(dwarf.attr_string(&unit.unit, value).ok()?.slice()),
        })
    }

    /// The name that a text is; [`NO_NAME`] when it cannot be read.
    fn read_text(&mut self, context: &Context<'a>, text: Text<'_>) -> Result<NameId, ConvertError> {
        let names = &mut self.functions.names;
        let main = self.sources.main();
        match text {
            Text::Main(offset) => {
                if let Some(name) = names.at(offset.0) {
                    return Ok(name);
                }
                let text = main.string(offset).map(|text| text.slice());
                let name = names.intern(text.unwrap_or_default(), context.budget)?;
                names.remember(offset.0, name);
                Ok(name)
            }
            Text::Supplement(offset) => {
                let text = main.sup_string(offset).map(|text| text.slice());
                names.intern(text.unwrap_or_default(), context.budget)
            }
            Text::Here(text) => names.intern(text, context.budget),
        }
    }
}

/// Whether an attribute tells of the name or declaration of a function.
fn tells_of_name(name: gimli::DwAt) -> bool {
    matches!(
        name,
        dw::DW_AT_linkage_name
            | dw::DW_AT_MIPS_linkage_name
            | dw::DW_AT_name
            | dw::DW_AT_decl_file
            | dw::DW_AT_decl_line
            | dw::DW_AT_abstract_origin
            | dw::DW_AT_specification
    )
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
