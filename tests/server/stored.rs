//! A server with something stored: a program, its debug information, its sources.

use std::io::Write as _;
use std::sync::LazyLock;

use unhex::artifacts::record::Provenance;
use unhex::artifacts::{ArtifactKind, ContentEncoding, Origin, Target, Upload};
use unhex_build_id::{IdKind, Identity};
use unhex_testkit::fixture::{Fixture, Program};

use crate::server::{RawAnswer, TestServer};

/// A small program.
pub static PROGRAM: LazyLock<Fixture> = LazyLock::new(|| {
    Program::c(
        "int twice(int n) { return 2 * n; } int bss[100]; int main(void) { return twice(bss[0]); }",
    )
    .flags(&["-g", "-O0"])
    .build_id("0123456789abcdef0123456789abcdef01234567")
    .build()
});

/// A program of 24 MiB.
pub static LARGE: LazyLock<Fixture> = LazyLock::new(|| {
    Program::c("char large[24 << 20] = {1}; int main(void) { return large[0]; }")
        .flags(&["-g"])
        .build()
});

/// Paths and texts of its sources.
const SOURCES: [(&str, &str); 4] = [
    ("fixture/main.c", "int main"),
    ("fixture/p++r$#o^^g.c", "strange"),
    ("fixture/a b;c!/é.h", "stranger"),
    ("fixture/empty.h", ""),
];

/// A zip of sources as uploads have it.
pub fn sources() -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (path, text) in SOURCES {
        zip.start_file(path, zip::write::SimpleFileOptions::default())
            .unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Stores `bytes` as a file of a build.
pub async fn store(server: &TestServer, id: &str, kind: ArtifactKind, bytes: Vec<u8>) {
    let artifacts = &server.app.artifacts;
    let mut receiver = artifacts.receive(ContentEncoding::Identity);
    receiver.write(bytes.into()).await.unwrap();
    let upload = Upload {
        target: Target::Named {
            identity: Identity::parse(IdKind::Gnu, id).unwrap(),
            kind,
        },
        origin: Origin::Upload,
        provenance: Provenance {
            file_name: Some(format!("/home/ci/prog.{}", kind.as_str())),
            ..Provenance::default()
        },
    };
    let received = receiver.finish().await.unwrap();
    artifacts.ingest(received, upload).await.unwrap();
}

/// A server that has [`PROGRAM`], stripped, its debug information and its sources.
pub async fn with_program() -> TestServer {
    let server = TestServer::start().await;
    let id = PROGRAM.build_id();
    for (kind, path) in [
        (ArtifactKind::Executable, PROGRAM.stripped()),
        (ArtifactKind::Debuginfo, PROGRAM.debug_only()),
    ] {
        store(&server, &id, kind, std::fs::read(path).unwrap()).await;
    }
    store(&server, &id, ArtifactKind::Sources, sources()).await;
    server
}

/// A path under the build ID of [`PROGRAM`].
pub fn path(rest: &str) -> String {
    format!("/buildid/{}/{rest}", PROGRAM.build_id())
}

/// A GET with one more header line.
pub async fn get_with(server: &TestServer, path: &str, header: &str) -> RawAnswer {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: t\r\n{header}\r\nConnection: close\r\n\r\n");
    server.raw(&request).await
}

/// The header lines without what changes from run to run.
pub fn shown(answer: &RawAnswer) -> String {
    let lines = answer
        .headers
        .iter()
        .map(|line| match line.split_once(": ") {
            Some(("last-modified", _)) => "last-modified: [DATE]".to_owned(),
            Some(("etag", tag)) => format!("etag: [{} characters]", tag.len()),
            Some(("content-length" | "x-debuginfod-size", n)) if n.len() > 3 => {
                line.replace(n, "[SIZE]")
            }
            _ => line.clone(),
        });
    format!(
        "{}\n{}",
        answer.status,
        lines.collect::<Vec<_>>().join("\n")
    )
}
