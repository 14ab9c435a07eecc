//! DWARF's many numbers for languages, as the few that are told apart.

use gimli::constants as dw;

use crate::model::Language;

/// The language of a unit.
pub(super) fn language(code: gimli::DwLang) -> Language {
    match code {
        dw::DW_LANG_C | dw::DW_LANG_C89 | dw::DW_LANG_C99 | dw::DW_LANG_C11 => Language::C,
        dw::DW_LANG_C_plus_plus
        | dw::DW_LANG_C_plus_plus_03
        | dw::DW_LANG_C_plus_plus_11
        | dw::DW_LANG_C_plus_plus_14 => Language::Cpp,
        dw::DW_LANG_Rust => Language::Rust,
        dw::DW_LANG_Go => Language::Go,
        dw::DW_LANG_Mips_Assembler => Language::Assembler,
        dw::DW_LANG_D => Language::D,
        dw::DW_LANG_Swift => Language::Swift,
        dw::DW_LANG_Fortran77
        | dw::DW_LANG_Fortran90
        | dw::DW_LANG_Fortran95
        | dw::DW_LANG_Fortran03
        | dw::DW_LANG_Fortran08 => Language::Fortran,
        dw::DW_LANG_Ada83 | dw::DW_LANG_Ada95 => Language::Ada,
        dw::DW_LANG_OCaml => Language::OCaml,
        dw::DW_LANG_ObjC | dw::DW_LANG_ObjC_plus_plus => Language::ObjectiveC,
        gimli::DwLang(code) => newer(code),
    }
}

/// Numbers that were given out after DWARF 5 (<https://dwarfstd.org/languages.html>).
fn newer(code: u16) -> Language {
    match code {
        0x27 => Language::Zig,
        0x2a | 0x2b | 0x3a => Language::Cpp,
        0x2c | 0x3e => Language::C,
        0x2d | 0x40 => Language::Fortran,
        0x2e | 0x2f => Language::Ada,
        0x31 => Language::Assembler,
        _ => Language::Other,
    }
}

/// Whether a linkage name of the language is mangled.
pub(super) fn mangles(language: Language) -> bool {
    matches!(
        language,
        Language::Cpp
            | Language::Rust
            | Language::D
            | Language::Swift
            | Language::Ada
            | Language::ObjectiveC
    )
}
