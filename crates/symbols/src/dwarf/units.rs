//! The units of all files, and the ones that others refer to, kept open for a while.
//!
//! With link-time optimisation and after dwz, most names stand in another unit than the code; with
//! split DWARF, all entries do.

use std::rc::Rc;

use gimli::{
    AbbreviationsCacheStrategy, Dwarf, DwarfPackage, EndianSlice, Endianity, SectionId, UnitHeader,
    UnitType,
};
use rustc_hash::FxHashMap;

use super::files::Files;
use super::names::Functions;
use super::unit::{OpenUnit, Place, Source, Split, start_of};
use super::{Context, Reader, UnitError};
use crate::convert::{Budget, ConvertError, DwarfSections, FunctionKey};
use crate::model::SourcePath;

/// Other units that are kept open; link-time optimisation jumps between a few.
const UNITS_KEPT: usize = 64;

type Headers<'a, E> = Vec<UnitHeader<Reader<'a, E>>>;

/// All units, and what was found in them.
pub(super) struct Units<'a, E: Endianity> {
    pub(super) sources: Sources<'a, E>,
    kept: FxHashMap<(Source, usize), Rc<OpenUnit<'a, E>>>,
    pub(super) functions: Functions<'a>,
    pub(super) files: Files,
    /// 1 when the headers end before the section does, and 1 when the package is damaged.
    pub(super) unreadable: u32,
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
    pub(super) fn dwarf_of<'s>(&'s self, unit: &'s OpenUnit<'a, E>) -> &'s Dwarf<Reader<'a, E>> {
        match (&unit.split, unit.source) {
            (Some(split), _) => &split.dwarf,
            (None, Source::Supplement) => self.main.sup().unwrap_or(&self.main),
            (None, _) => &self.main,
        }
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
            unreadable: unreadable.saturating_add(damaged_package),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.sources.headers.len()
    }

    /// Whether a unit may have code: type units and partial units have none.
    pub(super) fn has_code(&self, number: usize) -> bool {
        let kind = self.sources.headers.get(number).map(UnitHeader::type_);
        matches!(
            kind,
            Some(UnitType::Compilation | UnitType::Skeleton(_) | UnitType::SplitCompilation(_))
        )
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
        let unit = Rc::new(OpenUnit::new(dwarf, dwarf.unit(header)?, source)?);
        if self.kept.len() >= UNITS_KEPT {
            self.kept.clear();
        }
        self.kept.insert((source, number), Rc::clone(&unit));
        Ok(unit)
    }

    /// The split part of the skeleton of that number, from the package; `None` when the unit is
    /// not split or its part is not at hand.
    pub(super) fn split_of(
        &self,
        skeleton: &Rc<OpenUnit<'a, E>>,
        number: usize,
    ) -> Result<Option<Rc<OpenUnit<'a, E>>>, UnitError> {
        let (Some(package), Some(id)) = (&self.sources.package, skeleton.unit.dwo_id) else {
            return Ok(None);
        };
        let Some(dwarf) = package.find_cu(id, &self.sources.main)? else {
            return Ok(None);
        };
        let header = dwarf.units().next()?.ok_or(UnitError::Damaged)?;
        let mut unit = dwarf.unit(header)?;
        unit.copy_relocated_attributes(&skeleton.unit);
        let mut unit = OpenUnit::new(&dwarf, unit, Source::Split(number))?;
        unit.split = Some(Split {
            dwarf,
            skeleton: Rc::clone(skeleton),
        });
        Ok(Some(Rc::new(unit)))
    }

    /// The unit that has a place: `current` if it does; `None` when its file is not at hand.
    pub(super) fn unit_of(
        &mut self,
        current: &Rc<OpenUnit<'a, E>>,
        place: Place,
    ) -> Result<Option<Rc<OpenUnit<'a, E>>>, UnitError> {
        if current.entry_at(place).is_some() {
            return Ok(Some(Rc::clone(current)));
        }
        if let Source::Split(_) = place.source {
            return Err(UnitError::Damaged);
        }
        if place.source == Source::Supplement && self.sources.main.sup().is_none() {
            return Ok(None);
        }
        let headers = self.sources.headers(place.source);
        let after = headers.partition_point(|header| start_of(header) <= place.offset);
        let number = after.checked_sub(1).ok_or(UnitError::Damaged)?;
        self.open_unit(place.source, number).map(Some)
    }

    /// The functions and files found, when the walk is over.
    pub(super) fn into_parts(self) -> (Vec<FunctionKey<'a>>, Vec<SourcePath>) {
        (self.functions.into_keys(), self.files.paths)
    }
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
