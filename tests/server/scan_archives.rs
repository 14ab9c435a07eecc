//! Packages and archives in scanned folders: their members are served, unpacked when asked for.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use futures_util::future::join_all;

use crate::calls;
use crate::scan::{Folder, get, metrics, over, over_with, rescan, wait_for};
use crate::server::TestServer;
use crate::stored::{PROGRAM, store};

/// When all members were changed last.
const MODIFIED: u64 = 784_111_777;

/// A tar archive.
pub fn tar_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(MODIFIED);
        // Hostile names too, which the builder would refuse.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

/// An RPM package: lead, two empty headers, and a compressed cpio.
fn rpm_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut cpio = Vec::new();
    for (name, bytes) in members.iter().chain([&("TRAILER!!!", &[] as &[u8])]) {
        let mut fields = [0_u64; 13];
        (fields[1], fields[5]) = (0o100_644, MODIFIED);
        (fields[6], fields[11]) = (bytes.len() as u64, name.len() as u64 + 1);
        cpio.extend(b"070701");
        for field in fields {
            cpio.extend(format!("{field:08x}").bytes());
        }
        for part in [name.as_bytes(), &[0]] {
            cpio.extend(part);
        }
        cpio.resize(cpio.len().next_multiple_of(4), 0);
        cpio.extend(*bytes);
        cpio.resize(cpio.len().next_multiple_of(4), 0);
    }
    let mut rpm = vec![0xed, 0xab, 0xee, 0xdb];
    rpm.resize(96, 0);
    for _ in 0..2 {
        rpm.extend([0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    rpm.extend(zstd::encode_all(cpio.as_slice(), 1).unwrap());
    rpm
}

/// A Debian package, by Debian's own tool.
fn deb(folder: &Folder, name: &str) {
    let tree = Folder::new();
    tree.put("usr/bin/prog", PROGRAM.stripped());
    tree.put("usr/lib/debug/prog.debug", PROGRAM.debug_only());
    fs::create_dir(tree.path().join("DEBIAN")).unwrap();
    let control =
        "Package: prog\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n";
    fs::write(tree.path().join("DEBIAN/control"), control).unwrap();
    let built = Command::new("dpkg-deb")
        .args(["--root-owner-group", "--build"])
        .args([tree.path(), folder.path().join(name)])
        .output()
        .unwrap();
    assert!(built.status.success(), "{built:?}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The program as a package has it.
fn program() -> [(&'static str, Vec<u8>); 3] {
    [
        ("./usr/bin/prog", calls::bytes(PROGRAM.stripped())),
        (
            "./usr/lib/debug/prog.debug",
            calls::bytes(PROGRAM.debug_only()),
        ),
        ("./fixture/main.c", b"int main".to_vec()),
    ]
}

/// Makes an archive of members.
type Archive = fn(&[(&str, &[u8])]) -> Vec<u8>;

fn with(members: &[(&'static str, Vec<u8>)], archive: Archive) -> Vec<u8> {
    let members = members
        .iter()
        .map(|(name, bytes)| (*name, bytes.as_slice()));
    archive(&members.collect::<Vec<_>>())
}

async fn serves_the_program(server: &TestServer, archive: &Path) {
    for (what, file, member) in [
        (
            "debuginfo",
            PROGRAM.debug_only(),
            "/usr/lib/debug/prog.debug",
        ),
        ("executable", PROGRAM.stripped(), "/usr/bin/prog"),
    ] {
        let answer = get(server, what).await;
        let name = archive.display();
        assert_eq!(
            answer.status,
            200,
            "{what} of {name}: {}",
            String::from_utf8_lossy(&answer.body)
        );
        assert!(answer.body == calls::bytes(file), "{what} of {name}");
        assert_eq!(answer.header("x-debuginfod-file"), Some(member), "{name}");
        assert_eq!(
            answer.header("x-debuginfod-archive"),
            archive.to_str(),
            "{name}"
        );
    }
    let text = get(server, "section/.text").await;
    assert!(text.status == 200 && !text.body.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_every_kind_of_archive_are_served() {
    let (tar, rpm) = (with(&program(), tar_of), with(&program(), rpm_of));
    let archives: [(&str, Vec<u8>); 6] = [
        ("a.tar", tar.clone()),
        ("a.tar.gz", gzip(&tar)),
        ("a.tar.xz", xz(&tar)),
        ("a.tar.bz2", bzip2(&tar)),
        ("a.tar.zst", zstd::encode_all(tar.as_slice(), 1).unwrap()),
        ("a.rpm", rpm),
    ];
    for (name, bytes) in archives {
        let folder = Folder::new();
        fs::write(folder.path().join(name), bytes).unwrap();
        let server = over(&folder).await;
        serves_the_program(&server, &folder.path().join(name)).await;
        let answer = get(&server, "executable").await;
        let modified = answer.header("last-modified").unwrap();
        assert_eq!(modified, "Sun, 06 Nov 1994 08:49:37 GMT", "{name}");
        let source = get(&server, "source/fixture/main.c").await;
        assert_eq!((source.status, source.text()), (200, "int main"), "{name}");
        let (_, ending) = name.split_once('.').unwrap();
        let found = format!("found_debuginfo_total{{source=\".{ending} archive\"}} 1");
        assert!(metrics(&server).await.contains(&found), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_debian_package_is_served() {
    let folder = Folder::new();
    deb(&folder, "prog_1_all.deb");
    let server = over(&folder).await;
    serves_the_program(&server, &folder.path().join("prog_1_all.deb")).await;
    let found = server.get_raw("/metadata?key=glob&value=/usr/bin/*").await;
    let found: serde_json::Value = serde_json::from_slice(&found.body).unwrap();
    let archive = folder.path().join("prog_1_all.deb");
    assert_eq!(
        found["results"][0]["archive"],
        archive.to_str().unwrap(),
        "{found}"
    );
    assert_eq!(found["results"][0]["file"], "/usr/bin/prog");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_ask_at_once_share_one_unpacking_and_a_small_folder_still_serves() {
    let folder = Folder::new();
    fs::write(folder.path().join("a.tar"), with(&program(), tar_of)).unwrap();
    let server = over_with(&folder, |config| config.limits.scan_members_bytes_max = 1).await;
    let answers = join_all((0..16).map(|_| get(&server, "debuginfo"))).await;
    for answer in answers {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.body == calls::bytes(PROGRAM.debug_only()));
    }
    // What is larger than the folder goes with the last answer.
    wait_for(&server, "unhex_cache_bytes{cache=\"scanned_members\"} 0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_is_replaced_or_gone_is_not_served_from_the_unpacked() {
    let folder = Folder::new();
    let archive = folder.path().join("a.tar");
    fs::write(&archive, with(&program(), tar_of)).unwrap();
    let server = over(&folder).await;
    assert_eq!(get(&server, "debuginfo").await.status, 200);
    fs::write(&archive, with(&program()[..1], tar_of)).unwrap();
    // It is scanned anew by itself, and until then nobody knows.
    assert_eq!(get(&server, "debuginfo").await.status, 404);
    assert_eq!(get(&server, "executable").await.status, 200);
    fs::remove_file(&archive).unwrap();
    assert_eq!(get(&server, "executable").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_archives_are_bounded_and_stop_nobody() {
    let folder = Folder::with_program();
    let escaping = [("../../../outside", calls::bytes(PROGRAM.path()))];
    let tar = with(&program(), tar_of);
    for (name, bytes) in [
        ("empty.tar", Vec::new()),
        ("cut.tar", tar[..tar.len() / 3].to_vec()),
        ("cut.tar.xz", xz(&tar)[..500].to_vec()),
        ("noise.rpm", vec![0xed; 4_000]),
        ("noise.deb", b"!<arch>\nnonsense".to_vec()),
        (
            "bomb.tar.zst",
            zstd::encode_all(vec![0; 1 << 24].as_slice(), 1).unwrap(),
        ),
        ("escaping.tar", with(&escaping, tar_of)),
    ] {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let server = over_with(&folder, |config| {
        config.limits.scan_member_bytes_max = 8 << 20;
    })
    .await;
    assert_eq!(get(&server, "debuginfo").await.status, 200);
    assert!(!folder.path().parent().unwrap().join("outside").exists());
    // What is damaged is not looked at again until it changes.
    let old = std::time::SystemTime::now() - std::time::Duration::from_mins(1);
    for entry in fs::read_dir(folder.path()).unwrap() {
        let file = fs::File::open(entry.unwrap().path()).unwrap();
        file.set_modified(old).unwrap();
    }
    rescan(&server, 2).await;
    let errors = |text: String| {
        let line = text
            .lines()
            .find(|line| line.starts_with("unhex_scan_errors_total"));
        line.unwrap().to_owned()
    };
    let before = errors(metrics(&server).await);
    rescan(&server, 3).await;
    assert_eq!(errors(metrics(&server).await), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_of_a_packed_program_is_made_and_an_upload_still_counts() {
    let folder = Folder::new();
    deb(&folder, "prog_1_all.deb");
    let server = over(&folder).await;
    let body = serde_json::json!({
        "modules": [{"build_id": PROGRAM.build_id(), "addresses": ["0x1"]}], "wait_seconds": 20,
    });
    let answer = crate::symbolize::symbolize(&server, &body).await;
    assert_eq!(
        answer.modules[0].status,
        unhex_api::symbolize::ModuleStatus::Found
    );
    let kind = unhex::artifacts::ArtifactKind::Debuginfo;
    store(&server, &PROGRAM.build_id(), kind, PROGRAM.bytes()).await;
    let answer = get(&server, "debuginfo").await;
    assert!(answer.body == PROGRAM.bytes());
    assert_eq!(answer.header("x-debuginfod-archive"), None);
}
