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
///
/// gcc gives a clone of a constructor no name of its own, only the abstract constructor's, which no
/// symbol ever has.
pub(super) fn clone_name<'a>(symbols: &Symbols<'a>, base: &[u8], start: u64) -> Option<&'a [u8]> {
    let here = symbols.at(start);
    if base.is_empty() || here.iter().any(|symbol| symbol.name == base) {
        return None;
    }
    let is_clone = |name: &&[u8]| {
        name.split_at_checked(base.len())
            .is_some_and(|(name, rest)| rest.starts_with(b".") && is_named(name, base))
    };
    let clones = here.iter().map(|symbol| symbol.name).filter(is_clone);
    clones.min_by_key(|name| (name.len(), *name))
}

/// Whether a symbol's name is what the debug information calls `name`: for gcc, `C4` and `D4` are
/// all the constructors (`C1`, `C2`, `C3`) and destructors that are made of one piece of source
/// (`ctor_identifier` and `write_special_name_constructor` in gcc's mangle.cc).
fn is_named(symbol: &[u8], name: &[u8]) -> bool {
    let mut before = b'_';
    let mut is_unified = false;
    symbol.len() == name.len()
        && symbol.iter().zip(name).all(|(&of_symbol, &of_name)| {
            let is_kind = matches!(before, b'C' | b'D') && matches!(of_symbol, b'0'..=b'5');
            let differs = of_symbol != of_name;
            before = of_name;
            let may = !differs || (of_name == b'4' && is_kind && !is_unified);
            is_unified |= differs;
            may
        })
}

#[cfg(test)]
mod tests {
    use super::is_named;

    #[test]
    fn only_constructors_and_destructors_have_symbols_of_another_name() {
        let named = |symbol: &str, name: &str| is_named(symbol.as_bytes(), name.as_bytes());
        assert!(named("_ZN5RangeC2EPKclb", "_ZN5RangeC4EPKclb"));
        assert!(named("_ZN5RangeD0Ev", "_ZN5RangeD4Ev"));
        assert!(named("_Z4workv", "_Z4workv"));
        assert!(!named("_ZN5RangeC2EPKclb", "_ZN5RangeC1EPKclb"));
        assert!(!named("_ZN5RangeC2EPKcjb", "_ZN5RangeC4EPKclb"));
        assert!(!named("_ZN2C2C2Ev", "_ZN2C4C4Ev"));
        assert!(!named("_Z5work2v", "_Z5work4v"));
        assert!(!named("_Z4work", "_Z4workv"));
    }
}
