//! The names of functions as text, demangled once for all look-ups.

use rustc_hash::FxHashMap;

use super::{Budget, ConvertError, FunctionKey};
use crate::demangle::Demangled;
use crate::model::{Function, Language, NONE, Provenance};

/// The functions of the walk, by index.
pub(super) fn functions(
    keys: &[FunctionKey<'_>],
    budget: &Budget<'_>,
) -> Result<Vec<Function>, ConvertError> {
    let mut known: FxHashMap<&[u8], usize> = FxHashMap::default();
    let mut functions: Vec<Function> = Vec::with_capacity(keys.len());
    for key in keys {
        let first = *known.entry(key.name).or_insert(functions.len());
        let function = match functions.get(first) {
            Some(same) => Function {
                declaration_file: key.declaration_file,
                declaration_line: key.declaration_line,
                language: key.language,
                provenance: key.provenance,
                ..same.clone()
            },
            None => named(key, budget)?,
        };
        spend(&function, budget)?;
        functions.push(function);
    }
    Ok(functions)
}

/// The function that a symbol names.
pub(super) fn of_symbol(
    name: &[u8],
    provenance: Provenance,
    budget: &Budget<'_>,
) -> Result<Function, ConvertError> {
    let key = FunctionKey {
        name,
        declaration_file: NONE,
        declaration_line: 0,
        language: Language::Unknown,
        provenance,
    };
    let function = named(&key, budget)?;
    spend(&function, budget)?;
    Ok(function)
}

fn named(key: &FunctionKey<'_>, budget: &Budget<'_>) -> Result<Function, ConvertError> {
    let mut linkage_name = String::from_utf8_lossy(key.name).into_owned();
    let Demangled {
        mut full,
        mut short,
    } = budget.demangle(&linkage_name, key.language)?;
    if key.provenance == Provenance::Plt {
        for name in [&mut linkage_name, &mut full, &mut short] {
            name.push_str("@plt");
        }
    }
    Ok(Function {
        linkage_name,
        full_name: full,
        short_name: short,
        declaration_file: key.declaration_file,
        declaration_line: key.declaration_line,
        language: key.language,
        provenance: key.provenance,
    })
}

fn spend(function: &Function, budget: &Budget<'_>) -> Result<(), ConvertError> {
    budget.spend(16)?;
    budget.name(function.linkage_name.len())?;
    budget.name(function.full_name.len())?;
    budget.name(function.short_name.len())
}
