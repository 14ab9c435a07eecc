//! Files made to break a reader: each gets a typed refusal or a status that says what is wrong, in
//! little time and memory, and the server then answers as before.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::hostile::{self, Hostile};
use unhex_testkit::http::{self, Response};
use unhex_testkit::server::Server;

use crate::symbol_server::UNHEX;

/// Longest time of an upload and the question after it, together.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// How much the server and its children may grow.
const GROWTH_BYTES_MAX: u64 = 300 << 20;

/// What is said of each: its headers are forged, and it is refused, or its contents are, and there is no
/// symbol in it that is believed.
const EXPECTED: &str = "\
no section headers, and names of them: 422
one section header, and names of more: 422
65,535 section headers: 422
65,535 program headers: 422
section headers at the end of the address space: 422
program headers at the end of the address space: 422
section names in no section: 422
.debug_info of 2^63 bytes: 422
.debug_info of 4 GiB: 422
.debug_info beyond the end: 422
.debug_abbrev of 2^63 bytes: 422
.debug_abbrev of 4 GiB: 422
.debug_abbrev beyond the end: 422
.debug_line of 2^63 bytes: 422
.debug_line of 4 GiB: 422
.debug_line beyond the end: 422
.symtab of 2^63 bytes: 422
.symtab of 4 GiB: 422
.symtab beyond the end: 422
.strtab of 2^63 bytes: 422
.strtab of 4 GiB: 422
.strtab beyond the end: 422
symbols of 0 bytes: 422
symbols with names in no section: 422
.debug_info in Zlib that says 8 GiB and unpacks to 64 MiB: malformed
.debug_str in Zlib that says 16 bytes and unpacks to 256 MiB: malformed
.debug_line in Zlib that says 2^63 bytes: malformed
.debug_info in Zstd that says 8 GiB and unpacks to 64 MiB: malformed
.debug_str in Zstd that says 16 bytes and unpacks to 256 MiB: malformed
.debug_line in Zstd that says 2^63 bytes: malformed
calls nested 100,000 deep: malformed
functions that are their own origin: malformed
1,000 functions in a cycle of origins: malformed
3 functions with names in a cycle of origins: malformed
3 functions without code in a cycle of specifications: malformed
a name that demangles to gigabytes: malformed
1,000 names that demangle to gigabytes: malformed
";

fn sound() -> Fixture {
    let text = "static inline int f(int x) { return x * 2; }\nint main(void) { return f(0); }\n";
    Program::c(text).flags(&["-g", "-O1", "-gz=none"]).build()
}

fn upload(server: &Server, bytes: &[u8]) -> Response {
    let url = server.url("/artifacts");
    let request = http::Request {
        method: "POST",
        url: &url,
        headers: &[],
        body: bytes,
    };
    http::send(&request).unwrap_or_else(|| panic!("no answer to an upload\n{}", server.log()))
}

fn symbolize(server: &Server, build_id: &str) -> Value {
    let body = json!({
        "modules": [{ "build_id": build_id, "addresses": ["0x1000", "0x1139"] }],
        "wait_seconds": 10,
    });
    let answer = http::post_json(&server.url("/symbolize"), &body.to_string());
    let answer = answer.unwrap_or_else(|| panic!("no answer about {build_id}\n{}", server.log()));
    assert_eq!(answer.status, 200, "{}\n{}", answer.text(), server.log());
    serde_json::from_slice(&answer.body).expect("JSON")
}

/// Uploads a file and asks for its symbols: the status in the end.
fn outcome(server: &Server, file: &Hostile, build_id: &str) -> String {
    let started = Instant::now();
    let answer = upload(server, &file.bytes);
    let said = match answer.status {
        400..=499 => {
            let problem: Value = serde_json::from_slice(&answer.body).expect("JSON");
            assert!(
                problem["type"].is_string() && problem["detail"].is_string(),
                "{problem}"
            );
            answer.status.to_string()
        }
        200 | 201 => {
            let answer = symbolize(server, build_id);
            let module = &answer["modules"][0];
            let status = module["status"].as_str().unwrap_or("nothing");
            assert!(module["detail"].is_string(), "{}: {module}", file.what);
            status.to_owned()
        }
        status => panic!(
            "{}: {status} {}\n{}",
            file.what,
            answer.text(),
            server.log()
        ),
    };
    let elapsed = started.elapsed();
    assert!(
        elapsed < ANSWER_DEADLINE,
        "{}: {elapsed:?}, {said}",
        file.what
    );
    said
}

fn assert_answers_normally(server: &Server, sound: &Fixture) {
    let answer = upload(server, &sound.bytes());
    assert!(
        matches!(answer.status, 200 | 201),
        "{}\n{}",
        answer.text(),
        server.log()
    );
    let module = &symbolize(server, &sound.build_id())["modules"][0];
    assert_eq!(module["status"], "found", "{module}\n{}", server.log());
}

/// Uploads every file under a build ID of its own, and checks what is true of all of them.
fn survive(sound: &Fixture, files: &[(Hostile, String)]) -> Vec<String> {
    let server = Server::start(UNHEX);
    assert_answers_normally(&server, sound);
    let before = server.memory_bytes();
    let watch = server.watch_memory();
    let said = files
        .iter()
        .map(|(file, id)| format!("{}: {}", file.what, outcome(&server, file, id)))
        .collect();
    let growth = watch.most_bytes().saturating_sub(before);
    assert!(growth < GROWTH_BYTES_MAX, "grew by {growth} bytes");
    assert_answers_normally(&server, sound);
    said
}

/// Gives each file its own build ID, where the file still has one.
fn with_own_build_ids(files: Vec<Hostile>) -> Vec<(Hostile, String)> {
    let own = |(mut file, number): (Hostile, u8)| {
        if let Some(bytes) = hostile::with_build_id(&file.bytes, [number; 20]) {
            file.bytes = bytes;
        }
        (file, format!("{number:02x}").repeat(20))
    };
    files.into_iter().zip(1..).map(own).collect()
}

#[test]
fn hostile_files_are_refused_or_malformed_and_do_no_harm() {
    let sound = sound();
    let files = with_own_build_ids(hostile::all(&sound.bytes()));
    assert!(files.len() >= 20);
    let said = survive(&sound, &files);
    assert_eq!(said, EXPECTED.lines().collect::<Vec<&str>>());
    for said in &said {
        let is_refused = said.ends_with(": 422") || said.ends_with(": malformed");
        assert!(is_refused, "{said}");
    }
}

#[test]
fn files_cut_at_every_section_are_refused_and_do_no_harm() {
    let sound = sound();
    let files = with_own_build_ids(hostile::truncations(&sound.bytes()));
    for said in survive(&sound, &files) {
        assert!(said.ends_with(": 422"), "{said}");
    }
}
