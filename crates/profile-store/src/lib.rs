//! The profile store: what it holds is a [`table`] of immutable files and records in an object store; [`rows`] are what
//! it keeps of a profile.
//!
//! [`http`] has the whole route table; [`ingest`] reads messages within bounds; [`append`] makes their rows durable; [`observe`]
//! tells the symbol server what arrived.

pub mod answers;
pub mod app;
pub mod append;
pub mod cli;
pub mod clock;
pub mod config;
pub mod engine;
pub mod export;
pub mod files;
pub mod http;
pub mod ingest;
pub mod limits;
pub mod maintain;
pub mod metrics;
pub mod objects;
pub mod observe;
pub mod query;
pub mod reading;
pub mod rows;
pub mod selector;
pub mod symbols;
pub mod table;
pub mod view;
