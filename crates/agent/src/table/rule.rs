//! One rule in 32 bits: four bits of kind, eight of where `rbp` is, twenty of how to get the frame's base.
//!
//! The frame's base (canonical frame address, CFA) is what the stack pointer is in the caller after the call
//! returned. Offsets count words of 8 bytes, so that twenty bits reach 4 MiB either way: the main thread of rustc has a frame of
//! more than 256 KiB. `bpf/unwind.h` reads these words; its numbers are those of this file.

/// Bytes of a word of the stack; offsets of rules are multiples of it.
const WORD_BYTES: i64 = 8;

const KIND_GAP: u32 = 0;
const KIND_STACK_POINTER: u32 = 1;
const KIND_FRAME_POINTER: u32 = 2;
const KIND_PLT: u32 = 3;
const KIND_STACK_SLOT: u32 = 4;
const KIND_FRAME_SLOT: u32 = 5;
const KIND_SIGNAL_FRAME: u32 = 6;
const KIND_END: u32 = 7;
const KIND_UNSUPPORTED: u32 = 8;

const RBP_KEPT: i8 = 0;
const RBP_AT_RBP: i8 = 1;
const RBP_UNKNOWN: i8 = 127;

/// How to get from a frame to its caller.
///
/// The return address lies right below the frame's base, except in a signal frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Nothing is known.
    Gap,
    /// The base is the stack pointer and so many words.
    StackPointer {
        /// Words from `rsp` to the base.
        words: i32,
        /// The caller's `rbp`.
        rbp: FramePointer,
    },
    /// The base is `rbp` and so many words.
    FramePointer {
        /// Words from `rbp` to the base.
        words: i32,
        /// The caller's `rbp`.
        rbp: FramePointer,
    },
    /// A stub of the procedure linkage table: the base is one word above the stack pointer, and two from this byte
    /// of its 16 on, where it has pushed one.
    Plt {
        /// The first byte after the push.
        pushed_from: u8,
    },
    /// The base is in a slot of the stack, and some words on: after the stack was switched or aligned.
    StackSlot {
        /// Words from `rsp` to the slot.
        words: u16,
        /// Words from what the slot has to the base.
        add: u8,
        /// The caller's `rbp`.
        rbp: FramePointer,
    },
    /// As [`Rule::StackSlot`], with a slot below or above `rbp`.
    FrameSlot {
        /// Words from `rbp` to the slot.
        words: i16,
        /// Words from what the slot has to the base.
        add: u8,
        /// The caller's `rbp`.
        rbp: FramePointer,
    },
    /// What the kernel pushed before it called a signal handler: all registers of what was interrupted.
    SignalFrame {
        /// Words from `rsp` to the saved `rbp`; `rsp` is five words on, the address six.
        words: u16,
    },
    /// There is no caller: the outermost function of a thread.
    End,
    /// Described, but in a way that is not followed.
    Unsupported,
}

/// Where the caller's `rbp` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FramePointer {
    /// Still in `rbp`.
    Kept,
    /// In the stack, so many words below the frame's base, at least one.
    BelowBase(u8),
    /// In the slot that `rbp` points to.
    AtRbp,
    /// Lost.
    Unknown,
}

impl FramePointer {
    fn packed(self) -> Option<i8> {
        match self {
            Self::Kept => Some(RBP_KEPT),
            Self::AtRbp => Some(RBP_AT_RBP),
            Self::Unknown => Some(RBP_UNKNOWN),
            Self::BelowBase(0) => None,
            Self::BelowBase(words) => i8::try_from(-i16::from(words)).ok(),
        }
    }

    fn unpacked(packed: i8) -> Self {
        match packed {
            RBP_KEPT => Self::Kept,
            RBP_AT_RBP => Self::AtRbp,
            below if below < 0 => Self::BelowBase(below.unsigned_abs()),
            _ => Self::Unknown,
        }
    }
}

/// A [`Rule`] as the kernel program reads it; others read as [`Rule::Unsupported`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word(pub u32);

impl Word {
    /// Nothing is known.
    pub const GAP: Self = Self(KIND_GAP);
    /// There is no caller.
    pub const END: Self = Self(KIND_END);
    /// Described in a way that is not followed.
    pub const UNSUPPORTED: Self = Self(KIND_UNSUPPORTED);

    /// What it says.
    pub fn rule(self) -> Rule {
        let [low, high] = self.rbp_and_offset();
        let rbp = FramePointer::unpacked(i8::try_from(low).unwrap_or(RBP_UNKNOWN));
        let words = high;
        let slot = u16::try_from(high & 0xffff).unwrap_or(0);
        let add = u8::try_from((high >> 16) & 0xf).unwrap_or(0);
        match self.0 & 0xf {
            KIND_GAP => Rule::Gap,
            KIND_STACK_POINTER => Rule::StackPointer { words, rbp },
            KIND_FRAME_POINTER => Rule::FramePointer { words, rbp },
            KIND_PLT => Rule::Plt {
                pushed_from: u8::try_from(slot & 0xf).unwrap_or(0),
            },
            KIND_STACK_SLOT => Rule::StackSlot {
                words: slot,
                add,
                rbp,
            },
            KIND_FRAME_SLOT => Rule::FrameSlot {
                words: slot.cast_signed(),
                add,
                rbp,
            },
            KIND_SIGNAL_FRAME => Rule::SignalFrame { words: slot },
            KIND_END => Rule::End,
            _ => Rule::Unsupported,
        }
    }

    fn rbp_and_offset(self) -> [i32; 2] {
        let signed = self.0.cast_signed();
        [(signed << 20) >> 24, signed >> 12]
    }

    fn new(kind: u32, rbp: i8, offset: i32) -> Self {
        let rbp = u32::from(rbp.cast_unsigned());
        Self(kind | rbp << 4 | offset.cast_unsigned() << 12)
    }
}

impl Rule {
    /// The word for it; that of [`Rule::Unsupported`] where a figure does not fit.
    pub fn word(self) -> Word {
        self.packed().unwrap_or(Word::UNSUPPORTED)
    }

    fn packed(self) -> Option<Word> {
        let slot =
            |words: u16, add: u8| (add < 16).then(|| i32::from(words) | i32::from(add) << 16);
        let fits = |words: i32| ((words << 12) >> 12 == words).then_some(words);
        Some(match self {
            Self::Gap => Word::GAP,
            Self::End => Word::END,
            Self::Unsupported => Word::UNSUPPORTED,
            Self::StackPointer { words, rbp } => {
                Word::new(KIND_STACK_POINTER, rbp.packed()?, fits(words)?)
            }
            Self::FramePointer { words, rbp } => {
                Word::new(KIND_FRAME_POINTER, rbp.packed()?, fits(words)?)
            }
            Self::Plt { pushed_from } if pushed_from < 16 => {
                Word::new(KIND_PLT, RBP_KEPT, pushed_from.into())
            }
            Self::Plt { .. } => return None,
            Self::StackSlot { words, add, rbp } => {
                Word::new(KIND_STACK_SLOT, rbp.packed()?, slot(words, add)?)
            }
            Self::FrameSlot { words, add, rbp } => Word::new(
                KIND_FRAME_SLOT,
                rbp.packed()?,
                slot(words.cast_unsigned(), add)?,
            ),
            Self::SignalFrame { words } => Word::new(KIND_SIGNAL_FRAME, RBP_KEPT, words.into()),
        })
    }
}

/// An offset in words, if it is a whole number of them.
pub(super) fn words(bytes: i64) -> Option<i64> {
    (bytes % WORD_BYTES == 0).then_some(bytes / WORD_BYTES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rbp() -> impl Strategy<Value = FramePointer> {
        prop_oneof![
            Just(FramePointer::Kept),
            Just(FramePointer::AtRbp),
            Just(FramePointer::Unknown),
            (1..=128_u8).prop_map(FramePointer::BelowBase),
        ]
    }

    fn rule() -> impl Strategy<Value = Rule> {
        let words = -(1 << 19)..(1 << 19);
        prop_oneof![
            Just(Rule::Gap),
            Just(Rule::End),
            Just(Rule::Unsupported),
            (words.clone(), rbp()).prop_map(|(words, rbp)| Rule::StackPointer { words, rbp }),
            (words, rbp()).prop_map(|(words, rbp)| Rule::FramePointer { words, rbp }),
            (0..16_u8).prop_map(|pushed_from| Rule::Plt { pushed_from }),
            (any::<u16>(), 0..16_u8, rbp()).prop_map(|(words, add, rbp)| Rule::StackSlot {
                words,
                add,
                rbp
            }),
            (any::<i16>(), 0..16_u8, rbp()).prop_map(|(words, add, rbp)| Rule::FrameSlot {
                words,
                add,
                rbp
            }),
            any::<u16>().prop_map(|words| Rule::SignalFrame { words }),
        ]
    }

    proptest! {
        #[test]
        fn a_rule_that_fits_is_what_its_word_says(rule in rule()) {
            prop_assert_eq!(rule.word().rule(), rule);
        }

        #[test]
        fn every_word_says_something(word in any::<u32>()) {
            let rule = Word(word).rule();
            prop_assert_eq!(rule.word().rule(), rule);
        }
    }

    #[test]
    fn an_offset_that_does_not_fit_is_unsupported() {
        let rbp = FramePointer::Kept;
        for words in [1 << 19, -(1 << 19) - 1, i32::MAX, i32::MIN] {
            assert_eq!(Rule::StackPointer { words, rbp }.word(), Word::UNSUPPORTED);
        }
        let far = FramePointer::BelowBase(129);
        let rule = Rule::FramePointer { words: 2, rbp: far };
        assert_eq!(rule.word(), Word::UNSUPPORTED);
    }

    #[test]
    fn a_frame_of_a_megabyte_fits() {
        let rule = Rule::StackPointer {
            words: 1 << 17,
            rbp: FramePointer::Kept,
        };
        assert_eq!(rule.word().rule(), rule);
    }
}
