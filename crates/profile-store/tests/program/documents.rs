//! Documents that are written from the code: `UPDATE=1 cargo test -p unhex-profile-store --test program documents`.

use std::path::Path;

use unhex_testkit::repository::root;

/// Compares a text of the repository with what the code says, or writes it.
fn compare(path: &Path, found: &str, expected: &str, write: impl Fn(&str) -> String) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, write(expected)).expect("a document");
        return;
    }
    assert!(
        found == expected,
        "{} is not what the code says; run UPDATE=1 cargo test -p unhex-profile-store --test program documents",
        path.display()
    );
}

/// The part of a document from a heading on, which is its last.
fn compare_part(name: &str, heading: &str, expected: &str) {
    let path = root().join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let at = text.find(heading).unwrap_or(text.len());
    let (before, found) = text.split_at(at);
    let before = before.trim_end();
    compare(&path, found, expected, |part| format!("{before}\n\n{part}"));
}

#[test]
fn the_document_of_limits_is_what_the_code_says() {
    let expected = unhex_profile_store::limits::document();
    compare_part("docs/limits.md", "## Limits of `unhex-store`", &expected);
}

#[test]
fn the_document_of_metrics_is_what_the_code_says() {
    let expected = unhex_profile_store::metrics::document();
    compare_part("docs/metrics.md", "## Metrics of `unhex-store`", &expected);
}

#[test]
fn openapi_yaml_is_what_stands_beside_the_handlers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.yaml");
    let expected = unhex_profile_store::http::openapi::document().expect("YAML");
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    compare(&path, &found, &expected, str::to_owned);
}
