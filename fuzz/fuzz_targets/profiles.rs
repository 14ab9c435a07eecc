//! Any bytes as profiles, pprof and OTLP: `cargo +nightly fuzz run profiles`.

#![no_main]

#[path = "exercise/profiles.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::exercise(data));
