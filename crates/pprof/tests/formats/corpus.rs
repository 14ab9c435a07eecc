//! Every input that fuzzing starts from or has found, replayed on the stable compiler.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use unhex_pprof::{Limits, otlp, packed, pprof};

use crate::exercise::exercise;
use crate::hostile::whole;
use crate::json::WHOLE;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/profiles")
}

/// A message of each format, small and with everything in it.
fn seeds() -> [(&'static str, Vec<u8>); 4] {
    let [otlp, pprof] = whole();
    let gzip = packed(&pprof);
    [
        ("whole.otlp", otlp),
        ("whole.pprof", pprof),
        ("whole.pprof.gz", gzip),
        ("whole.json", WHOLE.as_bytes().to_vec()),
    ]
}

#[test]
fn seeds_are_sound_messages() {
    let limits = Limits::default();
    for (name, bytes) in seeds() {
        let path = corpus().join(name);
        if env::var_os("UNHEX_WRITE_SEEDS").is_some() {
            fs::create_dir_all(corpus()).expect("a folder");
            fs::write(&path, &bytes).expect("a seed written");
        }
        let seed = fs::read(&path).expect("a seed: run this test with UNHEX_WRITE_SEEDS=1");
        let message = unhex_pprof::unpacked(&seed, &limits).expect("a message");
        let is_sound = match path.extension().and_then(|extension| extension.to_str()) {
            Some("otlp") => {
                otlp::decode(&message, &limits).is_ok_and(|read| read.rejected.is_empty())
            }
            Some("json") => otlp::json_to_protobuf(&message, &limits).is_ok(),
            _ => pprof::decode(&message, &limits).is_ok(),
        };
        assert!(is_sound, "{name}");
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
