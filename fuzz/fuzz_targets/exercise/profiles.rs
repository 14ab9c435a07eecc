//! Reads bytes as profiles of every format, and asks everything of what comes out; shared by fuzzing and the tests that replay
//! its corpus.

use unhex_pprof::{Hashes, Limits, Profiles, otlp, pprof, unpacked};

/// Unpacks `data`, and reads it as pprof, as OTLP and as OTLP in JSON.
pub(crate) fn exercise(data: &[u8]) {
    let limits = Limits {
        message_bytes: 1 << 20,
        ..Limits::default()
    };
    let Ok(message) = unpacked(data, &limits) else {
        return;
    };
    if let Ok(model) = pprof::decode(&message, &limits) {
        ask(&model);
    }
    if let Ok(decoded) = otlp::decode(&message, &limits) {
        ask(&decoded.profiles);
    }
    let message = otlp::json_to_protobuf(&message, &limits).unwrap_or_default();
    if let Ok(decoded) = otlp::decode(&message, &limits) {
        ask(&decoded.profiles);
    }
}

/// Totals, hashes and CPU time, and that what is written as pprof is read back with the same totals.
fn ask(model: &Profiles<'_>) {
    let mut hashes = Hashes::of(model);
    for profile in model.profiles() {
        let totals = model.totals(profile);
        let _count = model.sample_count_type(profile);
        let _nanos = model.cpu_nanos_per_value(profile, 0);
        for sample in model.samples(profile) {
            let _hash = hashes.stack(sample.stack);
        }
        let Ok(bytes) = pprof::encode(model, profile) else {
            continue;
        };
        let again = pprof::decode(&bytes, &Limits::default());
        let again = again.expect("what was written can be read");
        let found = again
            .profiles()
            .first()
            .map(|profile| again.totals(profile));
        assert_eq!(found, Some(totals));
        assert_eq!(pprof::encode(&again, &again.profiles()[0]), Ok(bytes));
    }
}
