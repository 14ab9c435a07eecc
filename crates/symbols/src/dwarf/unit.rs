//! One unit of DWARF that is open, and where its entries and references are.

use std::cell::RefCell;
use std::rc::Rc;

use gimli::{AttributeValue, Dwarf, Endianity, Unit, UnitHeader, UnitOffset};

use super::Reader;
use super::language::language;
use crate::model::Language;

/// Where an entry is: in which file, and where in its `.debug_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) source: Source,
    pub(super) offset: usize,
}

/// The files that entries come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// The debug file itself.
    Main,
    /// The supplementary file that dwz made.
    Supplement,
    /// The split part of the unit of that number.
    Split(usize),
}

/// A unit with the files of its line program.
pub(super) struct OpenUnit<'a, E: Endianity> {
    pub(super) unit: Unit<Reader<'a, E>>,
    pub(super) source: Source,
    /// Where it starts in `.debug_info`.
    pub(super) start: usize,
    pub(super) language: Language,
    /// Whether gcc made it.
    pub(super) is_gnu: bool,
    /// File index to file, as far as asked for.
    pub(super) files: RefCell<Vec<Option<u32>>>,
    /// Of a split unit: its own sections, and the skeleton, which has the line program.
    pub(super) split: Option<Split<'a, E>>,
}

/// What a split unit has beside its entries.
pub(super) struct Split<'a, E: Endianity> {
    pub(super) dwarf: Dwarf<Reader<'a, E>>,
    pub(super) skeleton: Rc<OpenUnit<'a, E>>,
}

impl<'a, E: Endianity> OpenUnit<'a, E> {
    /// Makes a unit of what gimli read.
    pub(super) fn new(
        dwarf: &Dwarf<Reader<'a, E>>,
        unit: Unit<Reader<'a, E>>,
        source: Source,
        start: usize,
    ) -> Result<Self, gimli::Error> {
        let mut entries = unit.entries();
        entries.next_entry()?;
        let value = |name| entries.current().and_then(|root| root.attr_value(name));
        let language = match value(gimli::DW_AT_language) {
            Some(AttributeValue::Language(code)) => language(code),
            _ => Language::Unknown,
        };
        let producer = value(gimli::DW_AT_producer)
            .and_then(|producer| dwarf.attr_string(&unit, producer).ok());
        let is_gnu = producer.is_some_and(|producer| producer.slice().starts_with(b"GNU "));
        Ok(Self {
            language,
            is_gnu,
            start,
            unit,
            source,
            files: RefCell::default(),
            split: None,
        })
    }

    /// The unit that has the line program: itself, or its skeleton.
    pub(super) fn with_lines(&self) -> &Self {
        match &self.split {
            Some(split) => &split.skeleton,
            None => self,
        }
    }

    /// A place as an offset of this unit, if it is among its entries.
    pub(super) fn entry_at(&self, place: Place) -> Option<UnitOffset> {
        if place.source != self.source {
            return None;
        }
        let header = &self.unit.header;
        let offset = UnitOffset(place.offset.checked_sub(self.start)?);
        let entries = header.root_offset().0..header.length_including_self();
        entries.contains(&offset.0).then_some(offset)
    }

    /// The place of an entry of this unit.
    pub(super) fn place_of(&self, offset: UnitOffset) -> Place {
        Place {
            source: self.source,
            offset: self.start.saturating_add(offset.0),
        }
    }

    /// The place that a reference leads to.
    pub(super) fn target<R: gimli::Reader<Offset = usize>>(
        &self,
        value: &AttributeValue<R>,
    ) -> Option<Place> {
        match value {
            AttributeValue::UnitRef(offset) => Some(self.place_of(*offset)),
            AttributeValue::DebugInfoRef(offset) => Some(Place {
                source: self.source,
                offset: offset.0,
            }),
            AttributeValue::DebugInfoRefSup(offset) => Some(Place {
                source: Source::Supplement,
                offset: offset.0,
            }),
            _ => None,
        }
    }
}

/// Where a unit starts in `.debug_info`.
pub(super) fn start_of<E: Endianity>(header: &UnitHeader<Reader<'_, E>>) -> usize {
    header
        .debug_info_offset()
        .map_or(usize::MAX, |offset| offset.0)
}
