//! Scanned folders that are away, and files that could not be read: what is not known is not absent.

use std::fs;
use std::path::{Path, PathBuf};

use unhex::artifacts::{ArtifactKind, InPlace as _, LocateError};
use unhex_build_id::BuildId;

use crate::calls;
use crate::scan::{Folder, get, metrics, rescan, scan, wait_for};
use crate::scan_archives::tar_of;
use crate::server::{DEADLINE, TestServer};
use crate::stored::{PROGRAM, store};

/// A server that has scanned these paths.
async fn over(paths: &[&Path]) -> TestServer {
    let server = TestServer::start_with(scan(paths.iter().copied())).await;
    wait_for(&server, "thread_work_total{role=\"traverse\"} 1").await;
    server
}

/// A build ID that nobody has.
fn unknown() -> BuildId {
    "abcd".parse().unwrap()
}

/// Whether the scanned folders have the executable of a build ID; `None` when they cannot say.
async fn has(server: &TestServer, id: &BuildId) -> Option<bool> {
    let scan = server.app.scan.as_ref().unwrap();
    match scan.locate(id, ArtifactKind::Executable).await {
        Ok(found) => Some(found.is_some()),
        Err(LocateError::InPlace { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

fn program() -> BuildId {
    PROGRAM.build_id().parse().unwrap()
}

/// Moves a folder away; answers where it is.
fn take_away(root: &Path) -> PathBuf {
    let away = root.with_extension("away");
    fs::rename(root, &away).unwrap();
    away
}

/// A folder and the scanned folder in it, with the program.
fn root() -> (Folder, PathBuf) {
    let folder = Folder::new();
    folder.put("root/prog", PROGRAM.stripped());
    let root = folder.path().join("root");
    (folder, root)
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_folder_is_missing_from_the_start_nothing_is_absent_and_it_is_served_once_it_comes()
{
    let (folder, root) = root();
    let away = take_away(&root);
    let other = Folder::new();
    let server = over(&[&other.path(), &root]).await;
    assert_eq!(has(&server, &unknown()).await, None);
    assert_eq!(server.get_raw("/readyz").await.status, 200);
    wait_for(&server, "unhex_scan_unread 1").await;
    let found = server.get_raw("/metadata?key=glob&value=/*").await;
    assert!(
        found.text().contains("\"complete\":false"),
        "{}",
        found.text()
    );
    // Whoever asks meanwhile is held, and has it as soon as the folder is there.
    fs::rename(away, &root).unwrap();
    let answer = get(&server, "executable").await;
    assert_eq!(answer.status, 200);
    assert!(answer.body == calls::bytes(PROGRAM.stripped()));
    wait_for(&server, "unhex_scan_unread 0").await;
    assert_eq!(has(&server, &unknown()).await, Some(false));
    drop(folder);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_folder_has_that_goes_away_is_not_known_until_it_is_back_and_then_there_at_once() {
    let (_folder, root) = root();
    let server = over(&[&root]).await;
    assert_eq!(has(&server, &program()).await, Some(true));
    let away = take_away(&root);
    for _ in 0..2 {
        assert_eq!(has(&server, &program()).await, None);
        assert_eq!(has(&server, &unknown()).await, None);
    }
    server.app.scan.as_ref().unwrap().groom();
    wait_for(&server, "groomed_total{decision=\"fresh\"} 1").await;
    fs::rename(&away, &root).unwrap();
    assert_eq!(has(&server, &program()).await, Some(true));
    assert_eq!(has(&server, &unknown()).await, Some(false));
    // Nor does a scan forget it meanwhile.
    fs::rename(&root, &away).unwrap();
    rescan(&server, 2).await;
    wait_for(&server, "unhex_scan_unread 1").await;
    assert_eq!(has(&server, &program()).await, None);
    fs::rename(&away, &root).unwrap();
    assert_eq!(has(&server, &program()).await, Some(true));
    // A file that is gone while its folder is there is gone.
    fs::remove_file(root.join("prog")).unwrap();
    let gone = async {
        while has(&server, &program()).await.is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        has(&server, &program()).await
    };
    let gone = tokio::time::timeout(DEADLINE, gone).await;
    assert_eq!(gone.unwrap(), Some(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_while_its_folder_is_away_remembers_what_was_there() {
    let (folder, root) = root();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&root, &link).unwrap();
    let data = over(&[&link]).await.stop().await;
    let away = take_away(&root);
    let server = TestServer::start_in(data, scan([&*link])).await;
    assert_eq!(has(&server, &program()).await, None);
    wait_for(&server, "thread_work_total{role=\"traverse\"} 1").await;
    assert_eq!(has(&server, &program()).await, None);
    assert_eq!(has(&server, &unknown()).await, None);
    fs::rename(&away, &root).unwrap();
    assert_eq!(has(&server, &program()).await, Some(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_this_server_had_no_disk_for_is_not_known_and_looked_at_again() {
    let folder = Folder::new();
    let server = over(&[&folder.path()]).await;
    // Larger than what is looked at in memory.
    let mut program = calls::bytes(PROGRAM.stripped());
    program.resize(5 << 20, 0);
    fs::write(
        folder.path().join("a.tar"),
        tar_of(&[("./usr/bin/prog", &program)]),
    )
    .unwrap();
    let staging = server.app.artifacts.staging_folder().to_owned();
    fs::remove_dir_all(&staging).unwrap();
    rescan(&server, 2).await;
    assert!(
        metrics(&server)
            .await
            .contains("unhex_scan_errors_total 1\n")
    );
    for id in [self::program(), unknown()] {
        assert_eq!(has(&server, &id).await, None, "{id}");
    }
    fs::create_dir(&staging).unwrap();
    rescan(&server, 3).await;
    wait_for(&server, "unhex_scan_unread 0").await;
    assert_eq!(has(&server, &self::program()).await, Some(true));
    assert_eq!(has(&server, &unknown()).await, Some(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_archive_that_changed_is_not_known_until_it_was_looked_at() {
    let folder = Folder::new();
    let archive = folder.path().join("a.tar");
    let program = calls::bytes(PROGRAM.stripped());
    fs::write(&archive, tar_of(&[("prog", &program)])).unwrap();
    let server = over(&[&folder.path()]).await;
    assert_eq!(has(&server, &self::program()).await, Some(true));
    let more = tar_of(&[("other", b"text"), ("prog", &program)]);
    fs::write(&archive, more).unwrap();
    assert_eq!(has(&server, &self::program()).await, None);
    let answer = get(&server, "executable").await;
    assert!(answer.status == 200 && answer.body == program);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_is_served_while_a_better_file_is_away() {
    let (_folder, root) = root();
    fs::write(root.join("prog"), PROGRAM.bytes()).unwrap();
    let server = over(&[&root]).await;
    let poor = calls::bytes(PROGRAM.objcopy("symtab", &["--strip-debug"]));
    let kind = ArtifactKind::Executable;
    store(&server, &PROGRAM.build_id(), kind, poor.clone()).await;
    assert!(get(&server, "executable").await.body == PROGRAM.bytes());
    take_away(&root);
    let stored = server.app.artifacts.locate(&program(), kind).await;
    assert!(stored.unwrap().is_some());
    assert!(get(&server, "executable").await.body == poor);
    assert_eq!(get(&server, "section/.text").await.status, 200);
}
