//! Object files (ET_REL), of which kernel modules are: their code is laid out and their debug
//! information relocated here, since no linker has done it.
//!
//! All sections of an object file start at address 0. The link addresses are those that Linux gives
//! to a module: its sections with code one behind the other, in the order of their headers, each
//! aligned, those of `.init` last. So the first one, `.text`, starts at 0, as other tools have it.

use object::read::elf::ElfFile as ObjectFile;
use object::{
    Endianness, Object, ObjectSection, ObjectSymbol, RelocationKind, RelocationTarget,
    SectionIndex, elf,
};

use super::{Budget, ConvertError};
use crate::elf::{ElfClass, ElfFile, ElfSection};
use crate::model::Model;

/// What a reference to a dropped symbol becomes: an address without code, and no mark of a list.
const DROPPED: u64 = u64::MAX - 1;

/// Alignment of a section, at most: a page of the largest kind that Linux has for code.
const ALIGN_MAX: u64 = 2 << 20;

/// Where code is laid out while DWARF is read: at 0, an empty range would be the end of a list, and
/// references to dropped functions would look real.
const BIAS: u64 = 0x1000_0000;

/// Whether a file is one for the linker.
pub(super) fn is_relocatable(file: &ElfFile<'_>) -> bool {
    file.header.file_type == elf::ET_REL.0
}

/// Takes the bias out of a model again.
pub(super) fn unbias(model: &mut Model) {
    for row in &mut model.rows {
        row.address = row.address.saturating_sub(BIAS);
    }
    for node in &mut model.nodes {
        node.entry = node.entry.saturating_sub(BIAS);
    }
}

/// Gives the sections with code of an object file addresses of their own, from [`BIAS`] on.
pub(super) fn lay_out(file: &mut ElfFile<'_>) {
    if !is_relocatable(file) {
        return;
    }
    let mut end = BIAS;
    for is_init in [false, true] {
        let sections = file.sections.iter_mut();
        let wanted =
            |s: &&mut ElfSection<'_>| s.is_code() && s.name.starts_with(b".init") == is_init;
        for section in sections.filter(wanted) {
            let align = section.align.clamp(1, ALIGN_MAX);
            let start = end.checked_next_multiple_of(align).unwrap_or(end);
            section.address = start;
            end = start.saturating_add(section.size);
        }
    }
}

/// The bytes of a section with its relocations applied.
pub(super) fn relocated(
    file: &ElfFile<'_>,
    section: &ElfSection<'_>,
    bytes: &[u8],
    budget: &Budget<'_>,
) -> Result<Vec<u8>, ConvertError> {
    let mut bytes = bytes.to_vec();
    let number = file
        .sections
        .iter()
        .position(|other| other == section)
        .unwrap_or(0);
    match file.header.class {
        ElfClass::Elf32 => {
            let object = ObjectFile::<elf::FileHeader32<Endianness>>::parse(file.data);
            relocate(file, &object.map_err(damaged)?, number, &mut bytes, budget)?;
        }
        ElfClass::Elf64 => {
            let object = ObjectFile::<elf::FileHeader64<Endianness>>::parse(file.data);
            relocate(file, &object.map_err(damaged)?, number, &mut bytes, budget)?;
        }
    }
    Ok(bytes)
}

fn damaged(error: object::Error) -> ConvertError {
    ConvertError::Malformed {
        what: "relocations".to_owned(),
        detail: error.to_string(),
    }
}

fn relocate<'data, T: Object<'data>>(
    file: &ElfFile<'_>,
    object: &T,
    number: usize,
    bytes: &mut [u8],
    budget: &Budget<'_>,
) -> Result<(), ConvertError> {
    let section = object
        .section_by_index(SectionIndex(number))
        .map_err(damaged)?;
    let address_of = |section: SectionIndex| file.sections.get(section.0).map(|s| s.address);
    for (offset, relocation) in section.relocations() {
        budget.spend(1)?;
        if relocation.kind() != RelocationKind::Absolute {
            continue;
        }
        let target = match relocation.target() {
            RelocationTarget::Symbol(index) => object.symbol_by_index(index).ok().and_then(|s| {
                let section = address_of(s.section_index()?)?;
                Some(section.wrapping_add(s.address()))
            }),
            RelocationTarget::Section(index) => address_of(index),
            _ => continue,
        };
        let width = usize::from(relocation.size() / 8);
        let place = usize::try_from(offset).ok().and_then(|at| {
            let end = at.checked_add(width)?;
            bytes.get_mut(at..end)
        });
        let Some(place) = place.filter(|_| width == 4 || width == 8) else {
            continue;
        };
        let mut value = target.map_or(DROPPED, |target| {
            #[expect(
                clippy::cast_sign_loss,
                reason = "the sum wraps, as that of a linker does"
            )]
            let addend = relocation.addend() as u64;
            target.wrapping_add(addend)
        });
        if relocation.has_implicit_addend() && target.is_some() {
            value = value.wrapping_add(read(file.header.endian, place));
        }
        write(file.header.endian, value, place);
    }
    Ok(())
}

fn read(endian: Endianness, place: &[u8]) -> u64 {
    let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    match endian {
        Endianness::Little => place.iter().rev().fold(0, join),
        Endianness::Big => place.iter().fold(0, join),
    }
}

fn write(endian: Endianness, value: u64, place: &mut [u8]) {
    let bytes = value.to_le_bytes();
    match endian {
        Endianness::Little => place
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = from),
        Endianness::Big => place
            .iter_mut()
            .rev()
            .zip(bytes)
            .for_each(|(to, from)| *to = from),
    }
}
