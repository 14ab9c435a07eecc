//! gdb on the core dump of a stripped program: names, lines and source come from the server.

use std::path::{Path, PathBuf};
use std::process::Command;

use unhex_testkit::fixture::{Fixture, Program, SOURCE_ROOT};
use unhex_testkit::{run, tools};

use crate::stores::{Store, on_every_store};
use crate::symbol_server::SymbolServer;

on_every_store!(
    gdb_shows_names_lines_and_source_of_a_core_dump,
    gdb_needs_no_local_executable_for_a_core_dump,
);

const TEXT: &str = "\
#include <stdlib.h>

struct order { int number; struct order *next; };

static int __attribute__((noinline)) total(const struct order *order)
{
    int sum = 0;
    while (order->number) { /* follows the null pointer */
        sum += order->number;
        order = order->next;
    }
    return sum;
}

int main(int argc, char **argv)
{
    struct order last = { argc, NULL };
    return total(&last);
}
";

fn crashing_program() -> Fixture {
    Program::c(TEXT)
        .name("orders")
        .flags(&["-O1", "-g"])
        .build()
}

/// A core dump of the stripped program in `folder`, made by gdb itself, since where the kernel puts one
/// differs from machine to machine.
fn core_dump(folder: &Path, program: &Path) -> Option<PathBuf> {
    let core = folder.join("core");
    let mut gdb = Command::new(tools::GDB.find()?);
    gdb.args(["-batch", "-nx", "-ex", "run", "-ex"])
        .arg(format!("generate-core-file {}", core.display()))
        .arg(program)
        .env_remove("DEBUGINFOD_URLS");
    let said = run::finish(&mut gdb).all();
    assert!(
        said.contains("SIGSEGV") && core.exists(),
        "no core dump:\n{said}"
    );
    assert!(
        !said.contains("total"),
        "the program is not stripped:\n{said}"
    );
    Some(core)
}

fn ask_gdb(server: &SymbolServer, files: &[&Path]) -> Option<String> {
    let mut gdb = server.client(tools::GDB)?;
    gdb.args(["-batch", "-nx", "-iex", "set debuginfod enabled on"]);
    gdb.args(["-ex", "backtrace", "-ex", "list", "-ex", "frame 1"])
        .args(files);
    Some(run::finish(&mut gdb).all())
}

#[track_caller]
fn assert_symbolized(said: &str, server: &SymbolServer) {
    let expected = [
        "total (order=0x0",
        "at main.c:8",
        "in main (argc=",
        "at main.c:18",
        "sum += order->number;",
        "return total(&last);",
    ];
    assert!(!said.contains("more recent than executable"), "{said}");
    for text in expected {
        assert!(
            said.contains(text),
            "no {text:?} in:\n{said}\n{}",
            server.server.log()
        );
    }
}

fn gdb_shows_names_lines_and_source_of_a_core_dump(store: Store) {
    let program = crashing_program();
    let Some(server) = SymbolServer::start(store) else {
        return;
    };
    server.store("debuginfo", &program.debug_only());
    server.store_sources(
        &program,
        &[(&format!("{SOURCE_ROOT}/main.c"), TEXT.as_bytes())],
    );
    let Some(core) = core_dump(server.folder(), &program.stripped()) else {
        return;
    };
    let Some(said) = ask_gdb(&server, &[&program.stripped(), &core]) else {
        return;
    };
    assert_symbolized(&said, &server);
}

fn gdb_needs_no_local_executable_for_a_core_dump(store: Store) {
    let program = crashing_program();
    let Some(server) = SymbolServer::start(store) else {
        return;
    };
    server.store("executable", &program.stripped());
    server.store("debuginfo", &program.debug_only());
    server.store_sources(
        &program,
        &[(&format!("{SOURCE_ROOT}/main.c"), TEXT.as_bytes())],
    );
    let executable = server.folder().join("orders");
    std::fs::copy(program.stripped(), &executable).expect("copied");
    let Some(core) = core_dump(server.folder(), &executable) else {
        return;
    };
    std::fs::remove_file(executable).expect("removed");
    let Some(said) = ask_gdb(&server, &[Path::new("--core"), &core]) else {
        return;
    };
    assert_symbolized(&said, &server);
}
