//! Tests of the search: folders, links, patterns, and what is no binary.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use unhex_testkit::fixture::{Fixture, Program};

use self::builders::tar_of;
use super::*;

mod archives;
mod builders;

const BUILD_ID: &str = "00112233445566778899aabbccddeeff00112233";

fn program() -> Fixture {
    Program::c("int main(void) { return 0; }")
        .flags(&["-g"])
        .build_id(BUILD_ID)
        .build()
}

fn search(paths: &[&Path], options: &SearchOptions) -> Vec<Finding> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
    let mut findings = Vec::new();
    Search::run(&paths, options, &mut |finding| {
        findings.push(finding);
        ControlFlow::Continue(())
    });
    findings
}

/// What was found, in short words, with the folder of the test cut off.
fn words(folder: &TempDir, options: &SearchOptions) -> Vec<String> {
    let findings = search(&[folder.path()], options);
    let prefix = format!("{}/", folder.path().display());
    findings
        .iter()
        .map(|finding| {
            let text = match finding {
                Finding::Binary(binary) => match binary.part {
                    Part::Whole { role, .. } => format!("{} {role:?}", binary.label),
                    Part::PackedSplitDwarf => format!("{} packed", binary.label),
                },
                Finding::WithoutBuildId(found) => format!("{} has no build ID", found.label),
                Finding::Unreadable { label, reason } | Finding::Skipped { label, reason } => {
                    format!("{label}: {reason}")
                }
                Finding::Nothing { .. } => "nothing".to_owned(),
            };
            text.replace(&prefix, "")
        })
        .collect()
}

fn all(folder: &TempDir) -> Vec<String> {
    words(folder, &SearchOptions::default())
}

#[test]
fn a_folder_gives_each_binary_once_and_no_link_is_followed() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::copy(program().path(), at("app")).unwrap();
    fs::hard_link(at("app"), at("same")).unwrap();
    fs::create_dir(at("sub")).unwrap();
    fs::copy(program().stripped(), at("sub/stripped")).unwrap();
    symlink("..", at("sub/up")).unwrap();
    symlink("/bin/true", at("outside")).unwrap();
    symlink("dangling", at("dangling")).unwrap();
    fs::write(at("notes.txt"), "hello").unwrap();
    assert_eq!(all(&folder), ["app Both", "sub/stripped Executable"]);
}

#[test]
fn a_folder_without_binaries_is_told() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("notes.txt"), "hello").unwrap();
    assert_eq!(all(&folder), ["nothing"]);
}

#[test]
fn a_named_program_brings_the_debug_file_that_it_names() {
    let folder = TempDir::new().unwrap();
    let program = program();
    let debug_link =
        unhex_symbols::elf::ElfSummary::read(&fs::read(program.stripped_with_debuglink()).unwrap());
    let name = debug_link.unwrap().debug_link.unwrap().name;
    let stripped = folder.path().join("app");
    fs::copy(program.stripped_with_debuglink(), &stripped).unwrap();
    fs::create_dir(folder.path().join(".debug")).unwrap();
    fs::copy(
        program.debug_only(),
        folder.path().join(".debug").join(name),
    )
    .unwrap();
    let roles: Vec<_> = search(&[&stripped], &SearchOptions::default())
        .iter()
        .filter_map(|finding| match finding {
            Finding::Binary(binary) => match binary.part {
                Part::Whole { role, .. } => Some((role, binary.build_id.to_string())),
                Part::PackedSplitDwarf => None,
            },
            _ => None,
        })
        .collect();
    let id = || BUILD_ID.to_owned();
    assert_eq!(
        roles,
        [(ElfRole::Executable, id()), (ElfRole::Debuginfo, id())]
    );
}

#[test]
fn a_binary_without_build_id_comes_with_the_flag_that_mends_it() {
    let program = Program::c("int main(void) { return 0; }")
        .without_build_id()
        .build();
    let findings = search(&[program.path()], &SearchOptions::default());
    let [Finding::WithoutBuildId(found)] = findings.as_slice() else {
        panic!("{findings:?}");
    };
    assert_eq!(
        found.advice(),
        "it has no build ID; link it with: -Wl,--build-id=sha1"
    );
    let rust = Program::rust("fn main() {}").without_build_id().build();
    let findings = search(&[rust.path()], &SearchOptions::default());
    let [Finding::WithoutBuildId(found)] = findings.as_slice() else {
        panic!("{findings:?}");
    };
    assert!(
        found
            .advice()
            .contains("RUSTFLAGS='-C link-arg=-Wl,--build-id=sha1'")
    );
}

#[test]
fn what_is_named_and_no_binary_says_what_it_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("page.debug");
    fs::write(&path, "<html>Sign in</html>").unwrap();
    let findings = search(&[&path], &SearchOptions::default());
    let [Finding::Unreadable { reason, .. }] = findings.as_slice() else {
        panic!("{findings:?}");
    };
    let words = "neither an ELF file nor an archive that can be read: it is an HTML page";
    assert_eq!(reason, words);
}

#[test]
fn patterns_choose_files_in_folders_and_archives() {
    let folder = TempDir::new().unwrap();
    let program = program().bytes();
    fs::write(folder.path().join("a.so"), &program).unwrap();
    fs::write(folder.path().join("b.exe"), &program).unwrap();
    fs::write(
        folder.path().join("c.tar"),
        tar_of(&[("x/a.so", &program), ("x/b", &program)]),
    )
    .unwrap();
    let options = SearchOptions {
        include: vec!["*.so".parse().unwrap()],
        ..SearchOptions::default()
    };
    assert_eq!(words(&folder, &options), ["a.so Both", "c.tar!x/a.so Both"]);
    let options = SearchOptions {
        exclude: vec!["*.so".parse().unwrap(), "*.tar".parse().unwrap()],
        ..SearchOptions::default()
    };
    assert_eq!(words(&folder, &options), ["b.exe Both"]);
}
