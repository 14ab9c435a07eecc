//! Hostile files against a whole server: each is refused or typed, none costs much, and it goes on.

use std::fmt::Write as _;

use serde_json::Value;
use unhex_build_id::{BuildId, ElfIdentities};
use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::hostile::{self, Bomb, Hostile, Packing};
use unhex_testkit::http;
use unhex_testkit::server::{Home, Server};

/// How much more memory server and children may have resident, all together.
const GROWTH_BYTES_MAX: u64 = 300 << 20;
/// The build ID that the fixture has, and that each hostile file gets another one for.
const ID: [u8; 20] = *b"hostile build id ...";

fn sound() -> Fixture {
    Program::c(
        "static inline __attribute__((always_inline)) int thrice(int n) { return n * 3; }\n\
         int twice(int n) { return 2 * thrice(n); }\n\
         int main(int argc, char **argv) { return twice(argc); }",
    )
    .flags(&["-g", "-O1", "-gz=none"])
    .build_id(&hex(&ID))
    .build()
}

fn hex(bytes: &[u8]) -> String {
    BuildId::from_bytes(bytes).unwrap().to_string()
}

/// The file with another build ID in its note, so that no file meets another's state.
fn with_id(bytes: &[u8], id: [u8; 20]) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    let found = changed.windows(ID.len()).position(|window| window == ID);
    if let Some(at) = found {
        changed[at..at + ID.len()].copy_from_slice(&id);
    }
    changed
}

/// What became of a file: the status of its upload, or of its module after that.
fn outcome(server: &Server, file: &[u8], id: [u8; 20]) -> (String, String) {
    let own = ElfIdentities::read(file).gnu;
    let id = own.map_or_else(|| hex(&id), |id| id.to_string());
    let uploaded = http::put(&server.url(&format!("/buildid/{id}/debuginfo")), file)
        .expect("the server answers the upload");
    let said: Value = serde_json::from_slice(&uploaded.body).unwrap_or_default();
    if uploaded.status >= 400 {
        let detail = said["detail"].as_str().expect("a refusal has words");
        return (uploaded.status.to_string(), detail.to_owned());
    }
    let body = format!(
        r#"{{"modules":[{{"build_id":"{id}","addresses":["0x1139","0x0"]}}],"wait_seconds":10}}"#
    );
    let answered =
        http::post_json(&server.url("/symbolize"), &body).expect("the server answers the question");
    assert_eq!(answered.status, 200, "{}", answered.text());
    let answer: Value = serde_json::from_slice(&answered.body).unwrap();
    let module = &answer["modules"][0];
    let status = module["status"].as_str().unwrap().to_owned();
    (
        status,
        module["detail"].as_str().unwrap_or_default().to_owned(),
    )
}

/// Uploads every file under a build ID of its own and asks about it: what became of each, with the
/// reason.
fn outcomes(server: &Server, files: &[Hostile]) -> Vec<(String, String)> {
    let upload = |(file, number): (&Hostile, u32)| {
        let mut id = ID;
        id[16..].copy_from_slice(&number.to_le_bytes());
        outcome(server, &with_id(&file.bytes, id), id)
    };
    files.iter().zip(0..).map(upload).collect()
}

/// A file has 10 s in all: no conversion may take longer than 8.
fn start() -> Server {
    let arguments = ["--conversion-seconds-max", "8"];
    Server::start_in(Home::new(), env!("CARGO_BIN_EXE_unhex"), &arguments)
}

#[test]
fn hostile_files_are_refused_or_malformed_and_cost_little_and_the_server_goes_on() {
    let fixture = sound();
    let bytes = fixture.bytes();
    let mut files: Vec<Hostile> = hostile::all(&bytes);
    assert!(files.len() >= 20, "{} files", files.len());
    files.extend(hostile::truncations(&bytes));
    assert!(files.len() > 100, "{} files", files.len());

    let server = start();
    let before = server.memory_bytes();
    let watch = server.watch_memory();
    let outcomes = outcomes(&server, &files);
    let mut report = String::new();
    for (file, (outcome, detail)) in files.iter().zip(&outcomes) {
        writeln!(report, "{}: {outcome}: {detail}", file.what).unwrap();
    }
    for (outcome, detail) in &outcomes {
        let is_refused = outcome
            .parse()
            .is_ok_and(|status| (400..500).contains(&status));
        assert!(is_refused || outcome == "malformed", "{report}");
        assert!(!detail.is_empty(), "{report}");
    }
    let peak = watch.most_bytes();
    println!("{report}{before} bytes before, {peak} at most");
    assert!(
        peak < before + GROWTH_BYTES_MAX,
        "{peak} bytes, {before} before\n{report}"
    );

    let (outcome, detail) = outcome(&server, &bytes, ID);
    assert_eq!(outcome, "found", "{detail}");
    assert!(server.stop().success());
}

#[test]
fn files_that_are_only_poor_are_used_as_far_as_they_go_and_honest_large_ones_are_too_large() {
    let files = hostile::poor_but_sound(&sound().bytes());
    let server = start();
    let before = server.memory_bytes();
    let watch = server.watch_memory();
    let outcomes = outcomes(&server, &files);
    let said: Vec<String> = files
        .iter()
        .zip(&outcomes)
        .map(|(file, (outcome, _))| format!("{}: {outcome}", file.what))
        .collect();
    let expected = [
        "no section headers: no_debug_info",
        "no program headers: found",
        "one program header: found",
        ".debug_str in Zlib of 160 MiB: too_large",
        ".debug_info in Zstd of 160 MiB: too_large",
    ];
    assert_eq!(said, expected, "{outcomes:#?}");
    let peak = watch.most_bytes();
    assert!(
        peak < before + GROWTH_BYTES_MAX,
        "{peak} bytes, {before} before"
    );
    assert!(server.stop().success());
}

#[test]
fn memory_that_a_conversion_is_refused_makes_its_file_too_large() {
    let bytes = sound().bytes();
    // Large enough that its section is plausible, and larger than the memory of the conversion.
    let mut padded = bytes.clone();
    padded.resize(32 << 20, 0);
    for packing in [Packing::Zlib, Packing::Zstd] {
        let bomb = Bomb {
            packing,
            claimed_bytes: 512 << 20,
            unpacked_bytes: 512 << 20,
        };
        let file = hostile::with_bomb(&padded, ".debug_str", bomb);
        let arguments = ["--conversion-memory-bytes-max", "512MiB"];
        let server = Server::start_in(Home::new(), env!("CARGO_BIN_EXE_unhex"), &arguments);
        let (outcome, detail) = outcome(&server, &file, ID);
        assert_eq!(outcome, "too_large", "{detail}");
        assert_eq!(
            detail,
            "its debug file cannot be converted: 536870912 bytes of memory for section .debug_str were refused: the conversion's limit is \
             536870912 bytes"
        );
        assert!(server.stop().success());
    }
}
