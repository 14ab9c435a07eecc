//! perf names the functions of a stripped program in a profile that was recorded without symbols.
//!
//! Debian's perf does not speak debuginfod; it gets the file from `debuginfod-find`, by its own cache.
//! A perf that does speak it is tried by the script that CONTRIBUTING.md names.

use std::path::Path;
use std::process::Command;

use unhex_testkit::fixture::Program;
use unhex_testkit::{run, tools};

use crate::stores::{Store, on_every_store};
use crate::symbol_server::SymbolServer;

on_every_store!(perf_report_names_functions_once_its_cache_has_the_debug_information,);

const TEXT: &str = "\
static unsigned long __attribute__((noinline)) spin_hot(unsigned long rounds)
{
    unsigned long sum = 1;
    while (rounds--)
        sum = sum * 31 + (sum >> 7);
    return sum;
}

int main(void)
{
    return spin_hot(300000000UL) == 42;
}
";

/// What perf says of a profile, by function.
fn report(mut perf: Command, profile: &Path) -> String {
    perf.args(["report", "--stdio", "--sort", "symbol", "-i"]);
    run::succeed(perf.arg(profile)).text()
}

fn perf_report_names_functions_once_its_cache_has_the_debug_information(store: Store) {
    let program = Program::c(TEXT)
        .name("spinner")
        .flags(&["-O1", "-g"])
        .build();
    let Some(server) = SymbolServer::start(store) else {
        return;
    };
    server.store("debuginfo", &program.debug_only());
    let (profile, cache) = (
        server.folder().join("perf.data"),
        server.folder().join("perf-cache"),
    );
    let perf = || {
        let mut perf = server.client(tools::PERF)?;
        perf.arg("--buildid-dir").arg(&cache);
        Some(perf)
    };
    let Some(mut record) = perf() else { return };
    record.args([
        "record",
        "--no-buildid-cache",
        "--event",
        "cpu-clock",
        "--freq",
        "499",
        "--output",
    ]);
    run::succeed(record.arg(&profile).arg("--").arg(program.stripped()));
    let before = report(perf().expect("it was there"), &profile);
    assert!(!before.contains("spin_hot"), "{before}");

    let Some(mut find) = server.client(tools::DEBUGINFOD_FIND) else {
        return;
    };
    let found = run::succeed(find.args(["debuginfo", &program.build_id()])).text();
    let mut keep = perf().expect("it was there");
    run::succeed(keep.args(["buildid-cache", "--add", found.trim()]));
    let after = report(perf().expect("it was there"), &profile);
    assert!(
        after.contains("spin_hot"),
        "{after}\n{}",
        server.server.log()
    );
}
