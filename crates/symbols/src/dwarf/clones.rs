//! What a function and its clones are called: names that the symbol table has and DWARF has not.

use super::language::mangles;
use super::names::Named;
use crate::convert::{NO_NAME, Symbols};

/// The name of a function without the suffix of any clone, where the symbol table has it and the
/// debug information has not. `own` is the name that the latter has.
///
/// C++ and Rust functions without linkage name (clones of link-time optimisation, for instance)
/// have the mangled name of the symbol at their entry, if that has the plain name in it.
pub(super) fn base_name<'a>(
    symbols: &Symbols<'a>,
    named: &Named,
    own: &[u8],
    entry: Option<u64>,
    ranges: &[(u64, u64)],
) -> Option<&'a [u8]> {
    let has_linkage_name = named.linkage_name != NO_NAME;
    let wants_symbol = own.is_empty() || (!has_linkage_name && mangles(named.language));
    let first = ranges.first().map(|&(start, _)| start);
    let entry = entry.or(first).filter(|_| wants_symbol)?;
    let stem = stem(own);
    let fits = |symbol: &[u8]| {
        let is_mangled = [&b"_Z"[..], b"_R", b"_D"]
            .iter()
            .any(|m| symbol.starts_with(m));
        let has_stem = stem.is_empty() || symbol.windows(stem.len()).any(|part| part == stem);
        own.is_empty() || (is_mangled && has_stem)
    };
    let symbol = symbols.at(entry).iter().find(|symbol| fits(symbol.name))?;
    let dot = symbol
        .name
        .iter()
        .position(|&byte| byte == b'.')
        .filter(|&dot| dot > 0);
    let base = dot.and_then(|dot| symbol.name.get(..dot));
    Some(base.unwrap_or(symbol.name))
}

/// The part of a plain name that its mangled form repeats: `clamped` of `clamped<int>`. Operators,
/// which are mangled in two letters, have none.
fn stem(name: &[u8]) -> &[u8] {
    let name = name.strip_prefix(b"~").unwrap_or(name);
    let in_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let end = name
        .iter()
        .position(|byte| !in_word(byte))
        .unwrap_or(name.len());
    let stem = name.get(..end).unwrap_or_default();
    if stem == b"operator" { &[] } else { stem }
}

/// The name of the range that starts at `start`, if its symbol has the suffix of a clone behind
/// `base` (`.cold`, `.part.0`, `.constprop.0`, `.llvm.123`).
pub(super) fn clone_name<'a>(symbols: &Symbols<'a>, base: &[u8], start: u64) -> Option<&'a [u8]> {
    let here = symbols.at(start);
    if base.is_empty() || here.iter().any(|symbol| symbol.name == base) {
        return None;
    }
    let is_clone = |name: &&[u8]| {
        name.strip_prefix(base)
            .is_some_and(|rest| rest.starts_with(b"."))
    };
    let clones = here.iter().map(|symbol| symbol.name).filter(is_clone);
    clones.min_by_key(|name| (name.len(), *name))
}
