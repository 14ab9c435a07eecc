//! DWARF and names that are small in the file and endless for a reader that trusts them.

use super::with_contents;
use crate::fixture::Program;

const DW_TAG_COMPILE_UNIT: u8 = 0x11;
const DW_TAG_SUBPROGRAM: u8 = 0x2e;
const DW_TAG_INLINED_SUBROUTINE: u8 = 0x1d;
const DW_AT_NAME: u8 = 0x03;
const DW_AT_LOW_PC: u8 = 0x11;
const DW_AT_HIGH_PC: u8 = 0x12;
const DW_AT_ABSTRACT_ORIGIN: u8 = 0x31;
const DW_AT_DECL_LINE: u8 = 0x3b;
const DW_AT_SPECIFICATION: u8 = 0x47;
const DW_AT_LINKAGE_NAME: u8 = 0x6e;
const DW_FORM_ADDR: u8 = 0x01;
const DW_FORM_DATA8: u8 = 0x07;
const DW_FORM_STRING: u8 = 0x08;
const DW_FORM_DATA1: u8 = 0x0b;
const DW_FORM_REF4: u8 = 0x13;

/// Size of the header of a DWARF 4 unit: offsets of DIEs count from its start.
const UNIT_HEADER_BYTES: u32 = 11;

/// A program whose only unit has inlined calls nested `depth` deep, all of them over the same code.
pub fn nested_dies(sound: &[u8], depth: usize) -> Vec<u8> {
    let mut dies = vec![1];
    dies.push(2);
    dies.extend(0x1000_u64.to_le_bytes());
    dies.extend(16_u64.to_le_bytes());
    dies.extend(b"outer\0");
    // Each inlined call: its origin is the function, its range the whole of it.
    for _ in 0..depth {
        push_function(&mut dies, 3, UNIT_HEADER_BYTES + 1);
    }
    dies.resize(dies.len() + depth + 2, 0);
    with_unit(sound, &dies)
}

/// A program with functions that are their own abstract origin and specification, at once and over
/// a detour.
pub fn self_referring_dies(sound: &[u8]) -> Vec<u8> {
    let mut dies = vec![1];
    let size = 1 + 8 + 8 + 4;
    let first = UNIT_HEADER_BYTES + 1;
    push_function(&mut dies, 4, first);
    dies.push(0);
    // The two after it refer to each other. One null byte ends the children of each.
    let second = first + size + 1;
    let third = second + size + 1;
    push_function(&mut dies, 5, third);
    dies.push(0);
    push_function(&mut dies, 4, second);
    dies.extend([0, 0]);
    with_unit(sound, &dies)
}

/// What the functions of a cycle say beside their origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cyclic {
    /// Where their code is.
    Nameless,
    /// Where their code is, and all that a reader wants to know of an origin.
    Named,
    /// Nothing: they are declarations.
    WithoutCode,
}

/// A program with functions of which each has the next one as its origin, and the last the first.
///
/// # Panics
/// If `sound` has no DWARF, or the functions do not fit a unit.
pub fn cyclic_dies(sound: &[u8], length: u32, kind: Cyclic) -> Vec<u8> {
    let one = |reference: u32| {
        let mut die = Vec::new();
        match kind {
            Cyclic::Nameless => push_function(&mut die, 4, reference),
            Cyclic::Named => {
                push_function(&mut die, 6, reference);
                die.extend(b"f\0_Z1fv\0\x07");
            }
            Cyclic::WithoutCode => {
                die.push(7);
                die.extend(reference.to_le_bytes());
            }
        }
        // No children.
        die.push(0);
        die
    };
    let size = u32::try_from(one(0).len()).expect("a small entry");
    let mut dies = vec![1];
    for number in 0..length {
        let next = (number + 1) % length;
        dies.extend(one(UNIT_HEADER_BYTES + 1 + next * size));
    }
    dies.push(0);
    with_unit(sound, &dies)
}

/// A program with symbols of a few hundred bytes that demangle to more than 2^60: each parameter
/// is a pair of the one before.
pub fn demangling_bombs(count: usize) -> Vec<u8> {
    let mut text = ".globl main\nmain: ret\n".to_owned();
    for number in 0..count {
        let function = format!("f{number}");
        let name = doubling_name(&function, 60);
        let lines = format!(
            ".globl \"{name}\"\n.type \"{name}\",@function\n\"{name}\": ret\n.size \"{name}\", 1\n"
        );
        text.push_str(&lines);
    }
    Program::assembler(text).flags(&["-g"]).build().bytes()
}

/// A mangled name of a function whose last parameter has `2^(levels + 1)` leaves.
fn doubling_name(function: &str, levels: u32) -> String {
    let start = format!("_Z{}{function}1PIiiE", function.len());
    (0..levels).fold(start, |name, level| {
        let previous = base36(level);
        name + &format!("S_IS{previous}_S{previous}_E")
    })
}

/// The sequence numbers of substitutions, Itanium C++ ABI §5.1.10: base 36, upper case.
fn base36(number: u32) -> String {
    let digit = |n: u32| {
        char::from_digit(n, 36)
            .expect("below 36")
            .to_ascii_uppercase()
    };
    match number / 36 {
        0 => digit(number).to_string(),
        high => format!("{}{}", digit(high), digit(number % 36)),
    }
}

/// One DIE with the abbreviation `code`: 16 bytes of code from 0x1000, and a reference.
fn push_function(dies: &mut Vec<u8>, code: u8, reference: u32) {
    dies.push(code);
    dies.extend(0x1000_u64.to_le_bytes());
    dies.extend(16_u64.to_le_bytes());
    dies.extend(reference.to_le_bytes());
}

fn with_unit(sound: &[u8], dies: &[u8]) -> Vec<u8> {
    let length = u32::try_from(dies.len()).expect("a small unit") + UNIT_HEADER_BYTES - 4;
    let mut unit = length.to_le_bytes().to_vec();
    unit.extend(4_u16.to_le_bytes());
    unit.extend(0_u32.to_le_bytes());
    unit.push(8);
    unit.extend(dies);
    let changed = with_contents(sound, ".debug_info", &unit);
    with_contents(&changed, ".debug_abbrev", &abbreviations())
}

fn abbreviations() -> Vec<u8> {
    let range = [DW_AT_LOW_PC, DW_FORM_ADDR, DW_AT_HIGH_PC, DW_FORM_DATA8];
    let mut bytes = vec![1, DW_TAG_COMPILE_UNIT, 1, 0, 0];
    bytes.extend([2, DW_TAG_SUBPROGRAM, 1]);
    bytes.extend(range);
    bytes.extend([DW_AT_NAME, DW_FORM_STRING, 0, 0]);
    let with_children = [
        (3, DW_TAG_INLINED_SUBROUTINE, DW_AT_ABSTRACT_ORIGIN),
        (4, DW_TAG_SUBPROGRAM, DW_AT_ABSTRACT_ORIGIN),
        (5, DW_TAG_SUBPROGRAM, DW_AT_SPECIFICATION),
    ];
    for (code, tag, reference) in with_children {
        bytes.extend([code, tag, 1]);
        bytes.extend(range);
        bytes.extend([reference, DW_FORM_REF4, 0, 0]);
    }
    bytes.extend([6, DW_TAG_SUBPROGRAM, 1]);
    bytes.extend(range);
    bytes.extend([DW_AT_ABSTRACT_ORIGIN, DW_FORM_REF4]);
    bytes.extend([DW_AT_NAME, DW_FORM_STRING]);
    bytes.extend([DW_AT_LINKAGE_NAME, DW_FORM_STRING]);
    bytes.extend([DW_AT_DECL_LINE, DW_FORM_DATA1, 0, 0]);
    bytes.extend([7, DW_TAG_SUBPROGRAM, 1]);
    bytes.extend([DW_AT_SPECIFICATION, DW_FORM_REF4, 0, 0]);
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::{run, tools};

    fn dump(bytes: &[u8]) -> String {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), bytes).expect("written");
        let mut readelf = Command::new(tools::READELF.path());
        run::succeed(readelf.arg("-wi").arg(file.path())).text()
    }

    fn sound() -> Vec<u8> {
        Program::c("int main(void) { return 0; }")
            .flags(&["-g"])
            .build()
            .bytes()
    }

    #[test]
    fn nested_calls_are_read_by_binutils() {
        let dump = dump(&nested_dies(&sound(), 10));
        assert_eq!(
            dump.matches("(DW_TAG_inlined_subroutine)").count(),
            10,
            "{dump}"
        );
        assert!(dump.contains("<11><"), "{dump}");
    }

    #[test]
    fn functions_that_refer_to_themselves_are_read_by_binutils() {
        let dump = dump(&self_referring_dies(&sound()));
        let count = |text: &str| dump.matches(text).count();
        assert_eq!(count("(DW_TAG_subprogram)"), 3, "{dump}");
        for (die, origin) in [("<c>", "<0xc>"), ("<22>", "<0x38>"), ("<38>", "<0x22>")] {
            assert!(dump.contains(die) && dump.contains(origin), "{dump}");
        }
    }

    #[test]
    fn functions_in_a_cycle_are_read_by_binutils() {
        for kind in [Cyclic::Nameless, Cyclic::Named, Cyclic::WithoutCode] {
            let dump = dump(&cyclic_dies(&sound(), 5, kind));
            assert_eq!(dump.matches("(DW_TAG_subprogram)").count(), 5, "{dump}");
            assert!(dump.contains("<0xc>"), "{dump}");
        }
    }

    #[test]
    fn each_level_doubles_the_demangled_name() {
        let demangled = |levels| {
            let mut filter = Command::new(tools::CXXFILT.path());
            run::succeed(filter.arg(doubling_name("f", levels))).text()
        };
        assert_eq!(
            demangled(1).trim(),
            "f(P<int, int>, P<P<int, int>, P<int, int> >)"
        );
        let (ten, eleven) = (demangled(10).len(), demangled(11).len());
        assert!(eleven > ten * 19 / 10, "{ten} {eleven}");
        assert!(demangling_bombs(1).len() < 64 << 10);
    }
}
