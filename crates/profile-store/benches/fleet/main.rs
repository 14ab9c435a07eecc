//! What the profile store costs for a fleet that is described in `synthetic.rs`.
//!
//! - `cargo bench -p unhex-profile-store --bench fleet -- compaction FOLDER [SAMPLES]`
//! - `cargo bench -p unhex-profile-store --bench fleet -- segments FOLDER`
//! - `cargo bench -p unhex-profile-store --bench fleet -- queries FOLDER [whole | quick [ONLY]]`: quick is the same over a table of a hundredth of the size
//!
//! The tables stay in FOLDER: `python3 merges.py FOLDER SERVICE` beside this file does the same merges over the same files by another engine, and
//! the program in the folder blobs does the
//! merge of an hour as files that `google/pprof` adds up.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement that meets the unexpected has failed, and prints what it found"
)]

mod appending;
mod compaction;
mod queries;
mod symbol_server;
mod synthetic;
mod table;

use std::path::Path;

use table::Size;

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match arguments.as_slice() {
        ["compaction", folder, rest @ ..] => {
            let samples = rest.first().map(|text| text.parse().expect("samples"));
            runtime.block_on(compaction::measure_all(Path::new(folder), samples));
        }
        ["segments", folder] => {
            runtime.block_on(compaction::measure_segments(Path::new(folder)));
        }
        ["queries", folder, rest @ ..] => {
            let is_quick = rest.first() == Some(&"quick");
            let only = rest.get(1).copied().unwrap_or_default();
            let size = if is_quick {
                Size::quick()
            } else {
                Size::whole()
            };
            runtime.block_on(queries::measure(Path::new(folder), &size, only));
        }
        _ => println!(
            "what to measure, and a folder, are wanted: see the head of benches/fleet/main.rs"
        ),
    }
}
