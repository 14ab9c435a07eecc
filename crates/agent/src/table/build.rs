//! From `.eh_frame` to rows: every entry is run once, its rules put into words, sorted and merged.

use std::ops::Range;

use gimli::{
    BaseAddresses, CieOrFde, EhFrame, EndianSlice, FrameDescriptionEntry, LittleEndian,
    UnwindContext, UnwindSection, UnwindTableRow,
};
use rustc_hash::FxHashMap;

use super::rule::{FramePointer, Rule, Word, words};
use super::{Row, TableError, UnwindTable};

type Reader<'a> = EndianSlice<'a, LittleEndian>;
type RegisterRule = gimli::RegisterRule<usize>;

/// System V ABI for x86-64, figure 3.36: DWARF's numbers of registers.
const RBP: gimli::Register = gimli::X86_64::RBP;
const RSP: gimli::Register = gimli::X86_64::RSP;
const RETURN_ADDRESS: gimli::Register = gimli::X86_64::RA;

/// Instructions of a common information entry, in bytes: they are run again for each function, and compilers write ten.
const CIE_INSTRUCTION_BYTES_MAX: usize = 1024;
/// Rows of one binary, before neighbours are merged: a compiler with all of its back ends has 2 million, at 8 bytes.
const ROWS_OF_BINARY_MAX: usize = 32 << 20;
/// Steps of an unwind expression that are looked at: the longest that is followed has nine.
const EXPRESSION_STEPS_MAX: usize = 16;

/// Bytes between two functions that are no code but padding, so that each begins at a multiple of 16. Nothing runs
/// there, and without rows for it, tables are a tenth shorter.
const PADDING_BYTES_MAX: u32 = 15;

/// Bytes of the entries of a procedure linkage table.
const PLT_ENTRY_LAST_BYTE: u64 = 15;

/// An `.eh_frame` section and where things lie that it may count from.
#[derive(Clone, Debug)]
pub struct EhFrameSection<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its link address.
    pub address: u64,
    /// The link address of `.eh_frame_hdr`, 0 if there is none.
    pub header_address: u64,
    /// Link addresses of executable segments: code elsewhere was left out by the linker.
    pub code: Vec<Range<u64>>,
    /// What rows count from: the lowest link address of the binary.
    pub base: u64,
}

impl UnwindTable {
    /// The rules of a binary, from its `.eh_frame`.
    ///
    /// Costs about 0.2 s for a million rows, and 20 bytes of memory for each while it runs.
    ///
    /// # Errors
    /// If there are more rows than a binary may have. Entries that are damaged are counted.
    pub fn build(section: &EhFrameSection<'_>) -> Result<Self, TableError> {
        let mut building = Building::default();
        building.entries(section)?;
        Ok(building.finish(section.base))
    }
}

#[derive(Default)]
struct Building {
    /// In the order of the file; [`Word::GAP`] ends a function.
    rows: Vec<Row>,
    skipped: u64,
    damaged: u64,
}

impl Building {
    fn entries(&mut self, section: &EhFrameSection<'_>) -> Result<(), TableError> {
        let frames = EhFrame::from(EndianSlice::new(section.bytes, LittleEndian));
        let bases = BaseAddresses::default()
            .set_eh_frame(section.address)
            .set_eh_frame_hdr(section.header_address);
        let mut context = UnwindContext::new();
        let mut cies = FxHashMap::default();
        let mut entries = frames.entries(&bases);
        // An entry whose length is damaged hides all that follow: what came before is good.
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else {
                continue;
            };
            let fde = partial.parse(|frames, bases, offset| {
                let known = cies.entry(offset.0);
                let cie = known.or_insert_with(|| frames.cie_from_offset(bases, offset));
                cie.clone()
            });
            let range = fde.as_ref().ok().and_then(|fde| covered(fde, section));
            let (Ok(fde), Some(range)) = (fde, range) else {
                self.skipped += 1;
                continue;
            };
            self.function(&fde, &range, (&frames, &bases, &mut context));
            if self.rows.len() > ROWS_OF_BINARY_MAX {
                return Err(TableError::TooLarge {
                    what: "rows of unwind information",
                    max: u64::try_from(ROWS_OF_BINARY_MAX).unwrap_or(u64::MAX),
                });
            }
        }
        Ok(())
    }

    /// The rows of one function at the addresses `range`, which are relative to the base; from an instruction on that
    /// makes no sense, as hand-written ones do not always, nothing is followed.
    fn function(
        &mut self,
        fde: &FrameDescriptionEntry<Reader<'_>>,
        range: &Range<u32>,
        (frames, bases, context): (
            &EhFrame<Reader<'_>>,
            &BaseAddresses,
            &mut UnwindContext<usize>,
        ),
    ) {
        let relative = |address: u64| {
            let within = u32::try_from(address.wrapping_sub(fde.initial_address())).ok()?;
            range.start.checked_add(within)
        };
        let mut reached = Some(range.start);
        let mut run = || {
            let mut table = fde.rows(frames, bases, context)?;
            while let Some(row) = table.next_row()? {
                let address = relative(row.start_address());
                reached = relative(row.end_address());
                if let Some(address) = address.filter(|address| range.contains(address)) {
                    let word = rule_of(frames, row, fde.is_signal_trampoline()).word();
                    self.rows.push(Row { address, word });
                }
            }
            Ok::<_, gimli::Error>(())
        };
        if run().is_err() {
            self.damaged += 1;
            if let Some(address) = reached.filter(|address| range.contains(address)) {
                let word = Word::UNSUPPORTED;
                self.rows.push(Row { address, word });
            }
        }
        self.rows.push(Row {
            address: range.end,
            word: Word::GAP,
        });
    }

    fn finish(mut self, base: u64) -> UnwindTable {
        // The end of a function gives way to the function that begins there; of rows at one address the last one is in force,
        // as after DW_CFA_restore_state.
        self.rows
            .sort_by_key(|row| (row.address, row.word != Word::GAP));
        let mut rows: Vec<Row> = Vec::with_capacity(self.rows.len() / 2);
        let mut all = self.rows.iter().peekable();
        while let Some(row) = all.next() {
            let next = all
                .peek()
                .map(|next| next.address.saturating_sub(row.address));
            let is_overruled = next.is_some_and(|bytes| {
                bytes == 0 || (row.word == Word::GAP && bytes <= PADDING_BYTES_MAX)
            });
            let is_repeated = rows.last().is_some_and(|last| last.word == row.word);
            if !is_overruled && !is_repeated {
                rows.push(*row);
            }
        }
        rows.shrink_to_fit();
        let next = rows.iter().skip(1);
        let covered = rows
            .iter()
            .zip(next)
            .filter(|(row, _)| row.word != Word::GAP);
        let covered_bytes = covered
            .map(|(row, next)| u64::from(next.address.saturating_sub(row.address)))
            .sum();
        UnwindTable {
            base,
            rows,
            covered_bytes,
            skipped: self.skipped,
            damaged: self.damaged,
        }
    }
}

/// The addresses of a function, relative to the base, if they are those of code and can be described in time.
fn covered(
    fde: &FrameDescriptionEntry<Reader<'_>>,
    section: &EhFrameSection<'_>,
) -> Option<Range<u32>> {
    if fde.cie().entry_len() > CIE_INSTRUCTION_BYTES_MAX {
        return None;
    }
    let start = fde.initial_address();
    let end = start.checked_add(fde.len())?;
    let is_code = |code: &Range<u64>| code.start <= start && start < end && end <= code.end;
    if !section.code.iter().any(is_code) {
        return None;
    }
    let relative = |address: u64| u32::try_from(address.checked_sub(section.base)?).ok();
    Some(relative(start)?..relative(end)?)
}

/// What a row of gimli's says, as a rule.
fn rule_of(
    frames: &EhFrame<Reader<'_>>,
    row: &UnwindTableRow<usize>,
    is_signal_frame: bool,
) -> Rule {
    let return_address = row.register(RETURN_ADDRESS);
    if matches!(return_address, Some(RegisterRule::Undefined)) {
        return Rule::End;
    }
    let expressions = Expressions { frames };
    if is_signal_frame {
        return expressions.signal_frame(row).unwrap_or(Rule::Unsupported);
    }
    if !matches!(return_address, Some(RegisterRule::Offset(-8))) {
        return Rule::Unsupported;
    }
    let rbp = expressions.frame_pointer(row.register(RBP).as_ref());
    let fit = |offset: i64| words(offset).and_then(|words| i32::try_from(words).ok());
    let rule = match *row.cfa() {
        gimli::CfaRule::RegisterAndOffset { register, offset } => match (register, fit(offset)) {
            (RSP, Some(words)) => Some(Rule::StackPointer { words, rbp }),
            (RBP, Some(words)) => Some(Rule::FramePointer { words, rbp }),
            _ => None,
        },
        gimli::CfaRule::Expression(expression) => expressions.base(expression, rbp),
    };
    rule.unwrap_or(Rule::Unsupported)
}

/// Reads those expressions that are followed.
struct Expressions<'a, 'b> {
    frames: &'a EhFrame<Reader<'b>>,
}

/// What an expression says, if it is one that is followed.
#[derive(Clone, Copy)]
enum Meaning {
    /// The slot at a register and so many bytes, and bytes to be added to what it has.
    Slot(gimli::Register, i64, u64),
    /// A register and so many bytes.
    Address(gimli::Register, i64),
    /// The expression that linkers write for the procedure linkage table.
    Plt(u8),
}

impl Expressions<'_, '_> {
    fn meaning(&self, expression: gimli::UnwindExpression<usize>) -> Option<Meaning> {
        use gimli::Operation as Op;
        let encoding = gimli::Encoding {
            address_size: 8,
            format: gimli::Format::Dwarf32,
            version: 4,
        };
        let expression = expression.get(self.frames).ok()?;
        let mut operations = expression.operations(encoding);
        let mut steps = Vec::new();
        while let Some(step) = operations.next().ok()? {
            if steps.len() >= EXPRESSION_STEPS_MAX {
                return None;
            }
            steps.push(step);
        }
        match *steps.as_slice() {
            [
                Op::RegisterOffset {
                    register, offset, ..
                },
            ] => Some(Meaning::Address(register, offset)),
            [
                Op::RegisterOffset {
                    register, offset, ..
                },
                Op::Deref {
                    size: 8,
                    space: false,
                    ..
                },
            ] => Some(Meaning::Slot(register, offset, 0)),
            [
                Op::RegisterOffset {
                    register, offset, ..
                },
                Op::Deref {
                    size: 8,
                    space: false,
                    ..
                },
                Op::PlusConstant { value },
            ] => Some(Meaning::Slot(register, offset, value)),
            [
                Op::RegisterOffset {
                    register: RSP,
                    offset: 8,
                    ..
                },
                Op::RegisterOffset {
                    register: RETURN_ADDRESS,
                    offset: 0,
                    ..
                },
                Op::UnsignedConstant {
                    value: PLT_ENTRY_LAST_BYTE,
                },
                Op::And,
                Op::UnsignedConstant { value },
                Op::Ge,
                Op::UnsignedConstant { value: 3 },
                Op::Shl,
                Op::Plus,
            ] if value <= PLT_ENTRY_LAST_BYTE => u8::try_from(value).ok().map(Meaning::Plt),
            _ => None,
        }
    }

    /// The frame's base by an expression.
    fn base(&self, expression: gimli::UnwindExpression<usize>, rbp: FramePointer) -> Option<Rule> {
        match self.meaning(expression)? {
            Meaning::Plt(pushed_from) if rbp == FramePointer::Kept => {
                Some(Rule::Plt { pushed_from })
            }
            Meaning::Slot(RSP, offset, add) => Some(Rule::StackSlot {
                words: u16::try_from(words(offset)?).ok()?,
                add: u8::try_from(words(i64::try_from(add).ok()?)?).ok()?,
                rbp,
            }),
            Meaning::Slot(RBP, offset, add) => Some(Rule::FrameSlot {
                words: i16::try_from(words(offset)?).ok()?,
                add: u8::try_from(words(i64::try_from(add).ok()?)?).ok()?,
                rbp,
            }),
            _ => None,
        }
    }

    fn frame_pointer(&self, rule: Option<&RegisterRule>) -> FramePointer {
        match rule {
            None | Some(RegisterRule::SameValue) => FramePointer::Kept,
            Some(RegisterRule::Offset(offset)) => words(*offset)
                .and_then(|words| u8::try_from(words.checked_neg()?).ok())
                .filter(|below| (1..=128).contains(below))
                .map_or(FramePointer::Unknown, FramePointer::BelowBase),
            Some(RegisterRule::Expression(expression)) => match self.meaning(*expression) {
                Some(Meaning::Address(RBP, 0)) => FramePointer::AtRbp,
                _ => FramePointer::Unknown,
            },
            Some(_) => FramePointer::Unknown,
        }
    }

    /// The frame that the kernel pushes for a signal handler: `rbp`, `rsp` and the address as they lie in `struct
    /// sigcontext` of the kernel's `asm/sigcontext.h`.
    fn signal_frame(&self, row: &UnwindTableRow<usize>) -> Option<Rule> {
        let saved = |rule: Option<RegisterRule>| match rule? {
            RegisterRule::Expression(expression) => match self.meaning(expression)? {
                Meaning::Address(RSP, offset) => Some(offset),
                _ => None,
            },
            _ => None,
        };
        let rbp = saved(row.register(RBP))?;
        let address = saved(row.register(RETURN_ADDRESS))?;
        let gimli::CfaRule::Expression(base) = *row.cfa() else {
            return None;
        };
        let Meaning::Slot(RSP, rsp, 0) = self.meaning(base)? else {
            return None;
        };
        let is_sigcontext = rsp.checked_sub(rbp)? == 40 && address.checked_sub(rbp)? == 48;
        let words = u16::try_from(words(rbp)?).ok()?;
        is_sigcontext.then_some(Rule::SignalFrame { words })
    }
}
