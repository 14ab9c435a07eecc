//! Every input that fuzzing starts from or has found, replayed on the stable compiler.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use unhex_symbols::index::{SymbolIndex, write};
use unhex_symbols::model::{Model, NONE};

use crate::exercise::exercise;
use crate::layout::model;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/symbol_index")
}

/// Small indexes to start from: empty, without inlined calls, with everything.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let whole = model();
    let mut flat = whole.clone();
    flat.rows.truncate(60);
    for node in &mut flat.nodes {
        node.parent = NONE;
    }
    let bytes = |model: Model| {
        let mut bytes = Vec::new();
        write(model, &mut bytes).expect("a sound model");
        bytes
    };
    vec![
        ("empty.index", bytes(Model::default())),
        ("flat.index", bytes(flat)),
        ("whole.index", bytes(whole)),
    ]
}

#[test]
fn seeds_are_indexes_of_the_current_format() {
    for (name, bytes) in seeds() {
        let path = corpus().join(name);
        if env::var_os("UNHEX_WRITE_SEEDS").is_some() {
            fs::write(&path, &bytes).expect("a seed written");
        }
        let seed = fs::read(&path).expect("a seed");
        let verified = SymbolIndex::parse(seed).and_then(|index| index.verify());
        assert_eq!(
            verified,
            Ok(()),
            "{name}: run this test with UNHEX_WRITE_SEEDS=1"
        );
    }
}

#[test]
fn the_corpus_never_panics() {
    let inputs = fs::read_dir(corpus()).expect("the corpus");
    let mut replayed = 0;
    for input in inputs {
        let bytes = fs::read(input.expect("an entry").path()).expect("an input");
        exercise(&bytes);
        replayed += 1;
    }
    assert!(replayed >= seeds().len());
}

#[test]
fn an_index_that_is_cut_or_has_one_byte_changed_never_panics() {
    for (_, bytes) in seeds() {
        for end in (0..bytes.len()).step_by(bytes.len() / 97 + 1) {
            exercise(bytes.get(..end).expect("a part"));
        }
        for place in (0..bytes.len()).step_by(bytes.len() / 499 + 1) {
            for byte in [0, 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[place] = byte;
                exercise(&changed);
            }
        }
    }
}
