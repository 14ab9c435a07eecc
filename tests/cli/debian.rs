//! Debian packages: one that dpkg-deb makes here, and the real one of libc's debug files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::run::succeed;
use unhex_testkit::tools;

use crate::command::{Workplace, code};

const BUILD_ID: &str = "deb0deb0deb0deb0deb0deb0deb0deb0deb0deb0";

fn packaged() -> Fixture {
    Program::c("int main(void) { return 4; }")
        .flags(&["-g"])
        .build_id(BUILD_ID)
        .build()
}

/// A package as dpkg-deb makes it, with that compression; `None` without dpkg-deb.
fn package(workplace: &Workplace, compression: &str) -> Option<PathBuf> {
    let dpkg_deb = tools::DPKG_DEB.find()?;
    let root = workplace.path().join(format!("root-{compression}"));
    let put = |name: &str, from: &Path| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(from, path).unwrap();
    };
    put("usr/bin/packaged", &packaged().stripped());
    put("usr/lib/debug/packaged.debug", &packaged().debug_only());
    fs::create_dir_all(root.join("DEBIAN")).unwrap();
    let control =
        "Package: packaged\nVersion: 1\nArchitecture: amd64\nMaintainer: x <x@x>\nDescription: x\n";
    fs::write(root.join("DEBIAN/control"), control).unwrap();
    std::os::unix::fs::symlink("packaged", root.join("usr/bin/other-name")).unwrap();
    let deb = workplace.path().join(format!("{compression}.deb"));
    let compression = format!("-Z{compression}");
    succeed(
        Command::new(dpkg_deb)
            .args(["--root-owner-group", &compression, "--build"])
            .arg(&root)
            .arg(&deb),
    );
    fs::remove_dir_all(root).unwrap();
    Some(deb)
}

#[test]
fn packages_of_dpkg_deb_are_read_in_every_compression() {
    let workplace = Workplace::alone();
    for compression in ["gzip", "xz", "zstd", "none"] {
        let Some(deb) = package(&workplace, compression) else {
            return;
        };
        let (status, answer) = workplace.json(&["upload", "--dry-run", deb.to_str().unwrap()]);
        assert_eq!(status, 0, "{answer:#}");
        let files = answer["files"].as_array().unwrap();
        let names: Vec<&str> = files
            .iter()
            .map(|file| file["path"].as_str().unwrap().rsplit_once('!').unwrap().1)
            .collect();
        assert_eq!(
            names,
            ["./usr/bin/packaged", "./usr/lib/debug/packaged.debug"],
            "{compression}"
        );
        assert!(
            files.iter().all(|file| file["build_id"] == BUILD_ID),
            "{answer:#}"
        );
    }
}

#[test]
fn a_package_is_uploaded_and_then_its_program_can_be_symbolized() {
    let workplace = Workplace::with_server();
    let Some(deb) = package(&workplace, "xz") else {
        return;
    };
    let finished = workplace.unhex(&["upload", deb.to_str().unwrap()]);
    assert_eq!(code(&finished), 0, "{}", finished.all());
    workplace.put("app", packaged().stripped());
    let finished = workplace.unhex(&["check", "--min-quality", "dwarf_lines", "app"]);
    assert_eq!(code(&finished), 0, "{}", finished.all());
}

#[test]
fn a_damaged_package_fails_and_what_came_before_is_kept() {
    let workplace = Workplace::alone();
    let Some(deb) = package(&workplace, "none") else {
        return;
    };
    let bytes = fs::read(&deb).unwrap();
    let cut = workplace.path().join("cut.deb");
    fs::write(&cut, &bytes[..bytes.len() - 14_000]).unwrap();
    let (status, answer) = workplace.json(&["upload", "--dry-run", cut.to_str().unwrap()]);
    assert_eq!(status, 1, "{answer:#}");
    assert_eq!(answer["summary"]["failed"], 1, "{answer:#}");
    assert_eq!(answer["summary"]["would_upload"], 1, "{answer:#}");
}

#[test]
fn sources_of_what_is_in_a_package_are_sent_from_named_folders_only() {
    let workplace = Workplace::alone();
    let Some(deb) = package(&workplace, "gzip") else {
        return;
    };
    let deb = deb.to_str().unwrap();
    let arguments = ["upload", "--dry-run", "--with-sources", deb];
    let (status, answer) = workplace.json(&arguments);
    assert_eq!(status, 0, "{answer:#}");
    assert_eq!(answer["summary"]["would_upload"], 2, "{answer:#}");
    assert_eq!(answer["summary"]["skipped"], 1, "{answer:#}");

    let sources = workplace.path().join("src");
    fs::create_dir(&sources).unwrap();
    fs::write(sources.join("main.c"), "int main(void) { return 4; }").unwrap();
    let map = format!("/fixture={}", sources.display());
    let root = sources.to_str().unwrap();
    let bounded = [
        &arguments[..],
        &["--source-map", &map, "--source-root", root],
    ]
    .concat();
    let (_, answer) = workplace.json(&bounded);
    assert_eq!(answer["summary"]["would_upload"], 3, "{answer:#}");
}
