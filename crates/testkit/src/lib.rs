//! What the tests of every package share: external tools, compiled fixtures, damaged files, servers.
//!
//! A test that cannot build its fixture has nothing to test, so that everything here panics with
//! what went wrong instead of returning errors. Only a missing external program is an `Option`:
//! see [`tools::Tool::find`].
#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "used by tests alone, where a panic is the report"
)]

pub mod alerting;
pub mod fault_proxy;
pub mod fixture;
pub mod hostile;
pub mod http;
pub mod memory;
pub mod nginx;
pub mod reference;
pub mod repository;
pub mod run;
pub mod s3_server;
pub mod server;
pub mod tools;
