//! One look at one processor: who ran, where, called by whom, and why its stack ends where it ends.
//!
//! This is what every engine delivers and everything behind the engines works on. Addresses are those of the process:
//! [`crate::processes`] turns them into binaries and link addresses.

use unhex_symbols::address::ProcessAddress;

/// The stack of one thread at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time_monotonic_nanos: u64,
    /// For how much processor time it stands, in nanoseconds: the time since this processor was sampled before, where the engine knows it,
    /// else the usual one.
    pub period_nanos: u64,
    /// Who ran, in the PID namespace of the host.
    pub process: ProcessId,
    /// The thread of it that ran.
    pub thread: ThreadId,
    /// The processor, from 0.
    pub processor: u32,
    /// Addresses of the kernel, innermost first; empty when the sample hit user code. All but the first are return
    /// addresses.
    pub kernel: Vec<u64>,
    /// Addresses of the process, innermost first.
    pub user: Vec<UserFrame>,
    /// Why the user stack ends where it ends.
    pub stop: Stop,
}

/// A process, by the number that the host's PID namespace has for it; others say TGID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// A thread, by the number that the host's PID namespace has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);

/// One frame of a user stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UserFrame {
    /// Where.
    pub address: ProcessAddress,
    /// What kind of address it is.
    pub kind: FrameKind,
}

/// What kind of address a frame has, which decides at which byte its function is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// The instruction that ran or was interrupted: the innermost frame, and whatever a signal interrupted.
    Exact,
    /// The address that a call returns to: the call site is a byte before.
    Return,
}

/// Why a user stack ends where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Stop {
    /// It is complete: the outermost frame of the thread was reached.
    Root,
    /// There is none: a thread of the kernel.
    NoUserStack,
    /// An address in no executable mapping that is known.
    NoMapping,
    /// An address in a binary without unwind information for it.
    NoUnwindInfo,
    /// Unwind information that the unwinder cannot follow, as an expression that is neither PLT nor signal frame.
    UnsupportedRule,
    /// A stack slot that could not be read: not in memory, or a stack pointer that lies.
    ReadFault,
    /// Code that was made while the process ran, by a compiler that left no frame pointers.
    Jit,
    /// The copied part of the stack ended. Only an engine that copies has this.
    Truncated,
    /// More frames than a sample has.
    Depth,
}

impl Stop {
    /// Every reason, in the order of the documentation.
    pub const ALL: [Self; 9] = [
        Self::Root,
        Self::NoUserStack,
        Self::NoMapping,
        Self::NoUnwindInfo,
        Self::UnsupportedRule,
        Self::ReadFault,
        Self::Jit,
        Self::Truncated,
        Self::Depth,
    ];

    /// The word in metrics, and in the frame `[truncated: REASON]`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::NoUserStack => "no user stack",
            Self::NoMapping => "no mapping",
            Self::NoUnwindInfo => "no unwind info",
            Self::UnsupportedRule => "unsupported rule",
            Self::ReadFault => "read fault",
            Self::Jit => "jit",
            Self::Truncated => "truncated",
            Self::Depth => "depth",
        }
    }

    /// Whether all callers are there, as far as there are any.
    pub fn is_complete(self) -> bool {
        matches!(self, Self::Root | Self::NoUserStack)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_reason_has_a_word_of_its_own() {
        let words: BTreeSet<&str> = Stop::ALL.into_iter().map(Stop::as_str).collect();
        assert_eq!(words.len(), Stop::ALL.len());
    }
}
