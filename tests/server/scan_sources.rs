//! Sources of scanned binaries: served if the binary names them and they lie under a scanned path.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use unhex::artifacts::InPlace as _;
use unhex_testkit::fixture::build_id_of;
use unhex_testkit::tools;

use crate::scan::{Folder, scan, wait_for};
use crate::server::{RawAnswer, TestServer};

/// The text of the source.
const CODE: &str = "int main(void) { return 0; }\n";

/// Compiles a source where it lies; answers the program's build ID.
fn compile(source: &Path, program: &Path) -> String {
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    let status = Command::new(tools::GCC.path())
        .args(["-g", "-O0", "-o"])
        .args([program, source])
        .status();
    assert!(status.unwrap().success());
    build_id_of(program).unwrap()
}

/// A folder with sources, and one with the program that was built from one of them.
struct Built {
    sources: Folder,
    programs: Folder,
    source: PathBuf,
    id: String,
}

impl Built {
    fn new() -> Self {
        let (sources, programs) = (Folder::new(), Folder::new());
        let source = sources.path().join("dir/p++r$#o^^g.c");
        fs::create_dir_all(source.parent().unwrap()).unwrap();
        fs::write(&source, CODE).unwrap();
        fs::write(sources.path().join("dir/other.c"), "secret").unwrap();
        let id = compile(&source, &programs.path().join("prog"));
        Self {
            sources,
            programs,
            source,
            id,
        }
    }

    async fn server(&self, paths: &[PathBuf]) -> TestServer {
        let paths = paths.iter().map(PathBuf::as_path);
        let server = TestServer::start_with(scan(paths)).await;
        wait_for(&server, "thread_work_total{role=\"traverse\"} 1").await;
        server
    }

    async fn get(&self, server: &TestServer, path: &str) -> RawAnswer {
        let path = path.replace('#', "%23").replace('^', "%5E");
        let path = format!("/buildid/{}/source{path}", self.id);
        server.get_raw(&path).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_is_served_when_it_is_named_and_lies_under_a_scanned_path() {
    let built = Built::new();
    let both = [built.sources.path(), built.programs.path()];
    let server = built.server(&both).await;
    let path = built.source.to_str().unwrap();
    let (folder, name) = path.rsplit_once('/').unwrap();
    for spelling in [
        path.to_owned(),
        format!("/{path}"),
        format!("{folder}/./x/..//{name}"),
    ] {
        let answer = built.get(&server, &spelling).await;
        assert_eq!((answer.status, answer.text()), (200, CODE), "{spelling}");
    }
    let found = built.get(&server, path).await;
    assert_eq!(found.header("x-debuginfod-file"), Some("p++r$#o^^g.c"));
    for absent in [
        format!("{folder}/other.c"),
        folder.to_owned(),
        format!("{path}/"),
        format!("{folder}/nonsense.c"),
        "/etc/passwd".to_owned(),
        format!("{folder}/../../../../../etc/passwd"),
    ] {
        assert_eq!(built.get(&server, &absent).await.status, 404, "{absent}");
    }
    let other = format!("/buildid/abcd/source{path}");
    assert_eq!(server.get_raw(&other.replace('#', "%23")).await.status, 404);
    wait_for(&server, "found_sourcerefs_total{source=\"files\"} 1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_named_and_lies_elsewhere_is_not_served() {
    let built = Built::new();
    let path = built.source.to_str().unwrap();
    let server = built.server(&[built.programs.path()]).await;
    assert_eq!(built.get(&server, path).await.status, 404);
    // Neither by a link that leads out of the scanned folder, whoever made it.
    let folder = built.source.parent().unwrap();
    let moved = Folder::new();
    fs::rename(&built.source, moved.path().join("secret.c")).unwrap();
    symlink(moved.path().join("secret.c"), &built.source).unwrap();
    let both = [built.sources.path(), built.programs.path()];
    let server = built.server(&both).await;
    assert_eq!(built.get(&server, path).await.status, 404);
    // A link within it is as good as a file.
    fs::remove_file(&built.source).unwrap();
    fs::write(folder.join("real.c"), CODE).unwrap();
    symlink("real.c", &built.source).unwrap();
    let answer = built.get(&server, path).await;
    assert_eq!((answer.status, answer.text()), (200, CODE));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_outside_of_all_scanned_paths_is_not_even_touched() {
    let built = Built::new();
    let path = built.source.to_str().unwrap();
    let server = built.server(&[built.programs.path()]).await;
    // A link by which the path would lead into a scanned folder, if anybody followed it.
    fs::rename(&built.source, built.programs.path().join("real.c")).unwrap();
    symlink(built.programs.path().join("real.c"), &built.source).unwrap();
    assert_eq!(built.get(&server, path).await.status, 404);
    // What cannot be opened and is no file is not there either, wherever it lies.
    fs::remove_file(&built.source).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(&built.source).unwrap();
    let both = [built.sources.path(), built.programs.path()];
    let elsewhere = &both[1..];
    for paths in [elsewhere, &both] {
        let server = built.server(paths).await;
        let scan = server.app.scan.as_ref().unwrap();
        let found = scan.source(&built.id.parse().unwrap(), path).await;
        assert!(matches!(found, Ok(None)), "{found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_is_served_by_either_path_of_a_scanned_folder_that_is_a_link() {
    let built = Built::new();
    let path = built.source.to_str().unwrap().to_owned();
    let link = built.programs.path().join("link");
    symlink(built.sources.path(), &link).unwrap();
    // The program names a path by the link.
    let by_link = link.join("dir/p++r$#o^^g.c");
    let id = compile(&by_link, &built.programs.path().join("other"));
    let other = Built { id, ..built };
    let server = other.server(&[link, other.programs.path()]).await;
    let answer = other.get(&server, by_link.to_str().unwrap()).await;
    assert_eq!((answer.status, answer.text()), (200, CODE));
    assert_eq!(other.get(&server, &path).await.status, 404, "not named");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_under_a_scanned_folder_that_is_away_is_not_known() {
    let built = Built::new();
    let path = built.source.to_str().unwrap();
    let id = built.id.parse().unwrap();
    let root = built.source.parent().unwrap();
    let server = built
        .server(&[root.to_owned(), built.programs.path()])
        .await;
    assert_eq!(built.get(&server, path).await.status, 200);
    let away = root.with_extension("away");
    fs::rename(root, &away).unwrap();
    let scan = server.app.scan.as_ref().unwrap();
    let found = scan.source(&id, path).await;
    assert!(found.is_err(), "{found:?}");
    fs::rename(&away, root).unwrap();
    assert_eq!(built.get(&server, path).await.status, 200);
}
