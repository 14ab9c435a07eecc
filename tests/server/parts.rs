//! Parts of what is stored: sections of files, and files of bundles of sources.

use std::path::Path;
use std::process::Command;

use crate::stored::{PROGRAM, get_with, path, shown, with_program};

/// A section's bytes as binutils see them.
fn dumped(file: &Path, name: &str) -> Vec<u8> {
    let output = tempfile::NamedTempFile::new().unwrap();
    let status = Command::new("objcopy")
        .arg(format!("--dump-section={name}={}", output.path().display()))
        .args([file, Path::new("/dev/null")])
        .status()
        .unwrap();
    assert!(status.success());
    std::fs::read(output.path()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_comes_from_the_debuginfo_first_and_else_from_the_executable() {
    let server = with_program().await;
    let info = server.get_raw(&path("section/.debug_info")).await;
    assert_eq!(info.status, 200);
    assert!(info.body == dumped(&PROGRAM.debug_only(), ".debug_info"));
    assert_eq!(info.header("x-debuginfod-file"), Some("prog.debuginfo"));
    let size = info.body.len().to_string();
    assert_eq!(info.header("x-debuginfod-size"), Some(size.as_str()));
    let text = server.get_raw(&path("section/.text")).await;
    assert!(text.body == dumped(&PROGRAM.stripped(), ".text"));
    assert_eq!(text.header("x-debuginfod-file"), Some("prog.executable"));
    let part = get_with(&server, &path("section/.text"), "Range: bytes=2-4").await;
    assert!(part.body == text.body[2..5]);
    for absent in [".bss", ".nonsense", "a/b"] {
        let answer = server.get_raw(&path(&format!("section/{absent}"))).await;
        assert_eq!(
            (answer.status, answer.text()),
            (404, "not found"),
            "{absent}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_is_found_under_every_spelling_of_its_path_and_no_other() {
    let server = with_program().await;
    for (spelling, text) in [
        ("/fixture/main.c", "int main"),
        ("//fixture//main.c", "int main"),
        ("/./fixture/x/../main.c", "int main"),
        ("/../../fixture/main.c", "int main"),
        ("/%66ixture%2Fmain.c", "int main"),
        ("%2Ffixture/main.c", "int main"),
        ("/fixture/%2e/main.c?x=y", "int main"),
        ("/fixture/p++r$%23o%5E%5Eg.c", "strange"),
        ("/fixture/p%2B%2Br%24%23o%5E%5Eg.c", "strange"),
        ("/fixture/p%2b%2br%24%23o%5e%5eg.c", "strange"),
        ("/fixture/a%20b%3Bc%21/%C3%A9.h", "stranger"),
        ("/fixture/a%20b;c!/é.h", "stranger"),
        ("/fixture/empty.h", ""),
    ] {
        let answer = server.get_raw(&path(&format!("source{spelling}"))).await;
        assert_eq!((answer.status, answer.text()), (200, text), "{spelling}");
    }
    for absent in [
        "/fixture/main.c/",
        "/Fixture/main.c",
        "/main.c",
        "/fixture/p%252B%252Br%24%23o%5E%5Eg.c",
        "/fixture/p  r$%23o%5E%5Eg.c".replace(' ', "%20").as_str(),
        "/etc/passwd",
        "/fixture/../../../../etc/passwd",
        "/",
    ] {
        let answer = server.get_raw(&path(&format!("source{absent}"))).await;
        assert_eq!(
            (answer.status, answer.text()),
            (404, "not found"),
            "{absent}"
        );
    }
    let answer = server.get_raw(&path("source/fixture/main.c")).await;
    insta::assert_snapshot!(shown(&answer), @"
    200
    last-modified: [DATE]
    etag: [66 characters]
    cache-control: max-age=3600
    accept-ranges: bytes
    x-debuginfod-size: 8
    x-debuginfod-file: main.c
    content-type: application/octet-stream
    content-length: 8
    connection: close
    ");
}
