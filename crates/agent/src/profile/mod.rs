//! From samples to what is sent: stacks as frames of binaries, equal ones together, a resource for each label set.
//!
//! A [`Batch`] grows for some seconds and becomes one message. In it:
//! - A native frame is a link address in a binary, with its identity and without a name. Calls are looked up a byte before
//!   the address that they return to; that is done here, once.
//! - A frame of the kernel has its name from `/proc/kallsyms` ([`KernelSymbols`]), since nobody else has it.
//! - Frames that only a runtime could unwind are one, `[python]`, without a binary ([`crate::runtimes`]).
//! - A stack that is not complete ends in `[truncated: REASON]`, where its root would be.
//! - No text is an attribute of a sample, and no number of a process or a thread one of the resource: the profile store makes series of
//!   them.

mod batch;
mod frames;
mod kernel_symbols;
mod stacks;

pub use batch::{Batch, Period, Whose};
pub use frames::FileNames;
pub use kernel_symbols::{KernelSymbol, KernelSymbols};
pub use stacks::Namers;

#[cfg(test)]
mod tests;
