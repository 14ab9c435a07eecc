//! How a name is mangled, and which of its suffixes compilers added to tell clones apart.

use crate::model::Language;

/// A way of mangling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// Itanium C++.
    Cpp,
    /// Rust, either version.
    Rust,
}

impl Scheme {
    /// The scheme of a name without clone suffixes; `None` when it is not mangled.
    ///
    /// Rust's older scheme is C++'s, with a hash as last part, which no C++ name has.
    pub(super) fn of(base: &str, language: Language) -> Option<Self> {
        let name = base
            .strip_prefix('_')
            .filter(|rest| rest.starts_with("_Z"))
            .unwrap_or(base);
        if name.starts_with("_R") {
            // Only what Rust's demangler accepts is Rust: C may have names that start so.
            return Some(Self::Rust);
        }
        if !name.starts_with("_Z") {
            return None;
        }
        let is_rust = language != Language::Cpp && has_rust_hash(name);
        Some(
            if is_rust || (has_rust_hash(name) && name.starts_with("_ZN")) {
                Self::Rust
            } else {
                Self::Cpp
            },
        )
    }
}

/// Whether a name ends in `17h`, 16 hex digits and `E`.
fn has_rust_hash(name: &str) -> bool {
    let Some(rest) = name.strip_suffix('E') else {
        return false;
    };
    let Some(at) = rest.len().checked_sub(19) else {
        return false;
    };
    let Some((_, hash)) = rest.split_at_checked(at) else {
        return false;
    };
    let digits = hash.strip_prefix("17h");
    digits.is_some_and(|digits| {
        digits
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Suffixes that compilers and linkers give to clones; Rust, Go and Java names have dots as well.
const CLONES: [&str; 17] = [
    "cold",
    "part",
    "isra",
    "constprop",
    "lto_priv",
    "llvm",
    "localalias",
    "clone",
    "warm",
    "unlikely",
    "split",
    "ipa",
    "resume",
    "destroy",
    "cleanup",
    "simdclone",
    "outlined",
];

/// A name without its clone suffixes, and these: `.part.0`, `.cold`. `.llvm.<hash>` is dropped.
pub(super) fn split_clones(name: &str) -> (&str, Vec<&str>) {
    let is_mangled = ["_Z", "__Z", "_R"]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    let mut base = name;
    let mut clones = Vec::new();
    while let Some((rest, clone)) = last_clone(base, is_mangled) {
        base = rest;
        if !clone.starts_with(".llvm.") {
            clones.push(clone);
        }
    }
    clones.reverse();
    (base, clones)
}

/// The last suffix of a name, with the numbers that follow it: `.part.0`.
fn last_clone(name: &str, is_mangled: bool) -> Option<(&str, &str)> {
    let mut end = name.len();
    loop {
        let (before, _) = name.split_at_checked(end)?;
        let dot = before.rfind('.').filter(|&dot| dot > 0)?;
        let (_, word) = before.split_at_checked(dot.checked_add(1)?)?;
        let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
        if CLONES.contains(&word) || CLONES.contains(&stem) {
            return name.split_at_checked(dot);
        }
        // A mangled name has no dots of its own.
        let plain = word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_number {
            return (is_mangled && plain)
                .then(|| name.split_at_checked(dot))
                .flatten();
        }
        end = dot;
    }
}
