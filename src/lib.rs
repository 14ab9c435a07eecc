//! Unhex, the symbol server: debug files in, debug files and names out.
//!
//! [`http`] has the whole route table; [`artifacts`] is where debug files live; [`conversion`] turns
//! them into symbol indexes in a child process; [`disk_cache`] keeps files that can be had again;
//! [`scan`] serves debug files from where they lie; [`symbolize`] answers batches of addresses;
//! [`signal`] tells of profiles that arrived without symbols.

pub mod app;
mod archive;
pub mod artifacts;
pub mod cli;
pub mod config;
pub mod conversion;
pub mod disk_cache;
mod glob;
pub mod http;
pub mod limits;
pub mod metrics;
pub mod queue;
pub mod scan;
pub mod signal;
pub mod symbolize;
