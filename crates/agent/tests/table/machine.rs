//! What a rule does to registers, by its documentation alone: memory here is a function of the address.

use unhex_agent::table::{FramePointer, Rule};

/// The registers that stacks need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    pub(crate) address: u64,
    pub(crate) stack: u64,
    pub(crate) frame: Option<u64>,
}

impl Registers {
    pub(crate) fn with_frame_of(self, other: Self) -> Self {
        Self {
            frame: other.frame,
            ..self
        }
    }
}

/// What came out of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Registers(Registers),
    None,
    Unknown,
    Gap,
}

/// What lies at an address: every one has another, so that a wrong slot is seen.
pub(crate) fn memory(address: u64) -> u64 {
    let mixed = (address ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 31)) | 1
}

/// The caller by a rule.
pub(crate) fn caller(rule: Rule, at: Registers) -> Caller {
    let frame = at.frame.expect("a machine that runs has all registers");
    let on = |register: u64, words: i64| register.wrapping_add_signed(words * 8);
    let (base, rbp) = match rule {
        Rule::Gap => return Caller::Gap,
        Rule::End => return Caller::None,
        Rule::Unsupported => return Caller::Unknown,
        Rule::StackPointer { words, rbp } => (on(at.stack, words.into()), rbp),
        Rule::FramePointer { words, rbp } => (on(frame, words.into()), rbp),
        Rule::Plt { pushed_from } => {
            let is_pushed = at.address & 15 >= u64::from(pushed_from);
            (
                on(at.stack, if is_pushed { 2 } else { 1 }),
                FramePointer::Kept,
            )
        }
        Rule::StackSlot { words, add, rbp } => {
            (on(memory(on(at.stack, words.into())), add.into()), rbp)
        }
        Rule::FrameSlot { words, add, rbp } => {
            (on(memory(on(frame, words.into())), add.into()), rbp)
        }
        Rule::SignalFrame { words } => {
            let saved = |more: i64| memory(on(at.stack, i64::from(words) + more));
            return Caller::Registers(Registers {
                frame: Some(saved(0)),
                stack: saved(5),
                address: saved(6),
            });
        }
    };
    Caller::Registers(Registers {
        address: memory(on(base, -1)),
        stack: base,
        frame: match rbp {
            FramePointer::Kept => Some(frame),
            FramePointer::AtRbp => Some(memory(frame)),
            FramePointer::BelowBase(words) => Some(memory(on(base, -i64::from(words)))),
            FramePointer::Unknown => None,
        },
    })
}
