//! What goes in is in the table, exactly: by every protocol and encoding, and from real profilers.

use std::process::Command;

use unhex_testkit::server::Server;
use unhex_testkit::{run, tools};

use crate::message::{PERIOD_NANOS, Recipe, gzip, pprof, protobuf, request};
use crate::stored::{Sums, assert_dictionary_is_whole, cpu, sums};
use crate::{OTLP, PROTOBUF, message, post, store, table};

fn sums_of(samples: i128) -> Sums {
    Sums {
        count: samples,
        value: samples * i128::from(PERIOD_NANOS),
    }
}

#[test]
fn otlp_by_every_media_type_and_encoding_is_stored_with_equal_totals() {
    let server = store(&[]);
    let recipe = |services: [&str; 2]| Recipe {
        services: services.map(str::to_owned).to_vec(),
        ..Recipe::default()
    };
    let plain = protobuf(&recipe(["a", "b"]));
    let zipped = gzip(&protobuf(&recipe(["a", "c"])));
    let zstd = zstd::encode_all(&*protobuf(&recipe(["a", "d"])), 1).expect("zstd");
    let json = message::json(&request(&recipe(["a", "e"])));
    let json_type = ("Content-Type", "application/json");
    std::thread::scope(|scope| {
        for (headers, body, answer) in [
            (vec![PROTOBUF], &plain, ""),
            (vec![PROTOBUF, ("Content-Encoding", "gzip")], &zipped, ""),
            (vec![PROTOBUF, ("Content-Encoding", "zstd")], &zstd, ""),
            (vec![json_type], &json, "{}"),
        ] {
            let server = &server;
            scope.spawn(move || {
                let answered = post(server, OTLP, &headers, body);
                assert_eq!(answered.status, 200, "{headers:?}: {}", answered.text());
                assert_eq!(answered.header("content-type"), Some(headers[0].1));
                assert_eq!(answered.text(), answer);
            });
        }
    });
    let table = table(server.home());
    assert_eq!(cpu(&table, "a"), sums_of(400));
    for service in ["b", "c", "d", "e"] {
        assert_eq!(cpu(&table, service), sums_of(100), "{service}");
    }
    assert_dictionary_is_whole(&table);
}

#[test]
fn a_pprof_is_stored_under_the_labels_of_the_query() {
    let server = store(&[]);
    let plain = pprof(7);
    for (query, body) in [
        ("service=shop%20a&version=1&team=x", plain.clone()),
        ("service=shop%20b", gzip(&plain)),
    ] {
        let answer = post(&server, &format!("/profiles?{query}"), &[], &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.text(), "{\"rows\":1,\"resent\":false}");
    }
    let table = table(server.home());
    for service in ["shop a", "shop b"] {
        assert_eq!(cpu(&table, service).value, 7_000_000_000, "{service}");
    }
    assert_dictionary_is_whole(&table);
}

#[test]
fn what_single_profiles_lack_is_said_and_the_others_are_stored() {
    let server = store(&[]);
    let mut bad = request(&Recipe {
        services: vec!["good".to_owned(), "ahead".to_owned()],
        ..Recipe::default()
    });
    let ahead = &mut bad.resource_profiles[1].scope_profiles[0].profiles[0];
    ahead.samples[0].timestamps_unix_nano[0] += 3_600_000_000_000;
    let json = message::json(&bad);
    let json_type = ("Content-Type", "application/json");
    let answer = post(&server, OTLP, &[json_type], &json);
    assert_eq!(answer.status, 200);
    let said: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    let partial = &said["partialSuccess"];
    assert_eq!(partial["rejectedProfiles"], "1", "{said}");
    let why = partial["errorMessage"].as_str().expect("a text");
    assert!(
        why.contains("set the clock of the host that sent it"),
        "{why}"
    );
    let table = table(server.home());
    assert_eq!(cpu(&table, "good"), sums_of(100));
    assert_eq!(cpu(&table, "ahead"), Sums::default());
    let rejected = "unhex_store_profiles_rejected_total{reason=\"ahead\"}";
    assert!((crate::metric(&server, rejected) - 1.0).abs() < f64::EPSILON);
}

const GO_SOURCE: &str = r#"package main
import ("os"; "runtime/pprof"; "time")
var sink float64
func spin(until time.Time) { for time.Now().Before(until) { for i := 0; i < 100000; i++ { sink += float64(i) } } }
func main() {
	file, err := os.Create(os.Args[1]); if err != nil { panic(err) }
	pprof.StartCPUProfile(file)
	spin(time.Now().Add(700 * time.Millisecond))
	pprof.StopCPUProfile(); file.Close()
	heap, err := os.Create(os.Args[2]); if err != nil { panic(err) }
	pprof.Lookup("heap").WriteTo(heap, 0); heap.Close()
}
"#;

#[test]
fn profiles_of_a_real_go_program_come_out_with_equal_totals() {
    if tools::GO.find().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("main.go"), GO_SOURCE).expect("a source");
    let mut build = Command::new("go");
    build.args(["run", "main.go", "cpu.pprof", "heap.pprof"]);
    build.current_dir(folder.path());
    build
        .env("GOCACHE", path("cache"))
        .env("GOFLAGS", "-mod=mod");
    build.env("HOME", folder.path());
    run::succeed(&mut build);
    let server = store(&[]);
    for (file, service) in [("cpu.pprof", "spin"), ("heap.pprof", "heap")] {
        let bytes = std::fs::read(path(file)).expect("a profile");
        assert_totals_come_out(&server, service, &bytes);
    }
}

/// Sends a pprof; its totals, which are those that are stored then.
pub(crate) fn assert_totals_come_out(server: &Server, service: &str, bytes: &[u8]) -> Vec<i128> {
    let limits = unhex_pprof::Limits::default();
    let message = unhex_pprof::unpacked(bytes, &limits).expect("gzip");
    let model = unhex_pprof::pprof::decode(&message, &limits).expect("a pprof");
    let profile = &model.profiles()[0];
    let totals = model.totals(profile);
    let place = format!("/profiles?service={service}");
    let answer = post(server, &place, &[], bytes);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let stored = sums(&table(server.home()));
    for (counted, total) in profile.value_types.iter().zip(&totals) {
        let (name, unit) = (model.text(counted.name), model.text(counted.unit));
        let of = |kind: &str| {
            let key = (service.to_owned(), kind.to_owned());
            stored.get(&key).copied().unwrap_or_default()
        };
        match (name, unit) {
            ("samples", "count") => assert_eq!(of("cpu").count, *total),
            ("cpu", "nanoseconds") => assert_eq!(of("cpu").value, *total),
            _ => {
                let kind = format!("{}:{unit}", name.replace(':', "_"));
                assert_eq!(of(&kind).value, *total, "{name}: {stored:?}");
            }
        }
    }
    assert!(totals.iter().any(|total| *total > 0), "{totals:?}");
    assert_dictionary_is_whole(&table(server.home()));
    totals
}
