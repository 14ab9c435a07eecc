//! Rules for one file at a time: its size, its first line, its name, its words.

use crate::repository::{rust_files, text_files};
use crate::{Breach, assert_none};

/// A file larger than this is more than one thing; its unit tests don't count.
const CODE_LINES_MAX: usize = 400;

/// With its unit tests: beyond this the tests want a file of their own.
const LINES_MAX: usize = 600;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &[
    "util", "utils", "helper", "helpers", "common", "types", "manager", "service", "services",
    "impl", "misc",
];

/// Marks of unfinished work and of the machine that somebody works on. In parts, so that this file
/// does not break its own rule.
const BANNED_WORDS: &[(&str, &str)] = &[
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X:"),
    ("todo", "!("),
    ("unimplemented", "!("),
    ("for ", "now,"),
    ("place", "holder implementation"),
    ("/ro", "ot/"),
    ("/wo", "rk/"),
];

/// The only files of the programs that read the environment, so that what steers them is in one place.
const READ_ENVIRONMENT: [&str; 3] = [
    "src/config.rs",
    "crates/agent/src/config.rs",
    "crates/profile-store/src/config.rs",
];

fn size(path: &str, text: &str) -> Option<Breach> {
    let all = text.lines().count();
    let code = if is_test(path) {
        0
    } else {
        without_unit_tests(text).lines().count()
    };
    let breach = |lines, max, what| {
        Breach(format!(
            "{path}: {lines} lines{what}, at most {max}: give a part of it its own file"
        ))
    };
    if code > CODE_LINES_MAX {
        return Some(breach(code, CODE_LINES_MAX, " without its unit tests"));
    }
    (all > LINES_MAX).then(|| breach(all, LINES_MAX, ""))
}

/// The text before the unit tests, which stand at the end of a file.
pub(crate) fn without_unit_tests(text: &str) -> &str {
    let tests = text.find("\n#[cfg(test)]\nmod ").filter(|&at| {
        // `mod tests;` is a file of its own.
        text.get(at..)
            .is_some_and(|tail| tail.lines().nth(2).is_some_and(|line| line.ends_with('{')))
    });
    tests.and_then(|at| text.get(..at)).unwrap_or(text)
}

fn first_line(path: &str, text: &str) -> Option<Breach> {
    let answer = text
        .strip_prefix("//! ")
        .and_then(|rest| rest.lines().next());
    let says_something = answer.is_some_and(|answer| answer.len() > 10);
    (!says_something).then(|| {
        Breach(format!(
            "{path}: does not open with `//! ` and one sentence on what it answers"
        ))
    })
}

fn name(path: &str) -> Option<Breach> {
    let parts = path.trim_end_matches(".rs").split('/');
    let empty = parts
        .map(str::to_owned)
        .find(|part| EMPTY_NAMES.contains(&part.as_str()))?;
    Some(Breach(format!(
        "{path}: `{empty}` says nothing: name the concept"
    )))
}

fn words(path: &str, text: &str) -> Vec<Breach> {
    let lines = text.lines().zip(1..);
    lines
        .flat_map(|(line, number)| BANNED_WORDS.iter().map(move |parts| (line, number, parts)))
        .filter_map(|(line, number, (head, tail))| {
            let word = format!("{head}{tail}");
            line.contains(&word)
                .then(|| Breach(format!("{path}:{number}: `{word}`: {}", line.trim())))
        })
        .collect()
}

fn environment(path: &str, text: &str) -> Vec<Breach> {
    if READ_ENVIRONMENT.contains(&path) {
        return Vec::new();
    }
    let reads = ["env::var(", "env::var_os(", "env::vars(", "env::vars_os("];
    let lines = without_unit_tests(text).lines().zip(1..);
    lines
        .filter(|(line, _)| reads.iter().any(|read| line.contains(read)))
        .map(|(line, number)| {
            let line = line.trim();
            Breach(format!(
                "{path}:{number}: `{line}`: only {READ_ENVIRONMENT:?} read the environment"
            ))
        })
        .collect()
}

/// Tests in files of their own.
fn is_test(path: &str) -> bool {
    path.split('/')
        .any(|part| part == "tests" || part == "tests.rs")
}

/// Sources of programs and libraries, as opposed to tests and what only tests use.
fn is_shipped(path: &str) -> bool {
    path.starts_with("src/")
        || (path.starts_with("crates/")
            && path.contains("/src/")
            && !path.starts_with("crates/testkit/"))
}

#[test]
fn files_are_small() {
    let breaches: Vec<Breach> = rust_files()
        .iter()
        .filter_map(|f| size(&f.path, &f.text))
        .collect();
    assert_none(&breaches);
}

#[test]
fn files_open_with_what_they_answer() {
    let files = rust_files();
    let breaches: Vec<Breach> = files
        .iter()
        .filter_map(|f| first_line(&f.path, &f.text))
        .collect();
    assert_none(&breaches);
}

#[test]
fn names_say_what_is_inside() {
    let breaches: Vec<Breach> = rust_files().iter().filter_map(|f| name(&f.path)).collect();
    assert_none(&breaches);
}

#[test]
fn nothing_is_left_unfinished_or_tied_to_one_machine() {
    let breaches: Vec<Breach> = text_files()
        .iter()
        .flat_map(|f| words(&f.path, &f.text))
        .collect();
    assert_none(&breaches);
}

#[test]
fn only_the_configuration_reads_the_environment() {
    let files = rust_files();
    let shipped = files.iter().filter(|file| is_shipped(&file.path));
    let breaches: Vec<Breach> = shipped
        .flat_map(|f| environment(&f.path, &f.text))
        .collect();
    assert_none(&breaches);
}

mod bad_examples {
    use super::*;

    #[test]
    fn a_long_file_is_a_breach() {
        let long = "//! Long.\n".repeat(CODE_LINES_MAX + 1);
        assert!(size("a.rs", &long).is_some());
        let tested = format!("//! Short.\n\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert_eq!(size("a.rs", &tested), None);
        assert_eq!(size("src/a/tests.rs", &long), None);
        assert!(size("tests/a.rs", &"//! Long.\n".repeat(LINES_MAX + 1)).is_some());
        let longer = format!("{tested}{long}");
        assert!(size("a.rs", &longer).is_some());
    }

    #[test]
    fn tests_in_a_file_of_their_own_do_not_hide_code() {
        let text = "//! A.\n\n#[cfg(test)]\nmod tests;\n\nfn code() {}\n";
        assert_eq!(without_unit_tests(text), text);
    }

    #[test]
    fn a_file_without_its_answer_is_a_breach() {
        assert!(first_line("a.rs", "use std::fmt;\n").is_some());
        assert!(first_line("a.rs", "//! Ah.\n").is_some());
        assert_eq!(first_line("a.rs", "//! What a build ID is.\n"), None);
    }

    #[test]
    fn an_empty_name_is_a_breach() {
        assert!(name("src/http/utils.rs").is_some());
        assert!(name("src/common/mod.rs").is_some());
        assert_eq!(name("src/http/error.rs"), None);
    }

    #[test]
    fn unfinished_marks_and_machine_paths_are_breaches() {
        let unfinished = format!("fine\n// TO{}: later\n", "DO");
        assert_eq!(words("a.rs", &unfinished).len(), 1);
        assert_eq!(words("a.md", &format!("see /ro{}/x", "ot")).len(), 1);
        assert_eq!(words("a.md", "the root of the tree"), []);
    }

    #[test]
    fn reading_the_environment_elsewhere_is_a_breach() {
        let text = "//! A.\nlet x = std::env::var(\"X\");\n";
        assert_eq!(environment("src/app.rs", text).len(), 1);
        for path in READ_ENVIRONMENT {
            assert_eq!(environment(path, text), []);
        }
    }
}
