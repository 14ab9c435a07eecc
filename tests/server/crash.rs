//! kill -9 of a real server during uploads, a disk that is full, and memory while files pass through.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use unhex_testkit::fixture::Program;
use unhex_testkit::http::{self, Request};
use unhex_testkit::server::{Home, Server};

use crate::calls::CODE;

const UNHEX: &str = env!("CARGO_BIN_EXE_unhex");
const KILLS: u32 = 20;
const UPLOADERS: u8 = 3;
/// The build ID that is replaced by another one in each copy.
const PINNED: &str = "5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e";

/// A file and the build ID that it has.
struct File {
    id: String,
    bytes: Vec<u8>,
}

/// What an uploader did before the kill.
struct Attempt {
    file: File,
    acknowledged: bool,
}

/// Copies of one program under build IDs of their own, with so many bytes behind them.
fn copy_of(program: &[u8], number: u32, padding_bytes: usize) -> File {
    let pinned = [0x5c, 0xa1, 0xab, 0x1e].repeat(5);
    let at = program
        .windows(20)
        .position(|window| window == pinned)
        .unwrap();
    let mut bytes = program.to_vec();
    bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
    // Not zeros: a hole must not pass for data.
    bytes.extend(std::iter::repeat_n(
        number.to_be_bytes()[3] | 1,
        padding_bytes,
    ));
    File {
        id: format!("{number:08x}{}", &PINNED[8..]),
        bytes,
    }
}

fn program() -> Vec<u8> {
    Program::c(CODE)
        .flags(&["-O1", "-g"])
        .build_id(PINNED)
        .build()
        .bytes()
}

fn put(server: &Server, file: &File) -> Option<u16> {
    let url = server.url(&format!("/buildid/{}/debuginfo", file.id));
    http::put(&url, &file.bytes).map(|answer| answer.status)
}

/// What the server serves of a file.
fn get(server: &Server, file: &File) -> Option<Vec<u8>> {
    let url = server.url(&format!("/buildid/{}/debuginfo", file.id));
    let answer = http::get(&url).unwrap();
    match answer.status {
        200 => Some(answer.body),
        404 => None,
        status => panic!("{}: {status} {}", file.id, answer.text()),
    }
}

#[test]
fn after_a_kill_at_any_instant_every_artifact_is_absent_or_whole() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let program = program();
    let mut home = Home::new();
    let (mut whole, mut absent, mut number) = (0, 0, 0_u32);
    for _ in 0..KILLS {
        let server = Server::start_in(home, UNHEX, &[]);
        let attempts = Mutex::new(Vec::new());
        let instant = Duration::from_micros(random.random_range(5_000..300_000));
        let killed = std::thread::scope(|scope| {
            for uploader in 0..UPLOADERS {
                let first = number + u32::from(uploader) * 1_000;
                let (server, attempts, program) = (&server, &attempts, &program);
                let padding_bytes = random.random_range(0..400_000);
                scope.spawn(move || {
                    for number in first..first + 1_000 {
                        let file = copy_of(program, number, padding_bytes);
                        let acknowledged = matches!(put(server, &file), Some(200 | 201));
                        attempts
                            .lock()
                            .unwrap()
                            .push(Attempt { file, acknowledged });
                        if !acknowledged {
                            return;
                        }
                    }
                });
            }
            std::thread::sleep(instant);
            kill(&server)
        });
        assert!(killed, "it ran until it was killed");
        number += u32::from(UPLOADERS) * 1_000;
        home = server.kill();
        let server = Server::start_in(home, UNHEX, &[]);
        for Attempt { file, acknowledged } in attempts.into_inner().unwrap() {
            if let Some(bytes) = get(&server, &file) {
                whole += 1;
                assert!(bytes == file.bytes, "{} is damaged", file.id);
                continue;
            }
            absent += 1;
            assert!(!acknowledged, "{} was acknowledged and is lost", file.id);
            let status = put(&server, &file);
            assert!(matches!(status, Some(200 | 201)), "{}: {status:?}", file.id);
            assert!(get(&server, &file).unwrap() == file.bytes, "{}", file.id);
        }
        home = server.kill();
        let staged = staged_files(&home.data());
        // The second server was killed too; only its own folder may be left.
        assert!(
            staged <= usize::from(UPLOADERS),
            "{staged} staged files were left behind"
        );
    }
    println!("{whole} whole, {absent} absent");
    assert!(
        whole > 0 && absent > 0,
        "{whole} whole, {absent} absent: kills at other instants"
    );
}

/// Sends SIGKILL; whether the server was still running.
fn kill(server: &Server) -> bool {
    let id = i32::try_from(server.id()).unwrap();
    let id = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::KILL).is_ok()
}

fn staged_files(data: &Path) -> usize {
    walkdir::WalkDir::new(data.join("staging"))
        .into_iter()
        .filter(|entry| {
            entry
                .as_ref()
                .is_ok_and(|entry| entry.file_type().is_file())
        })
        .count()
}

#[test]
fn a_file_that_the_disk_cannot_take_is_refused_and_a_smaller_one_still_comes_in() {
    let home = Home::new();
    let script = home.path().join("limited");
    // dash counts in blocks of 512 bytes.
    let text = format!("#!/bin/sh\nulimit -f 2000\nexec '{UNHEX}' \"$@\"\n");
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::start_in(home, &script, &[]);
    let program = program();
    let large = copy_of(&program, 1, 2_000_000);
    assert_eq!(put(&server, &large), Some(507));
    assert_eq!(get(&server, &large), None);
    let small = copy_of(&program, 1, 100_000);
    assert_eq!(put(&server, &small), Some(201));
    assert!(get(&server, &small).unwrap() == small.bytes);
    assert_eq!(staged_files(&server.home().data()), 0);
}

#[test]
fn large_files_pass_through_in_constant_memory() {
    let server = Server::start(UNHEX);
    let before = server.peak_memory_bytes();
    let file = copy_of(&program(), 7, 200 << 20);
    let compressed = zstd::encode_all(&*file.bytes, 1).unwrap();
    for (body, encoding) in [(&compressed, "zstd"), (&file.bytes, "identity")] {
        let url = server.url(&format!("/buildid/{}/debuginfo", file.id));
        let answer = http::send(&Request {
            method: "PUT",
            url: &url,
            headers: &[("content-encoding", encoding)],
            body,
        });
        let answer = answer.unwrap();
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
        assert!(get(&server, &file).unwrap() == file.bytes);
    }
    let grown = server.peak_memory_bytes() - before;
    println!("peak resident memory grew by {} MiB", grown >> 20);
    assert!(
        grown < 100 << 20,
        "peak resident memory grew by {} MiB",
        grown >> 20
    );
}
