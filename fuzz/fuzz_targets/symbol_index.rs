//! Any bytes as a symbol index: `cargo +nightly fuzz run symbol_index`.

#![no_main]

#[path = "exercise/symbol_index.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::exercise(data));
