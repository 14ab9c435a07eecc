//! The server in process, over real sockets: one module a route.

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

mod artifacts_backends;
mod artifacts_contract;
mod artifacts_conversions;
mod artifacts_damage;
mod artifacts_faults;
mod artifacts_races;
mod artifacts_store;
mod artifacts_sweep;
mod bucket_mended;
mod build_ids;
mod calls;
mod crash;
mod debuginfod;
mod documents;
mod download;
mod hold;
mod hostile;
mod http2;
mod interrupted;
mod metadata;
mod operation;
mod parts;
mod process;
mod queues;
mod remade;
mod scan;
mod scan_archives;
mod scan_away;
mod scan_sources;
mod server;
mod serving;
mod store_s3;
mod store_s3_cache;
mod stored;
mod symbolize;
mod symbolize_failures;
mod symbolize_frames;
mod symbolize_generation;
mod uploads;
mod uploads_direct;
mod uploads_refused;
mod upstream;
mod upstream_faults;
mod vanishing;
