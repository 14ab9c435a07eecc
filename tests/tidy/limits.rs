//! Bounds that cannot be set: docs/fixed-limits.md has each with its value and its reason, and is
//! written from the code: `UPDATE=1 cargo test --test tidy limits`.

use std::fmt::Write as _;

use unhex_testkit::repository::root;

use crate::files::without_unit_tests;
use crate::repository::{TextFile, rust_files};
use crate::{Breach, assert_none};

const DOCUMENT: &str = "docs/fixed-limits.md";

/// What the programs are made of.
const SOURCES: [&str; 7] = [
    "src/",
    "crates/agent/src/",
    "crates/api/src/",
    "crates/build-id/src/",
    "crates/pprof/src/",
    "crates/profile-store/src/",
    "crates/symbols/src/",
];

/// A constant that bounds something: its name says so.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Limit {
    name: String,
    value: String,
    reason: String,
}

fn is_limit(name: &str) -> bool {
    name.ends_with("_MAX") || name.ends_with("_AT_ONCE")
}

/// The limits of a source: `const NAME: TYPE = VALUE;` and the doc comment above.
fn limits(source: &str) -> Vec<Limit> {
    let mut found = Vec::new();
    let mut reason = String::new();
    let mut lines = without_unit_tests(source).lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(words) = line.strip_prefix("///") {
            reason = format!("{reason} {}", words.trim()).trim().to_owned();
            continue;
        }
        let reason = std::mem::take(&mut reason);
        let Some((name, rest)) = constant(line) else {
            continue;
        };
        let mut rest = rest.to_owned();
        while !rest.ends_with(';') {
            let Some(more) = lines.next() else { break };
            rest = format!("{rest} {more}");
        }
        let value = rest.split_once(" = ").map_or("", |(_, value)| value);
        if is_limit(name) {
            found.push(Limit {
                name: name.to_owned(),
                value: value.trim_end_matches(';').to_owned(),
                reason,
            });
        }
    }
    found
}

/// The name that a line declares a constant of, and what follows it.
fn constant(line: &str) -> Option<(&str, &str)> {
    let (before, declared) = line.split_once("const ")?;
    let is_public = before.starts_with("pub") && !before.contains('=');
    let (name, rest) = declared.split_once(':')?;
    (before.is_empty() || is_public).then_some((name, rest))
}

fn of_program(files: &[TextFile]) -> Vec<(&TextFile, Limit)> {
    let sources = files
        .iter()
        .filter(|file| SOURCES.iter().any(|source| file.path.starts_with(source)))
        .filter(|file| !file.path.contains("/tests"));
    let all = sources.flat_map(|file| limits(&file.text).into_iter().map(move |l| (file, l)));
    all.collect()
}

fn document(limits: &[(&TextFile, Limit)]) -> String {
    let mut text = String::from(
        "# Limits that cannot be set\n\n\
         Constants of the code, beside the [limits](limits.md) that can be set.\n\
         Written by `UPDATE=1 cargo test --test tidy limits`.\n\n\
         | constant | where | value | what and why |\n|---|---|---|---|\n",
    );
    for (file, limit) in limits {
        let Limit {
            name,
            value,
            reason,
        } = limit;
        let reason = reason.replace('|', "\\|");
        let _infallible = writeln!(text, "| `{name}` | {} | `{value}` | {reason} |", file.path);
    }
    text
}

#[test]
fn every_fixed_limit_has_a_reason() {
    let files = rust_files();
    let bare = of_program(&files)
        .into_iter()
        .filter(|(_, limit)| limit.reason.is_empty());
    let found: Vec<Breach> = bare
        .map(|(file, limit)| Breach(format!("{}: `{}` has no reason", file.path, limit.name)))
        .collect();
    assert_none(&found);
}

#[test]
fn every_fixed_limit_is_documented_with_its_value() {
    let files = rust_files();
    let limits = of_program(&files);
    assert!(limits.len() > 50, "{limits:?}");
    let (path, expected) = (root().join(DOCUMENT), document(&limits));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).expect("a document");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{DOCUMENT} is not what the code says; run UPDATE=1 cargo test --test tidy limits"
    );
}

mod bad_examples {
    use super::*;

    #[test]
    fn a_limit_is_found_with_its_value_and_reason_in_every_spelling() {
        let source = "/// Most of a.\n/// By law.\nconst A_MAX: u64 = 1 << 4;\n\npub(super) const B_AT_ONCE: usize =\n    \
                      32;\nconst OTHER: u8 = 1;\nfn f() { let x = 1; }\n";
        let limit = |name: &str, value: &str, reason: &str| Limit {
            name: name.to_owned(),
            value: value.to_owned(),
            reason: reason.to_owned(),
        };
        assert_eq!(
            limits(source),
            [
                limit("A_MAX", "1 << 4", "Most of a. By law."),
                limit("B_AT_ONCE", "32", "")
            ]
        );
    }
}
