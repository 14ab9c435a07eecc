//! Linkage names as people write them, in bounded time and memory.
//!
//! Names are demangled once, at conversion; a look-up only chooses ([`DemangleMode`]). A name may be
//! made to demangle to gigabytes or to recurse without end, so nesting and output are bounded;
//! beyond, the mangled name stays.
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
        let (base, clones) = split_clones(linkage_name);
        let scheme = Scheme::of(base, language);
        let Some(name) = scheme.and_then(|scheme| demangle(base, scheme)) else {
            return Self {
                full: linkage_name.to_owned(),
                short: base.to_owned(),
            };
        };
        let (mut full, short) = if scheme == Some(Scheme::Rust) {
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
        Self { full, short }
    }
}

fn demangle(base: &str, scheme: Scheme) -> Option<String> {
    let mut out = Bounded(String::new());
    match scheme {
        Scheme::Rust => {
            let name = rustc_demangle::try_demangle(base).ok()?;
            write!(out, "{name:#}").ok()?;
        }
        Scheme::Cpp => {
            let parse = ParseOptions::default().recursion_limit(CPP_PARSE_DEPTH_MAX);
            let write = DemangleOptions::new().recursion_limit(CPP_WRITE_DEPTH_MAX);
            let name = cpp_demangle::BorrowedSymbol::with_tail_and_options(base.as_bytes(), &parse);
            let (name, tail) = name.ok()?;
            name.structured_demangle(&mut out, &write).ok()?;
            if !tail.is_empty() {
                return None;
            }
        }
    }
    Some(out.0).filter(|name| !name.is_empty())
}

/// A text that refuses to grow beyond [`DEMANGLED_BYTES_MAX`], which ends the demangler.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len().saturating_add(text.len()) > DEMANGLED_BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
