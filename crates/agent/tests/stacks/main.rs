//! Whether the agent sees what really runs: programs that do a known thing, and the kernel itself.
//!
//! Needs what the agent needs. Where that is missing a line says so; root on a build machine has it all, so that nothing
//! is skipped there.
//!
//! The programs are written for `x86_64`, some by instructions.

#![cfg(test)]
#![cfg(target_arch = "x86_64")]

mod chains;
mod engines;
mod privileges;
mod programs;
mod rings;
mod sideband;
mod symbols;
