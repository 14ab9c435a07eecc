//! The units of all files, and the ones that others refer to, kept open for a while.
//!
//! With link-time optimisation and after dwz, most names stand in another unit than the code; with
//! split DWARF, all entries do.

use std::rc::Rc;
use std::sync::Arc;

use gimli::{
    Abbreviations, AbbreviationsCacheStrategy, Dwarf, DwarfPackage, EndianSlice, Endianity,
    SectionId, Unit, UnitHeader, UnitType,
};
use rustc_hash::FxHashMap;

use super::files::Files;
use super::names::Functions;
use super::unit::{OpenUnit, Place, Source, Split, start_of};
use super::{Context, Reader, UnitError};
use crate::convert::{Budget, ConvertError, DwarfSections, FunctionKey, NamePool};
use crate::model::SourcePath;

/// Other units that are kept open; link-time optimisation jumps between a few.
const UNITS_KEPT: usize = 64;

type Headers<'a, E> = Vec<UnitHeader<Reader<'a, E>>>;

/// All units, and what was found in them.
pub(super) struct Units<'a, E: Endianity> {
    pub(super) sources: Sources<'a, E>,
    kept: FxHashMap<(Source, usize), Rc<OpenUnit<'a, E>>>,
    pub(super) functions: Functions,
    pub(super) files: Files,
    /// Abbreviations of units that are read one by one: those that several share.
    shared: FxHashMap<usize, Option<Arc<Abbreviations>>>,
    /// Whether units of the debug file are here only while they are read.
    are_streamed: bool,
    /// 1 when the headers end before the section does, and 1 when the package is damaged.
    pub(super) unreadable: u32,
}

/// The unit that has an entry.
pub(super) enum Holder<'a, E: Endianity> {
    /// The one that is being read.
    Current,
    Other(Rc<OpenUnit<'a, E>>),
}

/// The files that units are read from.
pub(super) struct Sources<'a, E: Endianity> {
    /// The debug file, with the supplementary file inside.
    main: Dwarf<Reader<'a, E>>,
    headers: Headers<'a, E>,
    supplement_headers: Headers<'a, E>,
    package: Option<DwarfPackage<Reader<'a, E>>>,
}

impl<'a, E: Endianity> Sources<'a, E> {
    /// The sections that a unit is read by.
    pub(super) fn dwarf_of<'s, 'u>(&'s self, unit: &'s OpenUnit<'u, E>) -> &'s Dwarf<Reader<'u, E>>
    where
        'a: 'u,
    {
        match (&unit.split, unit.source) {
            (Some(split), _) => &split.dwarf,
            (None, Source::Supplement) => self.main.sup().unwrap_or(&self.main),
            (None, _) => &self.main,
        }
    }

    /// The sections of the debug file.
    pub(super) fn main(&self) -> &Dwarf<Reader<'a, E>> {
        &self.main
    }

    fn headers(&self, source: Source) -> &Headers<'a, E> {
        match source {
            Source::Supplement => &self.supplement_headers,
            Source::Main | Source::Split(_) => &self.headers,
        }
    }
}

impl<'a, E: Endianity> Units<'a, E> {
    /// Reads the headers of all units.
    pub(super) fn open(context: &Context<'a>, endian: E) -> Result<Self, ConvertError> {
        let mut main = open_dwarf(context.sections, endian)?;
        let (headers, unreadable) = read_headers(&main, context.budget)?;
        let mut supplement_headers = Vec::new();
        if let Some(sections) = context.supplement {
            let supplement = open_dwarf(sections, endian)?;
            supplement_headers = read_headers(&supplement, context.budget)?.0;
            main.set_sup(supplement);
        }
        // A damaged package is as good as none, and counted; its units count as being without, too.
        let package = context.package.map(|sections| {
            let section =
                |id: SectionId| Ok::<_, gimli::Error>(EndianSlice::new(sections.get(id), endian));
            DwarfPackage::load(section, EndianSlice::new(&[], endian)).ok()
        });
        let damaged_package = u32::from(matches!(package, Some(None)));
        Ok(Self {
            sources: Sources {
                main,
                headers,
                supplement_headers,
                package: package.flatten(),
            },
            kept: FxHashMap::default(),
            functions: Functions::default(),
            files: Files::default(),
            shared: FxHashMap::default(),
            are_streamed: context.sections.packed_info().is_some(),
            unreadable: unreadable.saturating_add(damaged_package),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.sources.headers.len()
    }

    /// Whether the unit of that number may have code.
    pub(super) fn has_code(&self, number: usize) -> bool {
        self.sources.headers.get(number).is_some_and(has_code)
    }

    /// Opens a unit of the debug file by number.
    pub(super) fn unit(&mut self, number: usize) -> Result<Rc<OpenUnit<'a, E>>, UnitError> {
        self.open_unit(Source::Main, number)
    }

    fn open_unit(
        &mut self,
        source: Source,
        number: usize,
    ) -> Result<Rc<OpenUnit<'a, E>>, UnitError> {
        if let Some(unit) = self.kept.get(&(source, number)) {
            return Ok(Rc::clone(unit));
        }
        let sources = &self.sources;
        let header = *sources
            .headers(source)
            .get(number)
            .ok_or(UnitError::Damaged)?;
        let dwarf = match source {
            Source::Supplement => sources.main.sup().ok_or(UnitError::Damaged)?,
            Source::Main | Source::Split(_) => &sources.main,
        };
        let start = start_of(&header);
        let unit = Rc::new(OpenUnit::new(dwarf, dwarf.unit(header)?, source, start)?);
        if self.kept.len() >= UNITS_KEPT {
            self.kept.clear();
        }
        self.kept.insert((source, number), Rc::clone(&unit));
        Ok(unit)
    }

    /// The split part of the skeleton of that number, from the package; `None` when the unit is
    /// not split or its part is not at hand.
    pub(super) fn split_of<'u>(
        &self,
        skeleton: &Rc<OpenUnit<'u, E>>,
        number: usize,
    ) -> Result<Option<Rc<OpenUnit<'u, E>>>, UnitError>
    where
        'a: 'u,
    {
        let package: Option<&DwarfPackage<Reader<'u, E>>> = self.sources.package.as_ref();
        let main: &Dwarf<Reader<'u, E>> = &self.sources.main;
        let (Some(package), Some(id)) = (package, skeleton.unit.dwo_id) else {
            return Ok(None);
        };
        let Some(dwarf) = package.find_cu(id, main)? else {
            return Ok(None);
        };
        let header = dwarf.units().next()?.ok_or(UnitError::Damaged)?;
        let mut unit = dwarf.unit(header)?;
        unit.copy_relocated_attributes(&skeleton.unit);
        let start = start_of(&header);
        let mut unit = OpenUnit::new(&dwarf, unit, Source::Split(number), start)?;
        unit.split = Some(Split {
            dwarf,
            skeleton: Rc::clone(skeleton),
        });
        Ok(Some(Rc::new(unit)))
    }

    /// The unit that has a place: `current` if it does; `None` when its file is not at hand.
    pub(super) fn unit_of<'u>(
        &mut self,
        current: &OpenUnit<'u, E>,
        place: Place,
    ) -> Result<Option<Holder<'a, E>>, UnitError> {
        if current.entry_at(place).is_some() {
            return Ok(Some(Holder::Current));
        }
        if let Source::Split(_) = place.source {
            return Err(UnitError::Damaged);
        }
        if place.source == Source::Supplement && self.sources.main.sup().is_none() {
            return Ok(None);
        }
        if place.source == Source::Main && self.are_streamed {
            return Err(UnitError::Elsewhere);
        }
        let headers = self.sources.headers(place.source);
        let after = headers.partition_point(|header| start_of(header) <= place.offset);
        let number = after.checked_sub(1).ok_or(UnitError::Damaged)?;
        self.open_unit(place.source, number)
            .map(|unit| Some(Holder::Other(unit)))
    }

    /// Opens a unit that is only here while it is read. `None` when it may have no code; an error
    /// when its header is damaged, or its entries are.
    pub(super) fn streamed<'u>(
        &mut self,
        header: UnitHeader<Reader<'u, E>>,
        start: usize,
    ) -> Result<Rc<OpenUnit<'u, E>>, gimli::Error>
    where
        'a: 'u,
    {
        let offset = header.debug_abbrev_offset().0;
        let dwarf: &Dwarf<Reader<'u, E>> = &self.sources.main;
        let known = self.shared.get(&offset);
        let abbreviations = match known {
            Some(Some(shared)) => Arc::clone(shared),
            _ => dwarf.abbreviations(&header)?,
        };
        let shared = known.is_some().then(|| Arc::clone(&abbreviations));
        self.shared.insert(offset, shared);
        let unit = Unit::new_with_abbreviations(dwarf, header, abbreviations)?;
        OpenUnit::new(dwarf, unit, Source::Main, start).map(Rc::new)
    }

    /// The functions, their names and the files found, when the walk is over.
    pub(super) fn into_parts(self) -> (Vec<FunctionKey>, NamePool, Vec<SourcePath>) {
        let (functions, names) = self.functions.into_parts();
        (functions, names, self.files.paths)
    }
}

/// Whether a unit may have code: type units and partial units have none.
pub(super) fn has_code<E: Endianity>(header: &UnitHeader<Reader<'_, E>>) -> bool {
    matches!(
        header.type_(),
        UnitType::Compilation | UnitType::Skeleton(_) | UnitType::SplitCompilation(_)
    )
}

fn open_dwarf<'a, E: Endianity>(
    sections: &'a DwarfSections<'a>,
    endian: E,
) -> Result<Dwarf<Reader<'a, E>>, ConvertError> {
    let section = |id: SectionId| Ok::<_, ConvertError>(EndianSlice::new(sections.get(id), endian));
    let mut dwarf = Dwarf::load(section)?;
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    Ok(dwarf)
}

/// The headers of all units, and 1 when they end before the section does.
fn read_headers<'a, E: Endianity>(
    dwarf: &Dwarf<Reader<'a, E>>,
    budget: &Budget<'_>,
) -> Result<(Headers<'a, E>, u32), ConvertError> {
    let mut headers = Vec::new();
    let mut iter = dwarf.units();
    loop {
        match iter.next() {
            Ok(Some(header)) => headers.push(header),
            Ok(None) => return Ok((headers, 0)),
            Err(_damage) => return Ok((headers, 1)),
        }
        budget.units(headers.len())?;
    }
}
