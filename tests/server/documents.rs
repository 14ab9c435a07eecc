//! Documents that are written from the code: `UPDATE=1 cargo test -p unhex --test server documents`.

use std::path::Path;

/// Compares a file of the repository with what the code says, or writes it.
fn compare(name: &str, expected: &str) {
    compare_part(name, expected, None);
}

/// The same, of a document whose last part another program writes, from a heading on.
fn compare_part(name: &str, expected: &str, other: Option<&str>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    let text = read();
    let at = other.and_then(|heading| text.find(heading));
    let expected = match text.get(at.unwrap_or(text.len())..) {
        None | Some("") => expected.to_owned(),
        Some(of_other) => format!("{expected}\n{of_other}"),
    };
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = read();
    assert!(
        found == expected,
        "{name} is not what the code says; run UPDATE=1 cargo test -p unhex --test server documents"
    );
}

#[test]
fn the_document_of_limits_is_what_the_code_says() {
    let store = Some("## Limits of `unhex-store`");
    compare_part("docs/limits.md", &unhex::limits::document(), store);
}

#[test]
fn the_document_of_metrics_is_what_the_code_says() {
    let agent = Some("## Metrics of `unhex-agent`");
    compare_part("docs/metrics.md", &unhex::metrics::document(), agent);
}

#[test]
fn openapi_yaml_is_what_stands_beside_the_handlers() {
    compare("openapi.yaml", &unhex::http::openapi::document().unwrap());
}
