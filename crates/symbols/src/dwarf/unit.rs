//! The units of `.debug_info`, and the ones that others refer to, kept for a while.
//!
//! With link-time optimisation and after dwz, most names stand in another unit than the code.

use std::cell::RefCell;
use std::rc::Rc;

use gimli::{
    AbbreviationsCacheStrategy, AttributeValue, DebugInfoOffset, Dwarf, EndianSlice, Endianity,
    SectionId, Unit, UnitHeader, UnitOffset, UnitType,
};
use rustc_hash::FxHashMap;

use super::files::Files;
use super::language::language;
use super::names::Functions;
use super::{Context, Reader, UnitError};
use crate::convert::{ConvertError, FunctionKey};
use crate::model::{Language, SourcePath};

/// Other units that are kept open; link-time optimisation jumps between a few.
const UNITS_KEPT: usize = 64;

/// A unit with the files of its line program.
pub(super) struct OpenUnit<'a, E: Endianity> {
    pub(super) unit: Unit<Reader<'a, E>>,
    /// Where it starts in `.debug_info`.
    pub(super) start: usize,
    pub(super) language: Language,
    /// File index to file, as far as asked for.
    pub(super) files: RefCell<Vec<Option<u32>>>,
}

/// All units.
pub(super) struct Units<'a, E: Endianity> {
    pub(super) dwarf: Dwarf<Reader<'a, E>>,
    headers: Vec<UnitHeader<Reader<'a, E>>>,
    kept: FxHashMap<usize, Rc<OpenUnit<'a, E>>>,
    pub(super) functions: Functions<'a>,
    pub(super) files: Files,
    /// 1 when the headers end before the section does.
    pub(super) unreadable: u32,
}

impl<'a, E: Endianity> Units<'a, E> {
    /// Reads the headers of all units.
    pub(super) fn open(context: &Context<'a>, endian: E) -> Result<Self, ConvertError> {
        let sections = context.sections;
        let section =
            |id: SectionId| Ok::<_, ConvertError>(EndianSlice::new(sections.get(id), endian));
        let mut dwarf = Dwarf::load(section)?;
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let mut headers = Vec::new();
        let mut unreadable = 0;
        let mut iter = dwarf.units();
        loop {
            match iter.next() {
                Ok(Some(header)) => headers.push(header),
                Ok(None) => break,
                Err(_damage) => {
                    unreadable = 1;
                    break;
                }
            }
            context.budget.units(headers.len())?;
        }
        Ok(Self {
            dwarf,
            headers,
            kept: FxHashMap::default(),
            functions: Functions::default(),
            files: Files::default(),
            unreadable,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.headers.len()
    }

    /// Whether a unit may have code: type units and partial units have none.
    pub(super) fn has_code(&self, number: usize) -> bool {
        let kind = self.headers.get(number).map(UnitHeader::type_);
        matches!(
            kind,
            Some(UnitType::Compilation | UnitType::Skeleton(_) | UnitType::SplitCompilation(_))
        )
    }

    /// Opens a unit by number.
    pub(super) fn unit(&mut self, number: usize) -> Result<Rc<OpenUnit<'a, E>>, UnitError> {
        if let Some(unit) = self.kept.get(&number) {
            return Ok(Rc::clone(unit));
        }
        let header = *self.headers.get(number).ok_or(UnitError::Damaged)?;
        let start = start_of(&header);
        let unit = self.dwarf.unit(header)?;
        let language = root_language(&unit)?;
        let unit = Rc::new(OpenUnit {
            unit,
            start,
            language,
            files: RefCell::default(),
        });
        if self.kept.len() >= UNITS_KEPT {
            self.kept.clear();
        }
        self.kept.insert(number, Rc::clone(&unit));
        Ok(unit)
    }

    /// The unit that has an offset of `.debug_info`: `current` if it does.
    pub(super) fn unit_of(
        &mut self,
        current: &Rc<OpenUnit<'a, E>>,
        offset: usize,
    ) -> Result<Rc<OpenUnit<'a, E>>, UnitError> {
        if current.entry_at(offset).is_some() {
            return Ok(Rc::clone(current));
        }
        let after = self
            .headers
            .partition_point(|header| start_of(header) <= offset);
        self.unit(after.checked_sub(1).ok_or(UnitError::Damaged)?)
    }

    /// The functions found, when the walk is over.
    pub(super) fn into_parts(self) -> (Vec<FunctionKey<'a>>, Vec<SourcePath>) {
        (self.functions.into_keys(), self.files.paths)
    }
}

impl<E: Endianity> OpenUnit<'_, E> {
    /// An offset of `.debug_info` as an offset of this unit, if it lies among its entries.
    pub(super) fn entry_at(&self, offset: usize) -> Option<UnitOffset> {
        DebugInfoOffset(offset).to_unit_offset(&self.unit.header)
    }

    /// The entry that a reference leads to, as an offset of `.debug_info`.
    pub(super) fn target<R: gimli::Reader<Offset = usize>>(
        &self,
        value: &AttributeValue<R>,
    ) -> Option<usize> {
        match value {
            AttributeValue::UnitRef(offset) => self.start.checked_add(offset.0),
            AttributeValue::DebugInfoRef(offset) => Some(offset.0),
            _ => None,
        }
    }
}

fn start_of<E: Endianity>(header: &UnitHeader<Reader<'_, E>>) -> usize {
    header
        .debug_info_offset()
        .map_or(usize::MAX, |offset| offset.0)
}

fn root_language<E: Endianity>(unit: &Unit<Reader<'_, E>>) -> Result<Language, gimli::Error> {
    let mut entries = unit.entries();
    entries.next_entry()?;
    let value = entries
        .current()
        .and_then(|root| root.attr_value(gimli::DW_AT_language));
    Ok(match value {
        Some(AttributeValue::Language(code)) => language(code),
        _ => Language::Unknown,
    })
}
