//! Unwind tables of real and hostile files beside what gimli says of the same addresses.
#![cfg(target_arch = "x86_64")]
#![expect(clippy::expect_used, reason = "tests: a panic is the report")]

mod compiled;
mod gimli_rules;
mod hostile;
mod machine;
mod system;
