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

/// Sections that really unpack to as much as they say.
fn honest_bombs(sound: &[u8]) -> Vec<Hostile> {
    let bomb = |packing, section| {
        let bomb = Bomb {
            packing,
            claimed_bytes: 160 << 20,
            unpacked_bytes: 160 << 20,
        };
        Hostile {
            what: format!("{section} in {packing:?} of 160 MiB"),
            bytes: hostile::with_bomb(sound, section, bomb),
        }
    };
    vec![
        bomb(Packing::Zlib, ".debug_str"),
        bomb(Packing::Zstd, ".debug_info"),
    ]
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

#[test]
fn hostile_files_are_refused_or_typed_and_cost_little_and_the_server_goes_on() {
    let fixture = sound();
    let bytes = fixture.bytes();
    let mut files: Vec<Hostile> = hostile::all(&bytes);
    files.extend(honest_bombs(&bytes));
    files.extend(hostile::truncations(&bytes));
    assert!(files.len() > 100, "{} files", files.len());

    // A file has 10 s in all: no conversion may take longer than 8.
    let arguments = ["--conversion-seconds-max", "8"];
    let server = Server::start_in(Home::new(), env!("CARGO_BIN_EXE_unhex"), &arguments);
    let before = server.memory_bytes();
    let watch = server.watch_memory();
    let mut report = String::new();
    for (number, file) in files.iter().enumerate() {
        let mut id = ID;
        id[16..].copy_from_slice(&u32::try_from(number).unwrap().to_le_bytes());
        let (outcome, detail) = outcome(&server, &with_id(&file.bytes, id), id);
        writeln!(report, "{}: {outcome}: {detail}", file.what).unwrap();
        let is_typed = matches!(
            outcome.as_str(),
            "400" | "409" | "413" | "415" | "422" | "malformed" | "unsupported" | "too_large"
        );
        // A file that is only poorer than it says is used as far as it goes.
        let is_used = matches!(outcome.as_str(), "found" | "no_debug_info");
        assert!(is_typed || is_used, "{report}");
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
