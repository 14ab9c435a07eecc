//! Documents that are written from the code: `UPDATE=1 cargo test -p unhex-agent --test documents`.

use unhex_testkit::repository::root;

#[test]
fn the_document_of_metrics_is_what_the_code_says() {
    let path = root().join("docs/metrics.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let at = |heading: &str| text.find(heading).unwrap_or(text.len());
    let store = at("## Metrics of `unhex-store`");
    let own = at("## Metrics of `unhex-agent`").min(store);
    let expected = format!("{}\n", unhex_agent::metrics::document());
    let (before, rest) = text.split_at(own);
    let (found, behind) = rest.split_at(store - own);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{expected}{behind}")).unwrap();
        return;
    }
    assert!(
        found == expected,
        "docs/metrics.md is not what the code says; run UPDATE=1 cargo test -p unhex-agent --test documents"
    );
}
