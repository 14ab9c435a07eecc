//! Both formats in and pprof out, beside independent readers: derived types, a model of the tests' own, Go's tools.

#![cfg(test)]

mod corpus;
#[path = "../../../../fuzz/fuzz_targets/exercise/profiles.rs"]
mod exercise;
mod go;
mod hostile;
mod json;
mod otlp;
mod otlp_meaning;
mod otlp_write;
mod plain;
mod pprof;
mod recipe;
mod requests;
mod stacks;
