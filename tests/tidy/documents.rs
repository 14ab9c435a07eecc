//! Documents that must follow the code: every metric is explained, every link leads somewhere.

use std::collections::BTreeSet;

use unhex_testkit::repository::root;

use crate::repository::text_files;
use crate::{Breach, assert_none};

/// The metrics that are declared in a source: its string literals that start with `unhex_`.
fn metrics(source: &str) -> BTreeSet<&str> {
    source
        .split('"')
        .filter(|literal| literal.starts_with("unhex_"))
        .filter(|literal| {
            literal
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
        .collect()
}

fn unexplained(source: &str, document: &str) -> Vec<Breach> {
    let is_explained = |metric: &&str| document.contains(&format!("`{metric}"));
    let missing = metrics(source)
        .into_iter()
        .filter(|metric| !is_explained(metric));
    missing
        .map(|metric| Breach(format!("docs/metrics.md does not explain `{metric}`")))
        .collect()
}

/// The links of a Markdown text to files of this repository, without their `#anchor`.
fn links(document: &str) -> Vec<&str> {
    let targets = document
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains("://") && !target.starts_with('#'))
        .filter_map(|target| target.split('#').next())
        .collect()
}

fn dangling(path: &str, document: &str, exists: impl Fn(&str) -> bool) -> Vec<Breach> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let targets = links(document)
        .into_iter()
        .map(|link| (link, format!("{folder}/{link}")));
    let missing = targets.filter(|(_, target)| !exists(target.trim_start_matches('/')));
    missing
        .map(|(link, _)| Breach(format!("{path}: the link to {link} leads nowhere")))
        .collect()
}

#[test]
fn every_metric_is_explained() {
    let document = std::fs::read_to_string(root().join("docs/metrics.md")).unwrap_or_default();
    for declared in [
        "src/metrics/declared.rs",
        "crates/agent/src/metrics/declared.rs",
        "crates/profile-store/src/metrics/declared.rs",
    ] {
        let source = std::fs::read_to_string(root().join(declared)).expect("a source");
        assert_none(&unexplained(&source, &document));
    }
}

#[test]
fn every_link_leads_somewhere() {
    let files = text_files();
    let documents = files.iter().filter(|file| file.has_extension("md"));
    let exists = |target: &str| root().join(target).exists();
    let found: Vec<Breach> = documents
        .flat_map(|f| dangling(&f.path, &f.text, exists))
        .collect();
    assert_none(&found);
}

mod bad_examples {
    use super::*;

    #[test]
    fn a_metric_without_an_explanation_is_a_breach() {
        let source = "a = \"unhex_a_total\" b = \"unhex_b_total\" c = \"other {unhex_}\"";
        let found = unexplained(source, "| `unhex_a_total` | counts a |");
        assert_eq!(
            found,
            [Breach(
                "docs/metrics.md does not explain `unhex_b_total`".to_owned()
            )]
        );
    }

    #[test]
    fn a_link_to_nothing_is_a_breach() {
        let text = "[a](limits.md#x) [b](https://example.org) [c](#here) [d](../README.md)";
        let there = ["docs/limits.md"];
        let found = dangling("docs/a.md", text, |target| there.contains(&target));
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
