//! llvm-symbolizer names the frames of a stripped program with debug information from the server.

use std::path::Path;

use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::{run, tools};

use crate::stores::{Store, on_every_store};
use crate::symbol_server::SymbolServer;

on_every_store!(
    llvm_symbolizer_shows_inlined_calls_of_a_stripped_program,
    llvm_symbolizer_needs_the_build_id_alone,
);

const TEXT: &str = "\
static inline int __attribute__((always_inline)) inner(volatile int *x)
{
    return *x + 1;
}

int __attribute__((noinline)) outer(volatile int *x)
{
    return inner(x) * 2;
}

int main(void)
{
    volatile int x = 1;
    return outer(&x);
}
";

fn program() -> Fixture {
    Program::c(TEXT)
        .name("inlined")
        .flags(&["-O2", "-g"])
        .build()
}

/// The link address of `outer`, as readelf tells it.
pub(crate) fn address_of_outer(program: &Path) -> String {
    let mut readelf = std::process::Command::new(tools::READELF.path());
    let symbols = run::succeed(readelf.arg("-sW").arg(program)).text();
    let line = symbols
        .lines()
        .find(|line| line.ends_with(" outer"))
        .expect("a symbol");
    format!("0x{}", line.split_whitespace().nth(1).expect("an address"))
}

fn llvm_symbolizer_shows_inlined_calls_of_a_stripped_program(store: Store) {
    let program = program();
    let Some(server) = SymbolServer::start(store) else {
        return;
    };
    server.store("debuginfo", &program.debug_only());
    let Some(mut symbolizer) = server.client(tools::LLVM_SYMBOLIZER) else {
        return;
    };
    symbolizer
        .arg("--debuginfod")
        .arg(format!("--obj={}", program.stripped().display()));
    let said = run::succeed(symbolizer.arg(address_of_outer(program.path()))).all();
    for text in ["inner", "main.c:3", "outer", "main.c:8"] {
        assert!(
            said.contains(text),
            "no {text:?} in:\n{said}\n{}",
            server.server.log()
        );
    }
}

fn llvm_symbolizer_needs_the_build_id_alone(store: Store) {
    let program = program();
    let Some(server) = SymbolServer::start(store) else {
        return;
    };
    server.store("executable", &program.stripped());
    server.store("debuginfo", &program.debug_only());
    let Some(mut symbolizer) = server.client(tools::LLVM_SYMBOLIZER) else {
        return;
    };
    symbolizer
        .arg("--debuginfod")
        .arg(format!("--build-id={}", program.build_id()));
    let said = run::succeed(symbolizer.arg(address_of_outer(program.path()))).all();
    assert!(
        said.contains("inner") && said.contains("main.c:8"),
        "{said}\n{}",
        server.server.log()
    );
}
