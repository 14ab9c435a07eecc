//! The symbols of an ELF file, of either class and byte order.

use object::read::elf::{FileHeader, Sym};
use object::{Endianness, elf};

use super::file::{ElfClass, ElfFile, ElfSection, name_at};

/// Bytes of a symbol's name; the longest seen in C++ programs have some 20,000.
const SYMBOL_NAME_BYTES_MAX: usize = 64 << 10;

/// One symbol of a symbol table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfSymbol<'data> {
    /// Its name.
    pub name: &'data [u8],
    /// `st_value`.
    pub value: u64,
    /// `st_size`.
    pub size: u64,
    /// The type, the low half of `st_info`.
    pub kind: u8,
    /// The binding, the high half of `st_info`.
    pub binding: u8,
    /// Index of its section header; 0 when undefined, above the number of sections when special.
    pub section: u32,
}

impl<'data> ElfFile<'data> {
    /// Calls `each` with every symbol of the symbol table in `table`, until it says `false`.
    /// Symbols whose names cannot be read have none.
    pub fn for_each_symbol(
        &self,
        table: &ElfSection<'data>,
        mut each: impl FnMut(ElfSymbol<'data>) -> bool,
    ) {
        match self.header.class {
            ElfClass::Elf32 => {
                self.symbols_class::<elf::FileHeader32<Endianness>>(table, &mut each);
            }
            ElfClass::Elf64 => {
                self.symbols_class::<elf::FileHeader64<Endianness>>(table, &mut each);
            }
        }
    }

    fn symbols_class<Elf: FileHeader<Endian = Endianness>>(
        &self,
        table: &ElfSection<'data>,
        each: &mut dyn FnMut(ElfSymbol<'data>) -> bool,
    ) {
        let endian = self.header.endian;
        let bytes = self.bytes_of(table);
        let count = bytes.len() / size_of::<Elf::Sym>();
        let Ok((symbols, _)) = object::pod::slice_from_bytes::<Elf::Sym>(bytes, count) else {
            return;
        };
        let at = |index: u32| usize::try_from(index).ok();
        let strings = at(table.link).and_then(|link| self.sections.get(link));
        let strings = strings.map(|s| self.bytes_of(s)).unwrap_or_default();
        let indexes = self.extended_indexes(table);
        for (number, symbol) in symbols.iter().enumerate() {
            let section = u32::from(symbol.st_shndx(endian).0);
            let extended = section == u32::from(elf::SHN_XINDEX.0);
            let section = if extended {
                indexes
                    .get(number)
                    .map_or(u32::MAX, |index| index.get(endian))
            } else {
                section
            };
            let go_on = each(ElfSymbol {
                name: name_at(strings, symbol.st_name(endian), SYMBOL_NAME_BYTES_MAX),
                value: symbol.st_value(endian).into(),
                size: symbol.st_size(endian).into(),
                kind: symbol.st_type().0,
                binding: symbol.st_bind().0,
                section,
            });
            if !go_on {
                return;
            }
        }
    }

    /// The `SHT_SYMTAB_SHNDX` section that belongs to a symbol table.
    fn extended_indexes(&self, table: &ElfSection<'_>) -> &'data [object::U32<Endianness>] {
        let own = self.sections.iter().position(|s| s == table);
        let belongs = |s: &&ElfSection<'_>| {
            s.kind == elf::SHT_SYMTAB_SHNDX.0 && usize::try_from(s.link).ok() == own
        };
        let Some(section) = self.sections.iter().find(belongs) else {
            return &[];
        };
        let bytes = self.bytes_of(section);
        object::pod::slice_from_bytes(bytes, bytes.len() / 4)
            .map(|(indexes, _)| indexes)
            .unwrap_or_default()
    }
}
