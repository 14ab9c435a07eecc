//! Whether the agent sees what really runs: programs that do a known thing, and the kernel itself.
//!
//! Needs what the agent needs. Where that is missing a line says so; root on a build machine has it all, so that nothing
//! is skipped there.

#![cfg(test)]

mod chains;
mod engines;
mod privileges;
mod programs;
mod rings;
mod sideband;
mod symbols;
