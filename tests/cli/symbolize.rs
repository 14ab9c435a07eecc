//! `unhex symbolize`: what it prints beside llvm-symbolizer and addr2line.

use std::io::Write as _;
use std::process::{Command, Stdio};

use unhex_symbols::elf::ElfFile;
use unhex_testkit::run::succeed;
use unhex_testkit::tools;

use crate::command::{BUILD_ID, Workplace, code, program};

/// The link addresses of the functions `thrice` and `main`.
fn addresses() -> Vec<String> {
    let bytes = program().bytes();
    let elf = ElfFile::parse(&bytes).unwrap();
    let table = *elf.section(".symtab").unwrap();
    let mut found = Vec::new();
    elf.for_each_symbol(&table, |symbol| {
        if [&b"thrice"[..], b"main"].contains(&symbol.name) {
            found.push(format!("{:#x}", symbol.value));
        }
        true
    });
    found.sort();
    assert_eq!(found.len(), 2);
    found
}

#[test]
fn the_output_is_that_of_llvm_symbolizer_and_addr2line() {
    let workplace = Workplace::with_server();
    let app = workplace.put("app", program().path());
    assert_eq!(code(&workplace.unhex(&["upload", "app"])), 0);
    let addresses = addresses();
    let with = |first: &[&str]| -> Vec<String> {
        let first = first.iter().map(ToString::to_string);
        first.chain(addresses.iter().cloned()).collect()
    };
    let ours = |arguments: Vec<String>| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let finished = workplace.unhex(&arguments);
        assert_eq!(code(&finished), 0, "{}", finished.all());
        finished.text()
    };
    if let Some(llvm) = tools::LLVM_SYMBOLIZER.find() {
        let theirs = with(&["--obj", app.to_str().unwrap()]);
        let theirs = succeed(
            Command::new(llvm)
                .args(theirs)
                .env_remove("DEBUGINFOD_URLS"),
        );
        assert_eq!(ours(with(&["symbolize", "--binary", "app"])), theirs.text());
    }
    if let Some(addr2line) = tools::ADDR2LINE.find() {
        let theirs = with(&["-f", "-i", "-a", "-e", app.to_str().unwrap()]);
        let theirs = succeed(Command::new(addr2line).args(theirs)).text();
        // addr2line pads addresses to 16 digits.
        let theirs = theirs.replace("0x000000000000", "0x");
        let arguments = ["symbolize", "--build-id", BUILD_ID, "--style", "gnu", "-a"];
        assert_eq!(ours(with(&arguments)), theirs);
    }
}

#[test]
fn addresses_come_from_standard_input_and_reasons_go_to_standard_error() {
    let workplace = Workplace::with_server();
    workplace.put("app", program().path());
    assert_eq!(code(&workplace.unhex(&["upload", "app"])), 0);
    let mut command = workplace.command(&["symbolize", "-e", "app"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let input = format!("{}\n\n0xfffffff0\n", addresses()[1]);
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("\n\n??\n??:0:0\n\n"), "{text}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("1 address: "), "{errors}");
    assert!(output.status.success());
}

#[test]
fn file_offsets_are_placed_by_the_binary_at_hand() {
    let workplace = Workplace::with_server();
    workplace.put("app", program().stripped());
    workplace.put("app.debug", program().debug_only());
    assert_eq!(code(&workplace.unhex(&["upload", "app.debug"])), 0);
    let address = &addresses()[0];
    let arguments = [
        "symbolize",
        "-e",
        "app",
        "--address-kind",
        "file_offset",
        address,
    ];
    let finished = workplace.unhex(&arguments);
    assert!(finished.text().contains("thrice\n"), "{}", finished.all());
    assert_eq!(code(&finished), 0);
}

#[test]
fn an_unknown_build_id_says_what_to_do_and_fails() {
    let workplace = Workplace::with_server();
    let finished = workplace.unhex(&["symbolize", "--build-id", BUILD_ID, "0x1139"]);
    assert_eq!(finished.text(), "??\n??:0:0\n\n");
    assert!(
        finished.stderr.contains("unknown_build_id"),
        "{}",
        finished.stderr
    );
    assert_eq!(code(&finished), 1);
}
