//! Which packages of the workspace may depend on which, and what the pure ones must never reach.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;
use unhex_testkit::{repository::root, run};

use crate::{Breach, assert_none};

/// Every package of the workspace, and the packages of the workspace that it may depend on outside
/// its tests. Nothing depends on the root package.
const PACKAGES: &[(&str, &[&str])] = &[
    ("unhex", &["unhex-api", "unhex-build-id", "unhex-symbols"]),
    (
        "unhex-agent",
        &[
            "unhex-api",
            "unhex-build-id",
            "unhex-pprof",
            "unhex-symbols",
        ],
    ),
    ("unhex-api", &["unhex-build-id"]),
    ("unhex-build-id", &[]),
    ("unhex-pprof", &["unhex-build-id"]),
    (
        "unhex-profile-store",
        &["unhex-api", "unhex-build-id", "unhex-pprof"],
    ),
    ("unhex-symbols", &["unhex-build-id"]),
    ("unhex-testkit", &[]),
];

/// Packages that turn bytes into values: no I/O, no async, no clock, so that they can be fuzzed, and
/// used by any program.
const PURE: &[&str] = &["unhex-build-id", "unhex-pprof", "unhex-symbols"];

/// What a pure package never reaches, however indirectly.
const IMPURE: &[&str] = &[
    "axum", "chrono", "hyper", "jiff", "memmap2", "mio", "reqwest", "rustix", "socket2",
    "tempfile", "time", "tokio",
];

/// The names of the packages that each package depends on in programs, not in tests or builds.
type Dependencies = BTreeMap<String, BTreeSet<String>>;

fn edges(dependencies: &Dependencies, members: &BTreeSet<String>) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for member in members {
        let Some((_, allowed)) = PACKAGES.iter().find(|(name, _)| name == member) else {
            breaches.push(Breach(format!(
                "{member} is not in the table of tests/tidy/edges.rs"
            )));
            continue;
        };
        let used = dependencies.get(member).into_iter().flatten();
        for other in used.filter(|other| members.contains(*other)) {
            if !allowed.contains(&other.as_str()) {
                breaches.push(Breach(format!("{member} may not depend on {other}")));
            }
        }
    }
    breaches
}

fn purity(dependencies: &Dependencies) -> Vec<Breach> {
    let impure = |pure: &str| {
        let reached = reachable(dependencies, pure);
        let found = reached
            .into_iter()
            .filter(|name| IMPURE.contains(&name.as_str()));
        found
            .map(|name| Breach(format!("{pure} reaches {name}")))
            .collect::<Vec<Breach>>()
    };
    PURE.iter().flat_map(|pure| impure(pure)).collect()
}

fn reachable(dependencies: &Dependencies, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from.to_owned()];
    while let Some(name) = waiting.pop() {
        for other in dependencies.get(&name).into_iter().flatten() {
            if reached.insert(other.clone()) {
                waiting.push(other.clone());
            }
        }
    }
    reached
}

/// What cargo says of the workspace: its members, and all dependencies of normal kind.
fn workspace() -> (BTreeSet<String>, Dependencies) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root());
    command.args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        "x86_64-unknown-linux-gnu",
    ]);
    let metadata: Value = serde_json::from_slice(&run::succeed(&mut command).stdout).expect("JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names: BTreeMap<String, String> = list(&metadata["packages"])
        .iter()
        .map(|package| (text(&package["id"]), text(&package["name"])))
        .collect();
    let name = |id: &Value| names.get(&text(id)).cloned().unwrap_or_default();
    let members = list(&metadata["workspace_members"])
        .iter()
        .map(name)
        .collect();
    let is_normal = |dependency: &Value| {
        list(&dependency["dep_kinds"])
            .iter()
            .any(|kind| kind["kind"].is_null())
    };
    let dependencies = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let used = list(&node["deps"]);
            let used = used.iter().filter(|dependency| is_normal(dependency));
            (
                name(&node["id"]),
                used.map(|dependency| name(&dependency["pkg"])).collect(),
            )
        })
        .collect();
    (members, dependencies)
}

#[test]
fn packages_depend_only_on_what_they_may() {
    let (members, dependencies) = workspace();
    assert!(members.contains("unhex"), "{members:?}");
    assert_none(&edges(&dependencies, &members));
}

#[test]
fn pure_packages_reach_no_io() {
    let (_, dependencies) = workspace();
    assert!(reachable(&dependencies, "unhex").contains("tokio"));
    assert_none(&purity(&dependencies));
}

mod bad_examples {
    use super::*;

    fn dependencies(pairs: &[(&str, &[&str])]) -> Dependencies {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        pairs
            .iter()
            .map(|(name, used)| ((*name).to_owned(), owned(used)))
            .collect()
    }

    #[test]
    fn a_library_that_depends_on_the_root_is_a_breach() {
        let members = BTreeSet::from(["unhex".to_owned(), "unhex-api".to_owned()]);
        let bad = dependencies(&[("unhex-api", &["unhex"]), ("unhex", &["unhex-api"])]);
        assert_eq!(edges(&bad, &members).len(), 1);
    }

    #[test]
    fn a_package_that_nobody_planned_is_a_breach() {
        let members = BTreeSet::from(["unhex-extra".to_owned()]);
        assert_eq!(edges(&Dependencies::new(), &members).len(), 1);
    }

    #[test]
    fn a_pure_package_that_reaches_a_socket_is_a_breach() {
        let bad = dependencies(&[("unhex-symbols", &["a"]), ("a", &["b"]), ("b", &["tokio"])]);
        assert_eq!(
            purity(&bad),
            [Breach("unhex-symbols reaches tokio".to_owned())]
        );
    }
}
