//! The five-minute tour of README.md works as it is written: its commands are run one after the other.

use std::path::Path;
use std::process::Command;

use unhex_testkit::server::Server;
use unhex_testkit::{repository, run, tools};

use crate::stores::{Store, on_every_store};
use crate::symbol_server::UNHEX;

on_every_store!(the_tour_of_the_readme_works,);

/// Where the README says that the server is.
const README_URL: &str = "http://127.0.0.1:8002";

/// The commands of a section: its blocks that are marked `sh`.
fn commands(readme: &str, section: &str) -> String {
    let heading = format!("\n## {section}\n");
    let (_, section) = readme.split_once(&heading).expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let blocks = section.split("```sh\n").skip(1);
    blocks
        .filter_map(|block| block.split("```").next())
        .collect()
}

/// What the tour says, run in an empty folder.
fn run_tour(server: &Server, folder: &Path) -> Option<run::Finished> {
    for tool in [tools::GDB, tools::CURL] {
        tool.find()?;
    }
    let readme = std::fs::read_to_string(repository::root().join("README.md")).expect("a README");
    let commands = commands(&readme, "Five-minute tour");
    assert!(
        commands.contains("unhex upload") && commands.contains(README_URL),
        "{commands}"
    );
    let script = commands.replace(README_URL, &server.url(""));
    let programs = Path::new(UNHEX)
        .parent()
        .expect("a folder")
        .display()
        .to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = Command::new(tools::BASH.path());
    bash.args(["-euo", "pipefail", "-c", &script])
        .current_dir(folder)
        .env("PATH", format!("{programs}:{path}"))
        .env("UNHEX_SERVER", server.url(""))
        .env("HOME", folder)
        .env("DEBUGINFOD_CACHE_PATH", folder.join("cache"));
    Some(run::succeed(&mut bash))
}

fn the_tour_of_the_readme_works(store: Store) {
    let Some(server) = store.server() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(said) = run_tour(&server, folder.path()) else {
        return;
    };
    let text = said.text();
    let expected = [
        "in discount (customer=0x0) at build/price.c:8",
        "price (customer=0x0, base=70) at build/price.c:13",
        "main (argc=1, argv=",
        "return customer->orders > 10 ? 20 : 5;",
    ];
    for expected in expected {
        assert!(
            text.contains(expected),
            "no {expected:?} in:\n{}\n{}",
            said.all(),
            server.log()
        );
    }
    assert_eq!(
        chain(&text),
        ["discount 8 inlined", "price 13 inlined", "main 18"],
        "{text}"
    );
}

/// The frames of the JSON answer in the output, each as function, line and whether it is inlined.
fn chain(output: &str) -> Vec<String> {
    let json = output
        .find("{\"modules\"")
        .and_then(|at| output.get(at..))
        .unwrap_or_default();
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<serde_json::Value>();
    let answer = values.next().and_then(Result::ok).unwrap_or_default();
    let frames = answer["modules"][0]["frames"][0]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let show = |frame: &serde_json::Value| {
        let inlined = if frame["inlined"] == true {
            " inlined"
        } else {
            ""
        };
        format!(
            "{} {}{inlined}",
            frame["function"].as_str().unwrap_or("?"),
            frame["line"]
        )
    };
    frames.iter().map(show).collect()
}
