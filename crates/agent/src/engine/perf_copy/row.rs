//! Steps that framehop does not take, or takes for something else: rules with expressions that read the stack (signal
//! frames, realigned stacks), frames of more than 512 KiB, and the end of a stack, which it does not tell from a failure.
//!
//! Where framehop cannot follow a rule it follows frame pointers instead and remembers that, so that such rules never
//! come to it.

use gimli::{
    CfaRule, Encoding, EndianSlice, EvaluationResult, Expression, LittleEndian, Register,
    RegisterRule, Value,
};

use super::arch::{self, Registers};

/// Steps of an expression: the longest of compilers and libraries have a dozen.
const EXPRESSION_STEPS_MAX: u32 = 64;

type Rule = RegisterRule<usize>;

/// How to leave a function at some address of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Nothing is said about it.
    Unknown,
    /// There is no caller.
    Root,
    /// In one of the common ways, which framehop follows and remembers.
    ByFramehop,
    /// By the rules of the row alone.
    ByRow,
}

/// What unwind information says at one address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) frame_address: &'a CfaRule<usize>,
    pub(super) frame_pointer: Option<&'a Rule>,
    pub(super) returns_to: Option<&'a Rule>,
    /// The section that expressions are in.
    pub(super) section: &'a [u8],
    pub(super) encoding: Encoding,
}

impl Row<'_> {
    pub(super) fn how(&self) -> How {
        let is_lost = match self.returns_to {
            Some(RegisterRule::Undefined) => true,
            // Where calls put it into a register, functions that leave it there say nothing.
            None => cfg!(target_arch = "x86_64"),
            Some(_) => false,
        };
        if is_lost {
            return How::Root;
        }
        if self.is_common() {
            How::ByFramehop
        } else {
            How::ByRow
        }
    }

    /// Whether framehop has a rule of its own for it.
    fn is_common(&self) -> bool {
        let CfaRule::RegisterAndOffset { register, offset } = *self.frame_address else {
            return false;
        };
        // `Some(None)` is that it is where it was.
        let slot = |rule: Option<&Rule>| match rule {
            None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => Some(None),
            Some(&RegisterRule::Offset(slot)) => Some(Some(slot)),
            Some(_) => None,
        };
        let (Some(frame_pointer), Some(returns_to)) =
            (slot(self.frame_pointer), slot(self.returns_to))
        else {
            return false;
        };
        let is_near = |slot: Option<i64>| {
            let above = slot.map_or(Some(0), |slot| offset.checked_add(slot));
            above.is_some_and(|above| above % 8 == 0 && i16::try_from(above / 8).is_ok())
        };
        let is_small =
            offset % 8 == 0 && u16::try_from(offset / 8).is_ok() && is_near(frame_pointer);
        if cfg!(target_arch = "x86_64") {
            let by_frame_pointer = offset == 16 && frame_pointer == Some(-16);
            let is_usual =
                register == arch::STACK && is_small || register == arch::FRAME && by_frame_pointer;
            return is_usual && returns_to == Some(-8);
        }
        let is_small = is_small && offset % 16 == 0 && is_near(returns_to);
        let is_usual = match (frame_pointer, returns_to) {
            (None, _) => register == arch::STACK,
            (Some(_), None) => false,
            (Some(_), Some(_)) => register == arch::STACK || register == arch::FRAME,
        };
        is_small && is_usual
    }

    /// Sets the registers of the caller; says where it goes on. `None` if a rule cannot be followed or the stack cannot
    /// be read.
    pub(super) fn step(
        &self,
        registers: &mut Registers,
        read: &mut dyn FnMut(u64) -> Result<u64, ()>,
    ) -> Option<u64> {
        let before = *registers;
        let frame_address = match *self.frame_address {
            CfaRule::RegisterAndOffset { register, offset } => {
                arch::value(&before, register)?.checked_add_signed(offset)?
            }
            CfaRule::Expression(ref place) => {
                let code = self.code(place.offset, place.length)?;
                evaluated(code, self.encoding, None, &before, read)?
            }
        };
        let frame = self.restored(
            self.frame_pointer,
            arch::FRAME,
            frame_address,
            &before,
            read,
        )?;
        let returns_to =
            self.restored(self.returns_to, arch::RETURN, frame_address, &before, read)?;
        Some(arch::set_caller(
            registers,
            frame,
            frame_address,
            returns_to,
        ))
    }

    fn restored(
        &self,
        rule: Option<&Rule>,
        register: Register,
        frame_address: u64,
        before: &Registers,
        read: &mut dyn FnMut(u64) -> Result<u64, ()>,
    ) -> Option<u64> {
        let evaluate = |offset, length, read: &mut dyn FnMut(u64) -> Result<u64, ()>| {
            let code = self.code(offset, length)?;
            evaluated(code, self.encoding, Some(frame_address), before, read)
        };
        match rule {
            None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => {
                arch::value(before, register)
            }
            Some(&RegisterRule::Offset(offset)) => {
                let slot = frame_address.checked_add_signed(offset)?;
                if slot < before.sp() && register == arch::FRAME {
                    // Compilers keep the rule after the register was popped: its value is there already.
                    return arch::value(before, register);
                }
                read(slot).ok()
            }
            Some(&RegisterRule::ValOffset(offset)) => frame_address.checked_add_signed(offset),
            Some(&RegisterRule::Register(other)) => arch::value(before, other),
            Some(RegisterRule::Expression(place)) => {
                let slot = evaluate(place.offset, place.length, read)?;
                read(slot).ok()
            }
            Some(RegisterRule::ValExpression(place)) => evaluate(place.offset, place.length, read),
            Some(&RegisterRule::Constant(value)) => Some(value),
            Some(_) => None,
        }
    }

    fn code(
        &self,
        offset: usize,
        length: usize,
    ) -> Option<Expression<EndianSlice<'_, LittleEndian>>> {
        let bytes = self.section.get(offset..offset.checked_add(length)?)?;
        Some(Expression(EndianSlice::new(bytes, LittleEndian)))
    }
}

/// The value of an expression. Those of registers begin with the address of the frame.
fn evaluated(
    code: Expression<EndianSlice<'_, LittleEndian>>,
    encoding: Encoding,
    frame_address: Option<u64>,
    registers: &Registers,
    read: &mut dyn FnMut(u64) -> Result<u64, ()>,
) -> Option<u64> {
    let mut evaluation = code.evaluation(encoding);
    evaluation.set_max_iterations(EXPRESSION_STEPS_MAX);
    if let Some(frame_address) = frame_address {
        evaluation.set_initial_value(frame_address);
    }
    let mut result = evaluation.evaluate().ok()?;
    loop {
        result = match result {
            EvaluationResult::Complete => return evaluation.value_result()?.to_u64(u64::MAX).ok(),
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = arch::value(registers, register)?;
                evaluation
                    .resume_with_register(Value::Generic(value))
                    .ok()?
            }
            EvaluationResult::RequiresMemory {
                address,
                size: 8,
                space: None,
                ..
            } => evaluation
                .resume_with_memory(Value::Generic(read(address).ok()?))
                .ok()?,
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENCODING: Encoding = Encoding {
        address_size: 8,
        format: gimli::Format::Dwarf32,
        version: 1,
    };

    fn row<'a>(
        cfa: &'a CfaRule<usize>,
        frame: Option<&'a Rule>,
        returns: Option<&'a Rule>,
        section: &'a [u8],
    ) -> Row<'a> {
        Row {
            frame_address: cfa,
            frame_pointer: frame,
            returns_to: returns,
            section,
            encoding: ENCODING,
        }
    }

    fn by_stack(offset: i64) -> CfaRule<usize> {
        CfaRule::RegisterAndOffset {
            register: arch::STACK,
            offset,
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn what_framehop_follows_comes_to_it_and_the_rest_does_not() {
        let returns = RegisterRule::Offset(-8);
        let how = |cfa: &CfaRule<usize>, frame: Option<&Rule>, returns| {
            row(cfa, frame, returns, &[]).how()
        };
        let usual = Some(&returns);
        assert_eq!(how(&by_stack(16), None, usual), How::ByFramehop);
        assert_eq!(how(&by_stack(65_535 * 8), None, usual), How::ByFramehop);
        assert_eq!(how(&by_stack(65_536 * 8), None, usual), How::ByRow);
        assert_eq!(how(&by_stack(12), None, usual), How::ByRow);
        let saved = RegisterRule::Offset(-16);
        assert_eq!(how(&by_stack(16), Some(&saved), usual), How::ByFramehop);
        assert_eq!(how(&by_stack(65_535 * 8), Some(&saved), usual), How::ByRow);
        let by_frame = |offset| CfaRule::RegisterAndOffset {
            register: arch::FRAME,
            offset,
        };
        assert_eq!(how(&by_frame(16), Some(&saved), usual), How::ByFramehop);
        assert_eq!(how(&by_frame(32), Some(&saved), usual), How::ByRow);
        assert_eq!(
            how(&by_stack(16), None, Some(&RegisterRule::Undefined)),
            How::Root
        );
        assert_eq!(how(&by_stack(16), None, None), How::Root);
        let expression = gimli::UnwindExpression {
            offset: 0,
            length: 0,
        };
        assert_eq!(
            how(&CfaRule::Expression(expression), None, usual),
            How::ByRow
        );
        assert_eq!(
            how(
                &by_stack(16),
                Some(&RegisterRule::Expression(expression)),
                usual
            ),
            How::ByRow
        );
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_frame_beyond_framehops_reach_and_one_of_a_signal_are_left_by_their_rows() {
        let mut read = |address: u64| match address {
            0x10_0ff8 => Ok(0x1234),
            0x1160 => Ok(0x7777_0000),
            0x1168 => Ok(0x5678),
            0x1150 => Ok(0x9999),
            _ => Err(()),
        };
        let start = Registers::new(0x40, 0x1000, 0xf00);
        let returns = RegisterRule::Offset(-8);
        let mut registers = start;
        let large = by_stack(0x10_0000);
        let to = row(&large, None, Some(&returns), &[]).step(&mut registers, &mut read);
        assert_eq!(
            (to, registers.sp(), registers.bp()),
            (Some(0x1234), 0x10_1000, 0xf00)
        );

        // DW_OP_breg7 352; DW_OP_deref, then DW_OP_breg7 360, then DW_OP_breg7 336.
        let section = [0x77, 0xe0, 2, 6, 0x77, 0xe8, 2, 0x77, 0xd0, 2];
        let place = |offset, length| gimli::UnwindExpression { offset, length };
        let cfa = CfaRule::Expression(place(0, 4));
        let (returns, frame) = (
            RegisterRule::Expression(place(4, 3)),
            RegisterRule::Expression(place(7, 3)),
        );
        let mut registers = start;
        let to = row(&cfa, Some(&frame), Some(&returns), &section).step(&mut registers, &mut read);
        assert_eq!(
            (to, registers.sp(), registers.bp()),
            (Some(0x5678), 0x7777_0000, 0x9999)
        );

        let beyond = by_stack(0x20_0000);
        let returns = RegisterRule::Offset(-8);
        assert_eq!(
            row(&beyond, None, Some(&returns), &[]).step(&mut registers, &mut read),
            None
        );
        let outside = CfaRule::Expression(place(9, 40));
        assert_eq!(
            row(&outside, None, Some(&returns), &section).step(&mut registers, &mut read),
            None
        );
    }

    #[test]
    fn an_expression_without_end_is_given_up() {
        // DW_OP_lit0; DW_OP_skip -4: for ever.
        let section = [0x30, 0x2f, 0xfc, 0xff];
        let cfa = CfaRule::Expression(gimli::UnwindExpression {
            offset: 0,
            length: 4,
        });
        let mut registers = Registers::new(0x40, 0x1000, 0xf00);
        let step = row(&cfa, None, Some(&RegisterRule::Offset(-8)), &section)
            .step(&mut registers, &mut |_| Ok(0));
        assert_eq!(step, None);
    }
}
