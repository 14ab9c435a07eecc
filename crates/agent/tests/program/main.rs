//! `unhex-agent` as a process on this host: it samples what runs here, so that it needs root or its capabilities.

#![cfg(test)]

mod agent;
mod recorded;
mod whole_way;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_unhex-agent");
