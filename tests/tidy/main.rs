//! Keeps the written rules of this repository true: each rule is a pure function over text, run over
//! every file, and shown to fail on a bad example.

#![cfg(test)]

mod documents;
mod edges;
mod files;
mod limits;
mod repository;
mod room_tables;
mod rooms;

/// One breach of a rule: where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Breach(String);

/// Fails with all breaches at once, so that one run shows what is to be done.
#[track_caller]
fn assert_none(breaches: &[Breach]) {
    let lines: Vec<&str> = breaches.iter().map(|breach| breach.0.as_str()).collect();
    assert!(
        lines.is_empty(),
        "{} breaches:\n{}",
        lines.len(),
        lines.join("\n")
    );
}
