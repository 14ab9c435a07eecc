//! The unwinder in the kernel on programs whose stacks are known, and its object beside its source.
#![cfg(target_arch = "x86_64")]
#![expect(clippy::expect_used, reason = "tests: a panic is the report")]

mod chains;
mod measured;
mod object_file;
mod sampled;
