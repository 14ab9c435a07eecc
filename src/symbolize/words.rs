//! Qualities and origins in the words of the interface.

use unhex_api::quality as words;
use unhex_symbols::quality::Quality;

use crate::artifacts::Origin;

/// What can be told of an address.
pub fn quality(quality: Quality) -> words::Quality {
    match quality {
        Quality::None => words::Quality::None,
        Quality::Dynsym => words::Quality::Dynsym,
        Quality::Symtab => words::Quality::Symtab,
        Quality::GoPclntab => words::Quality::GoPclntab,
        Quality::DwarfLines => words::Quality::DwarfLines,
        Quality::DwarfInlines => words::Quality::DwarfInlines,
    }
}

/// How a file came into the store.
pub fn origin(origin: Origin) -> words::Origin {
    match origin {
        Origin::Upload => words::Origin::Upload,
        Origin::Upstream => words::Origin::Upstream,
        Origin::Scanned => words::Origin::Scanned,
    }
}
