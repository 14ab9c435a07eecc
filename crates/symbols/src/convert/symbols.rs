//! Functions by the symbol tables: their names, and which addresses each of them covers.
//!
//! A symbol covers what its size says; without a size, up to the next symbol or the end of its
//! section. Between that there is no function: the nearest one before would be a guess. Of aliases,
//! the best one names the code: global before weak before local, then the first in order of bytes.

use object::elf;

use super::relocatable::is_relocatable;
use super::{Budget, CodeMap, ConvertError, plt};
use crate::elf::{ElfFile, ElfSection, ElfSymbol};
use crate::model::Provenance;

/// One name of a piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol<'data> {
    /// Link address.
    pub(crate) address: u64,
    /// Its size; 0 when unknown.
    size: u64,
    /// How good it is among its aliases: the least is best.
    rank: u8,
    /// Which table it is from.
    pub(crate) provenance: Provenance,
    /// Its name without version.
    pub(crate) name: &'data [u8],
}

impl Symbol<'_> {
    /// Its size in bytes; 0 when unknown.
    pub(super) fn size(&self) -> u64 {
        self.size
    }
}

/// A range that one symbol covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cover {
    /// First address.
    pub(crate) start: u64,
    /// One past the last address.
    pub(crate) end: u64,
    /// Index of the symbol.
    pub(crate) symbol: u32,
}

/// The symbols of all tables.
#[derive(Debug, Default)]
pub(crate) struct Symbols<'data> {
    /// By address, the best first.
    all: Vec<Symbol<'data>>,
    /// By address, disjoint.
    covers: Vec<Cover>,
}

/// Rank of a stub: the symbol tables name some, and know better.
const RANK_STUB: u8 = 32;

/// Rank of a symbol that only marks a place: it ends its predecessor but names no code.
const RANK_MARKER: u8 = u8::MAX;

impl<'data> Symbols<'data> {
    /// Reads the symbol tables of the files, and of those that were packed into them.
    pub(crate) fn read(
        files: &[&ElfFile<'data>],
        packed: &[ElfFile<'data>],
        code: &CodeMap,
        budget: &Budget<'_>,
    ) -> Result<Self, ConvertError> {
        let mut all = Vec::new();
        let packed = packed.iter().map(|file| (file, true));
        for (file, is_packed) in files.iter().map(|file| (*file, false)).chain(packed) {
            for table in &file.sections {
                let provenance = match table.kind {
                    kind if kind == elf::SHT_SYMTAB.0 && is_packed => Provenance::Minidebuginfo,
                    kind if kind == elf::SHT_SYMTAB.0 => Provenance::Symtab,
                    kind if kind == elf::SHT_DYNSYM.0 => Provenance::Dynsym,
                    _ => continue,
                };
                read_table(file, table, code, budget, &mut |symbol| {
                    all.push(Symbol {
                        provenance,
                        ..symbol
                    });
                })?;
            }
        }
        for file in files {
            plt::stubs(file, budget, &mut |stub| {
                all.push(Symbol {
                    address: stub.address,
                    size: stub.size,
                    rank: RANK_STUB,
                    provenance: Provenance::Plt,
                    name: without_version(stub.name),
                });
            })?;
        }
        all.sort_unstable_by_key(|s| {
            (
                s.address,
                s.rank,
                s.provenance as u8,
                s.name,
                u64::MAX - s.size,
            )
        });
        all.dedup_by(|b, a| a.address == b.address && a.name == b.name);
        budget.symbols(all.len())?;
        let covers = covers(&all, code);
        Ok(Self { all, covers })
    }

    /// The symbols at exactly this address, the best first.
    pub(crate) fn at(&self, address: u64) -> &[Symbol<'data>] {
        let from = self.all.partition_point(|s| s.address < address);
        let rest = self.all.get(from..).unwrap_or_default();
        let count = rest.iter().take_while(|s| s.address == address).count();
        rest.get(..count).unwrap_or_default()
    }

    /// What the symbols cover, by address.
    pub(crate) fn covers(&self) -> &[Cover] {
        &self.covers
    }

    /// The symbol of a cover.
    pub(crate) fn of(&self, cover: &Cover) -> Option<&Symbol<'data>> {
        self.all.get(usize::try_from(cover.symbol).ok()?)
    }
}

fn read_table<'data>(
    file: &ElfFile<'data>,
    table: &ElfSection<'data>,
    code: &CodeMap,
    budget: &Budget<'_>,
    push: &mut dyn FnMut(Symbol<'data>),
) -> Result<(), ConvertError> {
    let mut count = 0;
    let mut stopped = Ok(());
    file.for_each_symbol(table, |symbol| {
        if let Some(symbol) = function(file, code, &symbol) {
            count += 1;
            push(symbol);
        }
        stopped = budget.spend(1).and_then(|()| budget.symbols(count));
        stopped.is_ok()
    });
    stopped
}

/// The function that a symbol names; `None` for data, imports, and symbols that name no code.
fn function<'data>(
    file: &ElfFile<'data>,
    code: &CodeMap,
    symbol: &ElfSymbol<'data>,
) -> Option<Symbol<'data>> {
    let is_typed = [elf::STT_FUNC.0, elf::STT_GNU_IFUNC.0].contains(&symbol.kind);
    let is_label = symbol.kind == elf::STT_NOTYPE.0;
    if symbol.section == 0 || symbol.name.is_empty() || !(is_typed || is_label) {
        return None;
    }
    let section = file.sections.get(usize::try_from(symbol.section).ok()?);
    // In an object file, values count from the start of their section.
    let value = if is_relocatable(file) {
        section
            .filter(|section| section.is_code())?
            .address
            .checked_add(symbol.value)?
    } else {
        symbol.value
    };
    if is_label {
        let section = section?;
        let inside = value.wrapping_sub(section.address) < section.size;
        if !section.is_code() || !inside || is_mapping_symbol(file.header.machine, symbol.name) {
            return None;
        }
    }
    let thumb = file.header.machine == elf::EM_ARM.0 && is_typed;
    let address = if thumb { value & !1 } else { value };
    code.end_after(address)?;
    let binding = match symbol.binding {
        b if b == elf::STB_GLOBAL.0 => 0,
        b if b == elf::STB_WEAK.0 => 1,
        _ => 2,
    };
    let unsized_label = is_label && symbol.size == 0;
    let rank = match unsized_label {
        true if is_marker(symbol.name) => RANK_MARKER,
        true => 16 + binding,
        false => 2 * binding + u8::from(symbol.size == 0),
    };
    Some(Symbol {
        address,
        size: symbol.size,
        rank,
        provenance: Provenance::Symtab,
        name: without_version(symbol.name),
    })
}

/// `$a`, `$d`, `$t`, `$x` tell a disassembler what follows; they name nothing.
fn is_mapping_symbol(machine: u16, name: &[u8]) -> bool {
    let has_them = [elf::EM_ARM.0, elf::EM_AARCH64.0, elf::EM_RISCV.0].contains(&machine);
    has_them && matches!(name, [b'$', b'a' | b'd' | b't' | b'x', ..])
}

/// Whether an untyped symbol without size is a linker script's: `__entry_text_end`, `etext`.
fn is_marker(name: &[u8]) -> bool {
    let ends = [
        &b"_end"[..],
        b"_start",
        b"_begin",
        b"etext",
        b"_END",
        b"_START",
        b"_stop",
    ];
    let starts = [&b"__start_"[..], b"__stop_"];
    let entry_points = [&b"_start"[..], b"__start"];
    !entry_points.contains(&name)
        && (ends.iter().any(|end| name.ends_with(end))
            || starts.iter().any(|start| name.starts_with(start)))
}

/// `pthread_create@@GLIBC_2.34` is the function `pthread_create`.
fn without_version(name: &[u8]) -> &[u8] {
    let at = name
        .iter()
        .position(|&byte| byte == b'@')
        .filter(|&at| at > 0);
    at.and_then(|at| name.get(..at)).unwrap_or(name)
}

/// Which symbol covers which addresses. Where symbols overlap, the one that starts last wins.
fn covers(all: &[Symbol<'_>], code: &CodeMap) -> Vec<Cover> {
    let mut covers = Vec::new();
    let mut open: Vec<(u64, u32)> = Vec::new();
    let mut position = 0;
    let mut groups = all.chunk_by(|a, b| a.address == b.address).peekable();
    let mut index = 0_usize;
    while let Some(group) = groups.next() {
        let Some(best) = group.first() else { break };
        close(&mut covers, &mut open, &mut position, best.address);
        let next = groups
            .peek()
            .and_then(|group| group.first())
            .map(|s| s.address);
        let section_end = code.end_after(best.address).unwrap_or(best.address);
        let size = group.iter().map(|s| s.size).max().unwrap_or(0);
        let end = if size > 0 {
            best.address.saturating_add(size).min(section_end)
        } else if best.rank == RANK_MARKER {
            best.address
        } else {
            next.map_or(section_end, |next| next.min(section_end))
        };
        if let (true, Ok(symbol)) = (end > best.address, u32::try_from(index)) {
            if let Some(&(_, under)) = open.last() {
                push(&mut covers, position, best.address, under);
            }
            position = best.address;
            open.push((end, symbol));
        }
        index = index.saturating_add(group.len());
    }
    close(&mut covers, &mut open, &mut position, u64::MAX);
    covers
}

/// Ends the symbols that end before `address`.
fn close(covers: &mut Vec<Cover>, open: &mut Vec<(u64, u32)>, position: &mut u64, address: u64) {
    while let Some(&(end, symbol)) = open.last() {
        if end > address {
            return;
        }
        push(covers, *position, end, symbol);
        *position = end.max(*position);
        open.pop();
    }
}

fn push(covers: &mut Vec<Cover>, start: u64, end: u64, symbol: u32) {
    if start < end {
        covers.push(Cover { start, end, symbol });
    }
}
