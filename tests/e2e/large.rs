//! A file of a gigabyte goes in and out without lying in memory.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::hostile::{self, SectionField};
use unhex_testkit::{run, tools};

use crate::stores::{Store, on_every_store};

on_every_store!(a_file_of_a_gigabyte_does_not_lie_in_memory,);

const FILE_BYTES: u64 = 1 << 30;

/// What the server may have resident meanwhile, its children too.
const MEMORY_BYTES_MAX: u64 = 200 << 20;

/// A sound debug file with a comment of a gigabyte, which is a hole on this disk.
fn large_file(folder: &Path) -> (Fixture, PathBuf) {
    let program = Program::c("int main(void) { return 0; }")
        .flags(&["-g"])
        .build();
    let sound = program.bytes();
    let start = sound.len() as u64;
    let bytes = hostile::with_section(&sound, ".comment", SectionField::Offset, start);
    let bytes = hostile::with_section(&bytes, ".comment", SectionField::Size, FILE_BYTES - start);
    let path = folder.join("large");
    std::fs::write(&path, bytes).expect("written");
    let file = File::options().write(true).open(&path).expect("opened");
    file.set_len(FILE_BYTES).expect("lengthened");
    (program, path)
}

fn a_file_of_a_gigabyte_does_not_lie_in_memory(store: Store) {
    let Some(curl) = tools::CURL.find() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (program, path) = large_file(folder.path());
    let Some(server) = store.server() else {
        return;
    };
    let url = server.url(&format!("/buildid/{}/debuginfo", program.build_id()));
    let watch = server.watch_memory();
    let curl = || {
        let mut command = Command::new(&curl);
        command.args([
            "--silent",
            "--show-error",
            "--fail-with-body",
            "--noproxy",
            "*",
        ]);
        command
    };
    run::succeed(curl().arg("--upload-file").arg(&path).arg(&url));
    let downloaded = curl()
        .args(["--output", "/dev/null", "--write-out", "%{size_download}"])
        .arg(&url)
        .output();
    let size = String::from_utf8(downloaded.expect("curl runs").stdout).expect("ASCII");
    assert_eq!(size, FILE_BYTES.to_string(), "{}", server.log());
    let most = watch.most_bytes();
    assert!(most > 0 && most < MEMORY_BYTES_MAX, "{most} bytes resident");
}
