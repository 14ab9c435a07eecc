//! What people see of one function, binary or weight.

use std::ops::AddAssign;
use std::sync::Arc;

use unhex_build_id::Identity;

/// What was counted at a stack: samples, and their value in the unit of the type. Both add up exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Samples.
    pub count: i128,
    /// Their value, as nanoseconds of CPU time.
    pub value: i128,
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.value = self.value.saturating_add(other.value);
    }
}

/// A name for a frame, as whoever resolves it gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Call {
    /// The function, demangled.
    pub function: Arc<str>,
    /// The source file, empty if unknown.
    pub file: Arc<str>,
    /// The line in it, 0 if unknown.
    pub line: u32,
}

/// What people see of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShownFunction {
    /// Its name, or what stands for one: `binary+0x1a2b`, `[python]`, `[truncated: max depth]`.
    pub name: Arc<str>,
    /// The source file, empty if unknown.
    pub file: Arc<str>,
    /// The binary's file name without its folder, since folders differ from host to host; empty if there is none.
    pub binary: Arc<str>,
    /// What it is.
    pub kind: ShownKind,
}

/// What a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShownKind {
    /// Native code with its name.
    Native,
    /// Native code that nobody could name: `binary+0x1a2b`.
    Unresolved,
    /// The code that the kernel gives every process.
    Vdso,
    /// Interpreted code, and whatever came with names alone.
    Named,
    /// The kernel.
    Kernel,
    /// A runtime that the profiler cannot unwind.
    MissingUnwinder,
    /// Not a call: the profiler stopped here.
    Truncated,
    /// Memory without a file, or no mapping.
    Unplaced,
}

impl ShownKind {
    /// Its word in answers.
    pub fn word(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Unresolved => "unresolved",
            Self::Vdso => "vdso",
            Self::Named => "named",
            Self::Kernel => "kernel",
            Self::MissingUnwinder => "missing_unwinder",
            Self::Truncated => "truncated",
            Self::Unplaced => "unplaced",
        }
    }
}

/// A binary, for formats that have them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShownBinary {
    /// What the symbol server knows it by.
    pub identity: Option<Identity>,
    /// Its file name, as the profiler said.
    pub file_name: Arc<str>,
}
