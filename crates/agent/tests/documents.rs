//! Documents that are written from the code: `UPDATE=1 cargo test -p unhex-agent --test documents`.

use std::collections::BTreeSet;

use unhex_agent::sample::Stop;
use unhex_testkit::repository::root;
use unhex_testkit::run;

fn read(path: &str) -> String {
    String::from_utf8_lossy(&run::read(root().join(path))).into_owned()
}

/// The capabilities of lines that are chosen, without `CAP_`.
fn capabilities(text: &str, is_chosen: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| is_chosen(line));
    let lines = lines.filter_map(|line| line.split(" | ").next());
    let words = lines.flat_map(|line| line.split(|c: char| !c.is_ascii_uppercase() && c != '_'));
    let words = words.map(|word| word.trim_start_matches("CAP_"));
    let known = |word: &&str| word.len() > 2;
    words.filter(known).map(str::to_owned).collect()
}

#[test]
fn what_is_deployed_has_the_capabilities_that_the_document_explains() {
    let explained = capabilities(&read("docs/agent.md"), |line| line.starts_with("| `CAP_"));
    assert_eq!(explained.len(), 5, "{explained:?}");
    let unit = read("deploy/agent/unhex-agent.service");
    for setting in ["AmbientCapabilities=", "CapabilityBoundingSet="] {
        let given = capabilities(&unit, |line| line.starts_with(setting));
        assert_eq!(given, explained, "{setting}");
    }
    let pod = read("deploy/agent/daemonset.yaml");
    let given = capabilities(&pod, |line| line.trim().starts_with("add: ["));
    assert_eq!(given, explained);
}

#[test]
fn every_reason_for_a_stack_that_is_not_complete_is_explained() {
    let document = read("docs/agent.md");
    for stop in Stop::ALL.into_iter().filter(|stop| !stop.is_complete()) {
        let row = format!("| `{}` |", stop.as_str());
        assert!(document.contains(&row), "{row}");
    }
}

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
