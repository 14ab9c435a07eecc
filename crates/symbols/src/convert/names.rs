//! The names of functions as text, demangled once for all look-ups.

use super::{Budget, ConvertError, FunctionKey, NamePool};
use crate::demangle::Demangled;
use crate::model::{Function, Language, NONE, Provenance};

/// The functions of the walk, by index.
pub(super) fn functions(
    keys: &[FunctionKey],
    names: &NamePool,
    budget: &Budget<'_>,
) -> Result<Vec<Function>, ConvertError> {
    // The first function of each name.
    let mut firsts = vec![usize::MAX; names.len()];
    let mut functions: Vec<Function> = Vec::with_capacity(keys.len());
    for key in keys {
        let place = usize::try_from(key.name).unwrap_or(usize::MAX);
        let first = firsts.get_mut(place);
        let function = match first.as_ref().and_then(|first| functions.get(**first)) {
            Some(same) => Function {
                declaration_file: key.declaration_file,
                declaration_line: key.declaration_line,
                language: key.language,
                provenance: key.provenance,
                ..same.clone()
            },
            None => named(key, names.get(key.name), budget)?,
        };
        if let Some(first) = first {
            *first = functions.len().min(*first);
        }
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
        name: NONE,
        declaration_file: NONE,
        declaration_line: 0,
        language: Language::Unknown,
        provenance,
    };
    let function = named(&key, name, budget)?;
    spend(&function, budget)?;
    Ok(function)
}

fn named(key: &FunctionKey, name: &[u8], budget: &Budget<'_>) -> Result<Function, ConvertError> {
    let mut linkage_name = String::from_utf8_lossy(name).into_owned();
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
