//! A file that is damaged on the disk is named to whoever asks, and harms nothing but what it has.

use std::path::{Path, PathBuf};

use unhex_testkit::http::Response;
use unhex_testkit::server::{Home, Server};

use crate::asked::ask;
use crate::message::{Recipe, now_nanos, protobuf};
use crate::{OTLP, PROGRAM, PROTOBUF, post};

const HOUR_NANOS: u64 = 3_600_000_000_000;

/// Makes bad bytes of good ones.
type Change = fn(&mut Vec<u8>);

/// What disks and people do to files.
const DAMAGES: [(&str, Change); 4] = [
    ("emptied", Vec::clear),
    ("cut in half", |bytes| bytes.truncate(bytes.len() / 2)),
    ("with a footer of another length", |bytes| {
        let at = bytes.len() - 8;
        bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    }),
    ("full of noise", |bytes| {
        let end = bytes.len() - 8;
        for (at, byte) in bytes[4..end].iter_mut().enumerate() {
            *byte ^= u8::try_from(at % 251).expect("small") | 1;
        }
    }),
];

fn start(data: &Path) -> Server {
    let data = data.to_str().expect("text");
    Server::start_in(Home::new(), PROGRAM, &["--symbols", "none", "--data", data])
}

/// All files of some kind, `seg` or a table of `dic`.
fn files(data: &Path, kind: &str) -> Vec<PathBuf> {
    let (folder, part) = match kind {
        "seg" => ("seg", ".parquet"),
        table => ("dic", table),
    };
    let mut folders = vec![data.join("table").join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.to_string_lossy().contains(part) => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

fn of_service(server: &Server, service: &str) -> Response {
    let selector = format!("%7Bservice%3D%22{service}%22%7D");
    // Neither has a whole hour, so that one window has one of the two alone.
    let window = match service {
        "late" => "from=now-40m&to=now",
        _ => "from=now-5h&to=now-150m",
    };
    ask(server, &format!("/query/top?query={selector}&{window}"))
}

#[test]
fn a_damaged_file_is_named_and_harms_nothing_else() {
    let filled = tempfile::tempdir().expect("a folder");
    {
        let server = start(filled.path());
        for (service, hours) in [("late", 0), ("early", 3)] {
            let message = message(service, hours);
            assert_eq!(post(&server, OTLP, &[PROTOBUF], &message).status, 200);
        }
    }
    for kind in ["seg", ".stacks.", ".frames."] {
        for (what, damage) in DAMAGES {
            let copied = tempfile::tempdir().expect("a folder");
            copy(filled.path(), copied.path());
            let all = files(copied.path(), kind);
            assert_eq!(all.len(), 2, "{kind}: {all:?}");
            // The earlier hour's comes first.
            let damaged = &all[0];
            let mut bytes = std::fs::read(damaged).expect("a file");
            damage(&mut bytes);
            std::fs::write(damaged, bytes).expect("written");
            let server = start(copied.path());
            let answer = of_service(&server, "early");
            let text = answer.text();
            let key = damaged.strip_prefix(copied.path().join("table"));
            let key = key.expect("a key").to_str().expect("text");
            assert_eq!(answer.status, 500, "{kind} {what}: {text}");
            assert!(
                text.contains("urn:unhex:problem:damaged") && text.contains(key),
                "{kind} {what}: {text}"
            );
            let answer = of_service(&server, "late");
            assert_eq!(answer.status, 200, "{kind} {what}: {}", answer.text());
            // Nor does it keep others from storing.
            let message = message("other", 3);
            assert_eq!(post(&server, OTLP, &[PROTOBUF], &message).status, 200);
        }
    }
}

/// What docs/profile-table.md says of files without a copy.
#[test]
fn what_is_damaged_and_deleted_takes_only_what_it_had() {
    let filled = tempfile::tempdir().expect("a folder");
    {
        let server = start(filled.path());
        for service in ["early", "other"] {
            let message = message(service, 3);
            assert_eq!(post(&server, OTLP, &[PROTOBUF], &message).status, 200);
        }
    }
    let total = |server: &Server, service| -> i64 {
        let answer = of_service(server, service);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        answer["total"]["count"].as_i64().expect("a number")
    };
    for kind in ["seg", ".stacks.", ".frames.", ".series."] {
        let copied = tempfile::tempdir().expect("a folder");
        copy(filled.path(), copied.path());
        let all = files(copied.path(), kind);
        assert!(!all.is_empty(), "{kind}");
        // The first message's, and of the dictionary all.
        let gone = if kind == "seg" { &all[..1] } else { &all[..] };
        for file in gone {
            std::fs::remove_file(file).expect("removed");
        }
        let server = start(copied.path());
        let totals = ["early", "other"].map(|service| total(&server, service));
        match kind {
            "seg" => assert!(totals[0] == 0 && totals[1] > 0, "{totals:?}"),
            _ => assert!(totals.iter().all(|total| *total > 0), "{kind}: {totals:?}"),
        }
        let top = of_service(&server, "early").text();
        let is_lost = matches!(kind, ".stacks." | ".frames.");
        assert_eq!(top.contains("stack not found"), is_lost, "{kind}: {top}");
        let by_host = "/query/series?group_by=host&from=now-5h&to=now-150m";
        let lines = ask(&server, by_host);
        assert_eq!(lines.status, 200, "{}", lines.text());
        let lines = lines.text();
        let is_lost = kind == ".series.";
        let is_said = lines.contains("[label set not found]");
        assert_eq!(is_said, is_lost, "{kind}: {lines}");
    }
}

fn message(service: &str, hours_ago: u64) -> Vec<u8> {
    protobuf(&Recipe {
        services: vec![service.to_owned()],
        time_unix_nanos: now_nanos() - hours_ago * HOUR_NANOS,
        ..Recipe::default()
    })
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            std::fs::create_dir_all(&target).expect("a folder");
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("copied");
        }
    }
}
