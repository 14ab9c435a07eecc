//! The signal: from a profile without symbols to a firing alert, and back when somebody uploads.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected has failed"
)]
#![expect(
    unreachable_pub,
    reason = "a test binary exports nothing; pub says what the modules share"
)]

mod decisions;
mod doubts;
mod failing;
mod faults;
mod flood;
mod http;
mod ignored;
mod live;
mod replica;
mod room;
mod rules;
#[path = "../server/server.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of the server, which use all of it"
)]
mod server;
