//! Linkage names as people write them, in bounded time and memory.
//!
//! Names are demangled once, at conversion; a look-up only chooses ([`DemangleMode`]). A name may be
//! made to demangle to gigabytes or to recurse without end, so nesting and output are bounded;
//! beyond, the mangled name stays. A conversion goes on to count, to tell a long name from one
//! without end.
//!
//! - *full*: as `c++filt` writes it, parameters and template arguments included. The suffix of a
//!   clone follows as `[clone .cold]`, as in `c++filt`. Rust's hash and `.llvm.<hash>` are left
//!   out: they are no part of a name that people write, and differ from build to build.
//! - *short*: without return type, parameters, template arguments and clone suffix. It stays the
//!   same between builds, and clones of a function merge in a flame graph.

mod mode;
mod scheme;
mod shorten;

pub use mode::{DemangleMode, Names, ParseDemangleModeError};

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, ParseOptions};

use crate::model::Language;
use scheme::{Scheme, split_clones};

/// Bytes of a demangled name; beyond, the mangled name stays. Boost's longest have about 10,000.
pub const DEMANGLED_BYTES_MAX: usize = 16 << 10;

/// Bytes of output, counted and thrown away, at which a name is without end: a thousand times the
/// longest real ones, and still counted in a quarter of a second.
pub const ENDLESS_BYTES_MIN: u64 = 16 << 20;

/// Bytes of output that are thrown away for one file: what is longer than it may be is not counted
/// any more then, so that many such names cost no more than a second.
const DISCARDED_BYTES_MAX: u64 = 4 * ENDLESS_BYTES_MIN;

/// Nested parts of a C++ name that are parsed; the figures are those of Sentry's symbolic, where
/// they hold in production.
const CPP_PARSE_DEPTH_MAX: u32 = 160;

/// Nested parts of a C++ name that are written.
const CPP_WRITE_DEPTH_MAX: u32 = 192;

/// A demangled name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demangled {
    /// With parameters and template arguments; equal to the linkage name when that is not mangled.
    pub full: String,
    /// Without return type, parameters, template arguments and clone suffix.
    pub short: String,
}

impl Demangled {
    /// Demangles a linkage name. The language decides where two schemes look alike.
    ///
    /// ```
    /// use unhex_symbols::{demangle::Demangled, model::Language};
    /// let name = Demangled::of("_ZNSt6vectorIiE4pushEi.cold", Language::Cpp);
    /// assert_eq!(name.full, "std::vector<int>::push(int) [clone .cold]");
    /// assert_eq!(name.short, "std::vector::push");
    /// ```
    pub fn of(linkage_name: &str, language: Language) -> Self {
        let mut nothing = Allowance { bytes: 0 };
        Self::counted(linkage_name, language, &mut nothing)
            .unwrap_or_else(|Endless| Self::as_it_is(linkage_name))
    }

    /// The same, for one of the names of a file.
    pub(crate) fn counted(
        linkage_name: &str,
        language: Language,
        allowance: &mut Allowance,
    ) -> Result<Self, Endless> {
        let (base, clones) = split_clones(linkage_name);
        let Some(scheme) = Scheme::of(base, language) else {
            return Ok(Self::as_it_is(linkage_name));
        };
        let Some(name) = demangle(base, scheme, allowance)? else {
            return Ok(Self::as_it_is(linkage_name));
        };
        let (mut full, short) = if scheme == Scheme::Rust {
            let short = shorten::rust(&name);
            (name, short)
        } else {
            let full = shorten::thunk(&name).unwrap_or(name);
            let short = shorten::without_templates(&shorten::without_parameters(&full));
            (full, short)
        };
        for clone in clones {
            full.push_str(" [clone ");
            full.push_str(clone);
            full.push(']');
        }
        Ok(Self { full, short })
    }

    fn as_it_is(linkage_name: &str) -> Self {
        Self {
            full: linkage_name.to_owned(),
            short: split_clones(linkage_name).0.to_owned(),
        }
    }
}

/// A name that demangles to [`ENDLESS_BYTES_MIN`] bytes or more, which no compiler makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endless;

/// How much output may still be thrown away to tell long names of a file from those without end.
#[derive(Debug)]
pub(crate) struct Allowance {
    bytes: u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            bytes: DISCARDED_BYTES_MAX,
        }
    }
}

/// The demangled name; `None` when it is none, or too long.
fn demangle(
    base: &str,
    scheme: Scheme,
    allowance: &mut Allowance,
) -> Result<Option<String>, Endless> {
    let mut out = Bounded {
        text: String::new(),
        discarded: 0,
        discarded_max: allowance.bytes.min(ENDLESS_BYTES_MIN),
    };
    let is_whole = written(base, scheme, &mut out).is_some();
    allowance.bytes = allowance.bytes.saturating_sub(out.discarded);
    if out.discarded >= ENDLESS_BYTES_MIN {
        return Err(Endless);
    }
    let is_kept = is_whole && out.discarded == 0 && !out.text.is_empty();
    Ok(is_kept.then_some(out.text))
}

/// Writes the demangled name, unless it is none or `out` refuses it.
fn written(base: &str, scheme: Scheme, out: &mut Bounded) -> Option<()> {
    match scheme {
        Scheme::Rust => {
            let name = rustc_demangle::try_demangle(base).ok()?;
            write!(out, "{name:#}").ok()
        }
        Scheme::Cpp => {
            let parse = ParseOptions::default().recursion_limit(CPP_PARSE_DEPTH_MAX);
            let write = DemangleOptions::new().recursion_limit(CPP_WRITE_DEPTH_MAX);
            let name = cpp_demangle::BorrowedSymbol::with_tail_and_options(base.as_bytes(), &parse);
            let (name, tail) = name.ok()?;
            name.structured_demangle(out, &write).ok()?;
            tail.is_empty().then_some(())
        }
    }
}

/// A text that grows to [`DEMANGLED_BYTES_MAX`] and then only counts, until it refuses to, which
/// ends the demangler.
struct Bounded {
    text: String,
    /// Bytes that were counted and thrown away.
    discarded: u64,
    /// How many of them may be.
    discarded_max: u64,
}

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = self.text.len().saturating_add(text.len()) <= DEMANGLED_BYTES_MAX;
        if fits && self.discarded == 0 {
            self.text.push_str(text);
            return Ok(());
        }
        self.discarded = self.discarded.saturating_add(text.len() as u64);
        if self.discarded >= self.discarded_max {
            return Err(fmt::Error);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
