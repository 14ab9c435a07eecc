//! Names of functions by link address, from the symbol table of a file that was not stripped.

use std::path::Path;

use object::{Object, ObjectSymbol, SymbolKind};
use unhex_symbols::address::LinkAddress;

/// The functions of one file, by address.
#[derive(Debug)]
pub(crate) struct Symbols {
    functions: Vec<(u64, u64, String)>,
}

impl Symbols {
    pub(crate) fn of(file: &Path) -> Self {
        let bytes = std::fs::read(file).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let functions = file
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
        let mut functions: Vec<_> = functions
            .map(|symbol| {
                (
                    symbol.address(),
                    symbol.size(),
                    symbol.name().unwrap().to_owned(),
                )
            })
            .collect();
        functions.sort();
        Self { functions }
    }

    /// The function that has an address; `None` for stubs of the linker.
    pub(crate) fn function_at(&self, address: LinkAddress) -> Option<&str> {
        let after = self
            .functions
            .partition_point(|&(start, ..)| start <= address.0);
        let (start, size, name) = self.functions.get(after.checked_sub(1)?)?;
        (address.0 - start < *size).then_some(name)
    }
}
