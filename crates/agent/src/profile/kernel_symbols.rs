//! The names of the kernel's functions, as it lists them itself in `/proc/kallsyms`.

use std::io::BufRead;

use super::frames::KERNEL_PROPER;

/// Symbols that are kept: a kernel has 150,000 functions, with all modules that a distribution loads 250,000.
const SYMBOLS_MAX: usize = 1 << 20;
/// Bytes of a name; the kernel itself cuts there.
const NAME_BYTES_MAX: usize = 512;
/// How far behind the start of the last symbol an address may lie: the largest functions are smaller.
const LAST_FUNCTION_BYTES_MAX: u64 = 1 << 20;
/// Symbols that stand behind the last function of the kernel proper.
const ENDS: [&str; 2] = ["_etext", "_einittext"];

/// Functions of the kernel and its modules by address.
#[derive(Clone, Debug, Default)]
pub struct KernelSymbols {
    /// Sorted by start.
    symbols: Vec<Symbol>,
    /// All names, one behind the other.
    names: String,
    /// The kernel proper first.
    modules: Vec<Module>,
}

#[derive(Clone, Copy, Debug)]
struct Symbol {
    start: u64,
    name_start: u32,
    name_bytes: u16,
    module: u16,
}

#[derive(Clone, Debug)]
struct Module {
    name: Box<str>,
    /// Its lowest function.
    start: u64,
}

/// A function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelSymbol<'a> {
    /// Its name.
    pub name: &'a str,
    /// The module, `vmlinux` for the kernel proper.
    pub module: &'a str,
    /// Where it starts, counted from the module's first function, so that it does not depend on the boot.
    pub offset: u64,
}

impl KernelSymbols {
    /// The functions that a list of lines `ADDRESS TYPE NAME [MODULE]` has. None where the kernel hides addresses, which are all 0 then.
    pub fn read(mut list: impl BufRead) -> Self {
        let mut all = Self {
            modules: vec![Module {
                name: KERNEL_PROPER.into(),
                start: u64::MAX,
            }],
            ..Self::default()
        };
        let mut line = Vec::new();
        while all.symbols.len() < SYMBOLS_MAX {
            line.clear();
            match list.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            if let Ok(line) = std::str::from_utf8(&line) {
                all.add(line);
            }
        }
        // Of several names of one function the first counts.
        all.symbols.sort_by_key(|symbol| symbol.start);
        all.symbols.dedup_by_key(|symbol| symbol.start);
        all.symbols.shrink_to_fit();
        all.names.shrink_to_fit();
        all
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let mut fields = line.split_ascii_whitespace();
        let start = u64::from_str_radix(fields.next()?, 16).ok()?;
        let is_code = matches!(fields.next()?, "t" | "T" | "w" | "W");
        let name = fields
            .next()
            .filter(|name| name.len() <= NAME_BYTES_MAX && is_code)?;
        let module = match fields.next() {
            Some(module) => self.module(module.trim_matches(['[', ']']))?,
            None => 0,
        };
        if start == 0 {
            return None;
        }
        let known = self.modules.get_mut(usize::from(module))?;
        known.start = known.start.min(start);
        let symbol = Symbol {
            start,
            name_start: u32::try_from(self.names.len()).ok()?,
            name_bytes: u16::try_from(name.len()).ok()?,
            module,
        };
        self.names.push_str(name);
        self.symbols.push(symbol);
        Some(())
    }

    /// The number of a module; those of one are neighbours in the list.
    fn module(&mut self, name: &str) -> Option<u16> {
        let known = self
            .modules
            .iter()
            .rposition(|module| *module.name == *name);
        let place = known.unwrap_or_else(|| {
            self.modules.push(Module {
                name: name.into(),
                start: u64::MAX,
            });
            self.modules.len() - 1
        });
        u16::try_from(place).ok()
    }

    /// How many functions are known.
    pub fn len(&self) -> usize {
        self.symbols.len()
    }

    /// Whether none is: the kernel hides them from whoever may not see them.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The function at an address.
    pub fn at(&self, address: u64) -> Option<KernelSymbol<'_>> {
        let behind = self
            .symbols
            .partition_point(|symbol| symbol.start <= address);
        let symbol = self.symbols.get(behind.checked_sub(1)?)?;
        let is_last = behind == self.symbols.len();
        if is_last && address - symbol.start > LAST_FUNCTION_BYTES_MAX {
            return None;
        }
        let start = usize::try_from(symbol.name_start).ok()?;
        let name = self
            .names
            .get(start..start.checked_add(symbol.name_bytes.into())?)?;
        let module = self.modules.get(usize::from(symbol.module))?;
        (!ENDS.contains(&name)).then(|| KernelSymbol {
            name,
            module: &module.name,
            offset: symbol.start.saturating_sub(module.start),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIST: &str = "ffffffff81000000 T _text\n\
                        ffffffff81000100 t do_one\n\
                        ffffffff81000100 t alias\n\
                        ffffffff81000180 d data\n\
                        ffffffff81000200 W weak\n\
                        ffffffff81000300 T _etext\n\
                        ffffffffc0000010 t second\t[ext4]\n\
                        ffffffffc0000000 t first\t[ext4]\n";

    #[test]
    fn functions_are_found_by_address_with_their_module() {
        let symbols = KernelSymbols::read(LIST.as_bytes());
        let found = |address| {
            symbols
                .at(address)
                .map(|at| (at.name, at.module, at.offset))
        };
        for (address, expected) in [
            (0xffff_ffff_80ff_ffff, None),
            (0xffff_ffff_8100_00ff, Some(("_text", "vmlinux", 0))),
            (0xffff_ffff_8100_0100, Some(("do_one", "vmlinux", 0x100))),
            (0xffff_ffff_8100_01ff, Some(("do_one", "vmlinux", 0x100))),
            (0xffff_ffff_8100_0200, Some(("weak", "vmlinux", 0x200))),
            (0xffff_ffff_8100_0300, None),
            (0xffff_ffff_c000_000f, Some(("first", "ext4", 0))),
            (0xffff_ffff_c000_0010, Some(("second", "ext4", 0x10))),
            (0xffff_ffff_c010_0011, None),
        ] {
            assert_eq!(found(address), expected, "{address:#x}");
        }
    }

    #[test]
    fn a_kernel_that_hides_addresses_has_no_names() {
        let symbols = KernelSymbols::read(&b"0000000000000000 T _text\n0000000000000000 t x\n"[..]);
        assert!(symbols.is_empty());
        assert_eq!(symbols.at(0xffff_ffff_8100_0000), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_list(list: Vec<u8>, address: u64) {
            let _any = KernelSymbols::read(&*list).at(address);
        }
    }
}
