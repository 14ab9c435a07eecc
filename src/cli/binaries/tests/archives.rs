//! Tests of archives that are sound, damaged or hostile.

use std::fs;
use std::io::Write as _;

use tempfile::TempDir;

use super::super::{Finding, SearchOptions};
use super::builders::{ar_of, cpio_of, gzip, rpm_of, tar_of};
use super::{all, program, search, words};
use crate::archive::ArchiveLimits;

fn small() -> SearchOptions {
    SearchOptions {
        limits: ArchiveLimits {
            member_bytes_max: 64 << 10,
            unpacked_bytes_min: 1 << 20,
            expansion_max: 1,
            members_max: 100,
            ..ArchiveLimits::default()
        },
        ..SearchOptions::default()
    }
}

#[test]
fn binaries_are_found_in_all_archive_formats() {
    let folder = TempDir::new().unwrap();
    let program = program().bytes();
    let tar = tar_of(&[("readme", b"hello"), ("usr/bin/app", &program)]);
    let xz = |bytes: &[u8]| liblzma::encode_all(bytes, 1).unwrap();
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write("a.tar", &tar);
    write("b.tgz", &gzip(&tar));
    write("c.tar.xz", &xz(&tar));
    write("d.tar.zst", &zstd(&tar));
    let control = ("control.tar.gz", &b"odd"[..]);
    for (name, data) in [
        ("data.tar.gz", gzip(&tar)),
        ("data.tar.xz", xz(&tar)),
        ("data.tar", tar.clone()),
    ] {
        let deb = ar_of(&[("debian-binary", b"2.0\n"), control, (name, &data)]);
        write(&format!("e-{name}.deb"), &deb);
    }
    let cpio = cpio_of(&[
        ("./usr", 0o040_755, &[]),
        ("./usr/bin/app", 0o100_755, &program),
        ("./n", 0o100_644, b"hello"),
    ]);
    write("f.rpm", &rpm_of(&zstd(&cpio)));
    let mut zip = zip::ZipWriter::new(fs::File::create(folder.path().join("g.zip")).unwrap());
    let entry = zip::write::SimpleFileOptions::default();
    zip.start_file("usr/bin/app", entry).unwrap();
    zip.write_all(&program).unwrap();
    zip.finish().unwrap();
    let expected = [
        "a.tar!usr/bin/app Both",
        "b.tgz!usr/bin/app Both",
        "c.tar.xz!usr/bin/app Both",
        "d.tar.zst!usr/bin/app Both",
        "e-data.tar.deb!usr/bin/app Both",
        "e-data.tar.gz.deb!usr/bin/app Both",
        "e-data.tar.xz.deb!usr/bin/app Both",
        "f.rpm!./usr/bin/app Both",
        "g.zip!usr/bin/app Both",
    ];
    assert_eq!(all(&folder), expected);
}

#[test]
fn what_is_unpacked_is_the_member_and_goes_away() {
    let folder = TempDir::new().unwrap();
    let program = program().bytes();
    let path = folder.path().join("a.tar");
    fs::write(
        &path,
        tar_of(&[("../../escape", &program), ("/tmp/\x1b[2Jx", &program)]),
    )
    .unwrap();
    let findings = search(&[&path], &SearchOptions::default());
    let [Finding::Binary(first), Finding::Binary(second)] = findings.as_slice() else {
        panic!("{findings:?}");
    };
    assert!(first.label.to_string().ends_with("a.tar!../../escape"));
    assert!(
        second
            .label
            .to_string()
            .ends_with("a.tar!/tmp/\u{fffd}[2Jx")
    );
    assert_eq!(first.file_name, "escape");
    let unpacked = first.content.path().to_owned();
    assert_eq!(fs::read(&unpacked).unwrap(), program);
    assert!(!folder.path().join("../../escape").exists());
    drop(findings);
    assert!(!unpacked.exists());
}

#[test]
fn bombs_end_in_an_error_and_what_came_before_is_kept() {
    let folder = TempDir::new().unwrap();
    let program = program().bytes();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let zeros = vec![0; 4 << 20];
    write(
        "a.tar.gz",
        &gzip(&tar_of(&[("app", &program), ("zeros", &zeros)])),
    );
    let mut large = program.clone();
    large.resize(65_537, 0);
    write("b.tar", &tar_of(&[("large", &large)]));
    let many: Vec<(String, &[u8])> = (0..200).map(|n| (format!("f{n}"), &b"x"[..])).collect();
    let many: Vec<(&str, &[u8])> = many
        .iter()
        .map(|(name, content)| (name.as_str(), *content))
        .collect();
    write("c.tar", &tar_of(&many));
    let expected = [
        "a.tar.gz!app Both",
        "a.tar.gz: it unpacks to more than the limit of 1048576 bytes",
        "b.tar: large is larger than the limit of 65536 bytes",
        "c.tar: more than 100 files",
    ];
    assert_eq!(words(&folder, &small()), expected);
}

#[test]
fn a_decoder_that_wants_too_much_memory_is_refused() {
    let folder = TempDir::new().unwrap();
    let bytes = liblzma::encode_all(&tar_of(&[("a", b"x")])[..], 9).unwrap();
    fs::write(folder.path().join("a.tar.xz"), bytes).unwrap();
    let mut options = SearchOptions::default();
    options.limits.xz_memory_bytes_max = 1 << 20;
    let [reason] = words(&folder, &options).try_into().unwrap();
    assert!(reason.to_lowercase().contains("mem"), "{reason}");
}

#[test]
fn damaged_archives_are_told_and_never_panic() {
    let folder = TempDir::new().unwrap();
    let program = program().bytes();
    let tar = gzip(&tar_of(&[("app", &program)]));
    let deb = ar_of(&[("debian-binary", b"2.0\n"), ("data.tar.gz", &tar)]);
    let cpio = cpio_of(&[("app", 0o100_755, &program)]);
    let rpm = rpm_of(&gzip(&cpio));
    let path = folder.path().join("x");
    for (name, archive) in [("x.deb", deb), ("x.rpm", rpm)] {
        let path = path.with_file_name(name);
        for cut in (0..archive.len() - 1).step_by(97) {
            fs::write(&path, &archive[..cut]).unwrap();
            let findings = search(&[&path], &SearchOptions::default());
            let is_told = findings
                .iter()
                .any(|finding| matches!(finding, Finding::Unreadable { .. }));
            assert!(is_told, "{name} cut at {cut}: {findings:?}");
        }
    }
    let told = |bytes: &[u8]| {
        let path = folder.path().join("y.deb");
        fs::write(&path, bytes).unwrap();
        match search(&[&path], &SearchOptions::default()).as_slice() {
            [Finding::Unreadable { reason, .. }] => reason.clone(),
            other => panic!("{other:?}"),
        }
    };
    let reason = told(&ar_of(&[("debian-binary", b"2.0\n")]));
    assert_eq!(
        reason,
        "a damaged Debian package: there is no data.tar in it"
    );
    let mut bytes = ar_of(&[("debian-binary", b"2.0\n")]);
    bytes[56..66].copy_from_slice(b"99999999x ");
    assert_eq!(
        told(&bytes),
        "a damaged Debian package: the member size \"99999999x\""
    );
    let cut = told(&ar_of(&[("data.tar.bz2", b"BZh9")]));
    assert!(!cut.is_empty(), "{cut}");
}

#[test]
fn an_archive_without_binaries_is_passed_over_in_a_folder() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.tar"), tar_of(&[("readme", b"hello")])).unwrap();
    assert_eq!(
        all(&folder),
        ["a.tar: an archive without binaries", "nothing"]
    );
}

#[test]
fn archives_in_archives_are_searched() {
    let folder = TempDir::new().unwrap();
    let program = program().bytes();
    let layer = tar_of(&[("usr/bin/app", &program)]);
    let deb = ar_of(&[("debian-binary", b"2.0\n"), ("data.tar.gz", &gzip(&layer))]);
    let module = gzip(&program);
    let image = tar_of(&[
        ("manifest.json", b"{}"),
        ("blobs/1", &layer),
        ("blobs/2", &gzip(&layer)),
        ("x.deb", &deb),
        ("module.ko.gz", &module),
        ("page.1.gz", &gzip(b"text")[..10]),
    ]);
    fs::write(folder.path().join("image.tar"), image).unwrap();
    let expected = [
        "image.tar!blobs/1!usr/bin/app Both",
        "image.tar!blobs/2!usr/bin/app Both",
        "image.tar!x.deb!usr/bin/app Both",
        "image.tar!module.ko.gz Both",
    ];
    assert_eq!(all(&folder), expected);
}

#[test]
fn a_nest_of_archives_ends_at_the_limits() {
    let folder = TempDir::new().unwrap();
    let mut nest = tar_of(&[("app", &program().bytes())]);
    for _ in 0..6 {
        nest = tar_of(&[("n", &nest)]);
    }
    fs::write(folder.path().join("deep.tar"), nest).unwrap();
    assert_eq!(
        all(&folder),
        ["deep.tar: archives in archives, more than 4 deep"]
    );
    let zeros = gzip(&tar_of(&[("zeros", &vec![0; 4 << 20])]));
    let bombs: Vec<(&str, &[u8])> = vec![("bomb", &zeros); 3];
    fs::write(folder.path().join("deep.tar"), tar_of(&bombs)).unwrap();
    let expected = ["deep.tar: it unpacks to more than the limit of 1048576 bytes"];
    assert_eq!(words(&folder, &small()), expected);
}

#[test]
fn a_named_archive_without_binaries_is_a_fault() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.tar");
    fs::write(&path, tar_of(&[("readme", b"hello")])).unwrap();
    let findings = search(&[&path], &SearchOptions::default());
    assert!(
        matches!(findings.as_slice(), [Finding::Unreadable { .. }]),
        "{findings:?}"
    );
}
