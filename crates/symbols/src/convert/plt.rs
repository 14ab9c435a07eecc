//! Stubs of the procedure linkage table: which imported function each of them jumps to.
//!
//! A stub jumps through a slot that the dynamic linker fills, and the relocation of that slot names
//! the function. So stubs are decoded (x86-64 and `AArch64`, where profiles come from), not counted:
//! linkers disagree on headers and order. Their bytes are in the executable only.

use object::Endianness;
use object::elf;
use rustc_hash::FxHashMap;

use super::{Budget, ConvertError};
use crate::elf::{ElfClass, ElfFile, ElfSection};

/// Bytes of a stub when its section does not say: all linkers agree on 16 there.
const STUB_BYTES: usize = 16;

/// One stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stub<'data> {
    /// Link address.
    pub(super) address: u64,
    /// Its size in bytes.
    pub(super) size: u64,
    /// The imported function.
    pub(super) name: &'data [u8],
}

/// Calls `push` with every stub of a file.
pub(super) fn stubs<'data>(
    file: &ElfFile<'data>,
    budget: &Budget<'_>,
    push: &mut dyn FnMut(Stub<'data>),
) -> Result<(), ConvertError> {
    let decode = match file.header.machine {
        m if m == elf::EM_X86_64.0 => x86_64_slot,
        m if m == elf::EM_AARCH64.0 => aarch64_slot,
        _ => return Ok(()),
    };
    let is_known = file.header.class == ElfClass::Elf64
        && file.header.endian == Endianness::Little
        && file.header.file_type != elf::ET_REL.0;
    let tables = file.sections.iter().filter(|s| {
        let names = [&b".plt"[..], b".plt.sec", b".plt.got", b".iplt"];
        s.is_code() && s.has_bytes() && names.contains(&s.name)
    });
    let tables: Vec<&ElfSection<'_>> = tables.filter(|_| is_known).collect();
    if tables.is_empty() {
        return Ok(());
    }
    let slots = slots(file, budget)?;
    for table in tables {
        let size = match usize::try_from(table.entry_size) {
            Ok(size @ (8 | 16 | 24)) => size,
            _ => STUB_BYTES,
        };
        for (number, code) in file.bytes_of(table).chunks_exact(size).enumerate() {
            budget.spend(1)?;
            let address = table
                .address
                .wrapping_add((number as u64).wrapping_mul(size as u64));
            let slot = decode(address, code);
            if let Some(&name) = slot.and_then(|slot| slots.get(&slot)) {
                push(Stub {
                    address,
                    size: size as u64,
                    name,
                });
            }
        }
    }
    Ok(())
}

/// The imported function that each slot is for, by the relocations against dynamic symbols.
fn slots<'data>(
    file: &ElfFile<'data>,
    budget: &Budget<'_>,
) -> Result<FxHashMap<u64, &'data [u8]>, ConvertError> {
    let mut names = Vec::new();
    let mut within = Ok(());
    if let Some(table) = file.sections.iter().find(|s| s.kind == elf::SHT_DYNSYM.0) {
        file.for_each_symbol(table, |symbol| {
            names.push(symbol.name);
            within = budget.spend(1).and_then(|()| budget.symbols(names.len()));
            within.is_ok()
        });
    }
    within?;
    let mut slots = FxHashMap::default();
    let is_table = |s: &&ElfSection<'_>| s.is_allocated() && s.kind == elf::SHT_RELA.0;
    for table in file.sections.iter().filter(is_table) {
        for relocation in file.bytes_of(table).chunks_exact(24) {
            budget.spend(1)?;
            let symbol = word(relocation, 12).and_then(|symbol| usize::try_from(symbol).ok());
            let name = symbol
                .and_then(|symbol| names.get(symbol))
                .filter(|n| !n.is_empty());
            if let (Some(slot), Some(name)) = (long(relocation, 0), name) {
                budget.symbols(slots.len())?;
                slots.insert(slot, *name);
            }
        }
    }
    Ok(slots)
}

/// The slot of `jmp *slot(%rip)`, perhaps behind `endbr64` and with a `bnd` prefix.
fn x86_64_slot(address: u64, code: &[u8]) -> Option<u64> {
    let mut at = 0;
    for prefix in [&b"\xf3\x0f\x1e\xfa"[..], b"\xf2"] {
        if code.get(at..)?.starts_with(prefix) {
            at += prefix.len();
        }
    }
    if code.get(at..at + 2)? != b"\xff\x25" {
        return None;
    }
    let distance = word(code, at + 2)?.cast_signed();
    let next = address.wrapping_add(at as u64).wrapping_add(6);
    Some(next.wrapping_add_signed(distance.into()))
}

/// The slot of `adrp x16, page` and `ldr x17, [x16, offset]`, perhaps behind `bti c`.
fn aarch64_slot(address: u64, code: &[u8]) -> Option<u64> {
    let is_bti = word(code, 0)? == 0xd503_245f;
    let at = if is_bti { 4 } else { 0 };
    let (page, load) = (word(code, at)?, word(code, at + 4)?);
    if page & 0x9f00_001f != 0x9000_0010 || load & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let high = (page >> 5) & 0x7_ffff;
    let low = (page >> 29) & 3;
    // 21 bits with sign, in pages.
    let pages = i64::from(((high << 2 | low) << 11).cast_signed() >> 11);
    let offset = u64::from((load >> 10) & 0xfff) * 8;
    let here = address.wrapping_add(at as u64) & !0xfff;
    Some(here.wrapping_add_signed(pages << 12).wrapping_add(offset))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(u32::from_le_bytes(bytes))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?.try_into().ok()?;
    Some(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn aarch64_stubs_lead_to_their_slot() {
        // adrp x16, 0x410000; ldr x17, [x16, #0x18]; add x16, x16, #0x18; br x17
        let forward = [0x9000_0090, 0xf940_0e11, 0x9100_6210, 0xd61f_0220];
        assert_eq!(aarch64_slot(0x40_0600, &code(&forward)), Some(0x41_0018));
        // bti c; adrp x16, one page back
        let back = [0xd503_245f, 0xf0ff_fff0, 0xf940_0e11, 0x9100_6210];
        assert_eq!(aarch64_slot(0x40_0600, &code(&back)), Some(0x3f_f018));
        assert_eq!(aarch64_slot(0x40_0600, &code(&[0xd503_201f; 4])), None);
        assert_eq!(aarch64_slot(0x40_0600, &[]), None);
    }

    #[test]
    fn x86_64_stubs_lead_to_their_slot() {
        let plain = b"\xff\x25\xe2\x2f\0\0\x68\0\0\0\0\xe9\xe0\xff\xff\xff";
        assert_eq!(x86_64_slot(0x1030, plain), Some(0x4018));
        let ibt = b"\xf3\x0f\x1e\xfa\xf2\xff\x25\xdd\x2f\0\0";
        assert_eq!(x86_64_slot(0x1030, ibt), Some(0x4018));
        assert_eq!(x86_64_slot(0x1020, b"\xff\x35\xe2\x2f\0\0"), None);
        assert_eq!(
            x86_64_slot(u64::MAX, b"\xff\x25\xff\xff\xff\x7f"),
            Some(0x8000_0004)
        );
    }
}
