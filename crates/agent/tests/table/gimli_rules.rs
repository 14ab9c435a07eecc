//! The oracle: every row that gimli makes of a file, run by gimli's own evaluator, beside the table at the row's borders.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, EvaluationResult, LittleEndian,
    Location, RegisterRule, UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow, Value,
    X86_64,
};
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};
use unhex_agent::table::{EhFrameSection, UnwindTable};
use unhex_symbols::address::LinkAddress;

use crate::machine::{Caller, Registers, caller, memory};

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// What was compared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Compared {
    pub(crate) files: u64,
    pub(crate) rows: u64,
    /// Rows of gimli's.
    pub(crate) gimli_rows: u64,
    pub(crate) addresses: u64,
    /// Addresses at which the table says "unsupported", of all or of `rbp`, though gimli's evaluator has an answer.
    pub(crate) unsupported: u64,
    /// Addresses that two functions claim.
    pub(crate) claimed_twice: u64,
}

impl Compared {
    pub(crate) fn add(&mut self, other: Self) {
        self.files += other.files;
        self.rows += other.rows;
        self.gimli_rows += other.gimli_rows;
        self.addresses += other.addresses;
        self.unsupported += other.unsupported;
        self.claimed_twice += other.claimed_twice;
    }
}

/// The parts of a file that tables are made of.
pub(crate) struct Parts {
    bytes: Vec<u8>,
    address: u64,
    header_address: u64,
    code: Vec<Range<u64>>,
    base: u64,
}

impl Parts {
    /// `None` for what is no x86-64 ELF file with unwind information.
    pub(crate) fn of(file: &[u8]) -> Option<Self> {
        let file = object::File::parse(file).ok()?;
        if file.architecture() != object::Architecture::X86_64 || !file.is_64() {
            return None;
        }
        let section = file.section_by_name(".eh_frame")?;
        let is_code =
            |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & 1 != 0);
        let segments = file.segments().filter(|segment| is_code(segment.flags()));
        Some(Self {
            bytes: section.uncompressed_data().ok()?.into_owned(),
            address: section.address(),
            header_address: file
                .section_by_name(".eh_frame_hdr")
                .map_or(0, |header| header.address()),
            code: segments
                .map(|segment| segment.address()..segment.address() + segment.size())
                .collect(),
            base: file.segments().map(|segment| segment.address()).min()?,
        })
    }

    pub(crate) fn section(&self) -> EhFrameSection<'_> {
        EhFrameSection {
            bytes: &self.bytes,
            address: self.address,
            header_address: self.header_address,
            code: self.code.clone(),
            base: self.base,
        }
    }

    pub(crate) fn table(&self) -> UnwindTable {
        UnwindTable::build(&self.section()).expect("a table")
    }
}

/// Compares a table with gimli at the first, second and last address of each of gimli's rows.
pub(crate) fn compare(path: &Path, parts: &Parts, table: &UnwindTable) -> Compared {
    let frames = EhFrame::from(EndianSlice::new(&parts.bytes, LittleEndian));
    let bases = BaseAddresses::default()
        .set_eh_frame(parts.address)
        .set_eh_frame_hdr(parts.header_address);
    let claims = claims(&frames, &bases, parts);
    let mut compared = Compared {
        files: 1,
        rows: table.rows().len().try_into().expect("a count"),
        ..Compared::default()
    };
    let mut context = UnwindContext::new();
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else {
            continue;
        };
        let function = fde.initial_address()..fde.end_address();
        if claims.get(&function.start) != Some(&Some(function.end)) {
            compared.claimed_twice += 1;
            continue;
        }
        let Ok(mut rows) = fde.rows(&frames, &bases, &mut context) else {
            continue;
        };
        while let Ok(Some(row)) = rows.next_row() {
            let row = row.clone();
            let (start, end) = (row.start_address(), row.end_address().min(function.end));
            compared.gimli_rows += 1;
            let borders = [start, start + 1, end.saturating_sub(1)];
            for address in borders.into_iter().filter(|at| (start..end).contains(at)) {
                compared.addresses += 1;
                let rule = table.rule_at(LinkAddress(address));
                let at = Registers {
                    address,
                    stack: 0x7ff0_1234_5670,
                    frame: Some(0x7ff0_4321_0ab0),
                };
                let ours = caller(rule, at);
                let gimlis = step(&frames, &row, at);
                if said_less(ours, gimlis) {
                    compared.unsupported += 1;
                    continue;
                }
                assert_eq!(
                    ours,
                    gimlis,
                    "{}: at {address:#x} the table has {rule:?}, gimli {row:?}",
                    path.display()
                );
            }
        }
    }
    compared
}

/// Whether a table says "unsupported" of something that gimli's evaluator can do: less, but not wrong.
fn said_less(ours: Caller, gimlis: Caller) -> bool {
    match (ours, gimlis) {
        (Caller::Unknown, gimlis) => gimlis != Caller::Unknown,
        (Caller::Registers(ours), Caller::Registers(gimlis)) => {
            ours.frame.is_none() && gimlis.frame.is_some() && ours.with_frame_of(gimlis) == gimlis
        }
        _ => false,
    }
}

/// From the start of each function to its end; `None` where another one lies over it.
fn claims(
    frames: &EhFrame<Reader<'_>>,
    bases: &BaseAddresses,
    parts: &Parts,
) -> BTreeMap<u64, Option<u64>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    let mut entries = frames.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else {
            continue;
        };
        let function = fde.initial_address()..fde.initial_address().saturating_add(fde.len());
        let is_inside =
            |code: &Range<u64>| code.start <= function.start && function.end <= code.end;
        if parts.code.iter().any(is_inside) && !function.is_empty() {
            all.push(function);
        }
    }
    all.sort_by_key(|function| (function.start, function.end));
    let mut claims = BTreeMap::new();
    let mut reached = 0;
    for (place, function) in all.iter().enumerate() {
        let next = all.get(place + 1).map_or(u64::MAX, |next| next.start);
        let is_alone = reached <= function.start && function.end <= next;
        claims.insert(function.start, is_alone.then_some(function.end));
        reached = reached.max(function.end);
    }
    claims
}

/// The caller by gimli; unknown where it needs a register that nobody follows.
fn step(frames: &EhFrame<Reader<'_>>, row: &UnwindTableRow<usize>, at: Registers) -> Caller {
    let return_address = row.register(X86_64::RA);
    if matches!(return_address, Some(RegisterRule::Undefined)) {
        return Caller::None;
    }
    let base = match *row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            register_of(at, register).map(|value| value.wrapping_add_signed(offset))
        }
        CfaRule::Expression(expression) => evaluate(frames, expression, at, None),
    };
    let Some(base) = base else {
        return Caller::Unknown;
    };
    let value = |rule: Option<RegisterRule<usize>>, kept: Option<u64>| match rule {
        None | Some(RegisterRule::SameValue) => kept,
        Some(RegisterRule::Offset(offset)) => Some(memory(base.wrapping_add_signed(offset))),
        Some(RegisterRule::ValOffset(offset)) => Some(base.wrapping_add_signed(offset)),
        Some(RegisterRule::Expression(expression)) => {
            evaluate(frames, expression, at, Some(base)).map(memory)
        }
        _ => None,
    };
    let Some(address) = value(return_address, None) else {
        return Caller::Unknown;
    };
    Caller::Registers(Registers {
        address,
        stack: base,
        frame: value(row.register(X86_64::RBP), at.frame),
    })
}

fn register_of(at: Registers, register: gimli::Register) -> Option<u64> {
    match register {
        X86_64::RSP => Some(at.stack),
        X86_64::RBP => at.frame,
        X86_64::RA => Some(at.address),
        _ => None,
    }
}

fn evaluate(
    frames: &EhFrame<Reader<'_>>,
    expression: UnwindExpression<usize>,
    at: Registers,
    base: Option<u64>,
) -> Option<u64> {
    let encoding = gimli::Encoding {
        address_size: 8,
        format: gimli::Format::Dwarf32,
        version: 4,
    };
    let mut evaluation = expression.get(frames).ok()?.evaluation(encoding);
    if let Some(base) = base {
        evaluation.set_initial_value(base);
    }
    let mut result = evaluation.evaluate().ok()?;
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = register_of(at, register)?;
                evaluation
                    .resume_with_register(Value::Generic(value))
                    .ok()?
            }
            EvaluationResult::RequiresMemory {
                address, size: 8, ..
            } => evaluation
                .resume_with_memory(Value::Generic(memory(address)))
                .ok()?,
            _ => return None,
        };
    }
    match evaluation.as_result().last()?.location {
        Location::Address { address } => Some(address),
        _ => None,
    }
}
