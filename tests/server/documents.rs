//! Documents that are written from the code: `UPDATE=1 cargo test -p unhex --test server documents`.

use std::path::Path;

/// Compares a file of the repository with what the code says, or writes it.
fn compare(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{name} is not what the code says; run UPDATE=1 cargo test -p unhex --test server documents"
    );
}

#[test]
fn the_document_of_limits_is_what_the_code_says() {
    compare("docs/limits.md", &unhex::limits::document());
}

#[test]
fn the_document_of_metrics_is_what_the_code_says() {
    compare("docs/metrics.md", &unhex::metrics::document());
}

#[test]
fn openapi_yaml_is_what_stands_beside_the_handlers() {
    compare("openapi.yaml", &unhex::http::openapi::document().unwrap());
}
