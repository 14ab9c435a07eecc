//! The commands as processes, with and without a server: what they print and how they end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that meets the unexpected has failed"
)]
#![expect(
    unreachable_pub,
    reason = "a test binary exports nothing; pub says what the modules share"
)]

mod check;
mod command;
mod debian;
mod help;
mod symbolize;
mod upload;
