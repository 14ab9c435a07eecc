//! Tables of the files that every Debian has, and, by hand, of all files of a host.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::gimli_rules::{Compared, Parts, compare};

/// Written by compilers and by hand, large and small: C, C++, Rust, assembler with expressions, and stubs.
const SAMPLE: [&str; 9] = [
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libm.so.6",
    "/lib/x86_64-linux-gnu/libstdc++.so.6",
    "/lib/x86_64-linux-gnu/libgcc_s.so.1",
    "/lib/x86_64-linux-gnu/libz.so.1",
    "/lib64/ld-linux-x86-64.so.2",
    "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
    "/usr/bin/git",
    "/bin/bash",
];

#[test]
fn a_sample_of_the_system_is_what_gimli_says() {
    let mut all = Compared::default();
    for path in SAMPLE {
        let bytes = unhex_testkit::run::read(path);
        let parts = Parts::of(&bytes).unwrap_or_else(|| panic!("{path} has no unwind information"));
        all.add(compare(Path::new(path), &parts, &parts.table()));
    }
    assert!(all.addresses > 100_000, "{all:?}");
    // Twice: aliases of one function, which gimli has twice and the table once.
    assert!(all.claimed_twice * 1000 < all.gimli_rows, "{all:?}");
    assert!(all.unsupported * 1000 < all.addresses, "{all:?}");
}

#[test]
#[ignore = "takes minutes: every file of the host; see CONTRIBUTING.md"]
fn every_file_of_the_host_is_what_gimli_says() {
    let mut seen = BTreeSet::new();
    let mut all = Compared::default();
    let (mut building, mut skipped, mut damaged) = (Duration::ZERO, 0, 0);
    let mut folders = vec![PathBuf::from("/usr/bin"), PathBuf::from("/usr/lib")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(metadata) = std::fs::symlink_metadata(&path) else {
                continue;
            };
            if metadata.is_dir() {
                folders.push(path);
            } else if metadata.is_file()
                && seen.insert((metadata_device(&metadata), metadata_inode(&metadata)))
                && let Ok(bytes) = std::fs::read(&path)
                && let Some(parts) = Parts::of(&bytes)
            {
                let start = Instant::now();
                let table = parts.table();
                building += start.elapsed();
                skipped += table.skipped();
                damaged += table.damaged();
                all.add(compare(&path, &parts, &table));
            }
        }
    }
    println!(
        "{all:?}, functions skipped: {skipped}, damaged: {damaged}, building took {building:?}"
    );
    assert!(all.files > 100, "{all:?}");
    assert!(all.unsupported * 1000 < all.addresses, "{all:?}");
}

fn metadata_device(metadata: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::dev(metadata)
}

fn metadata_inode(metadata: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}
