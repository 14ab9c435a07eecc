//! valgrind names function and line of an error in a stripped program.

use unhex_testkit::fixture::Program;
use unhex_testkit::{run, tools};

use crate::stores::{Store, on_every_store};
use crate::symbol_server::SymbolServer;

on_every_store!(valgrind_shows_function_and_line_of_an_error_in_a_stripped_program,);

const TEXT: &str = "\
#include <stdlib.h>

static int __attribute__((noinline)) read_behind(const int *values, int count)
{
    return values[count];
}

int main(void)
{
    int *values = calloc(4, sizeof *values);
    int value = read_behind(values, 4);
    free(values);
    return value != 0;
}
";

fn valgrind_shows_function_and_line_of_an_error_in_a_stripped_program(store: Store) {
    let program = Program::c(TEXT)
        .name("behind")
        .flags(&["-O1", "-g"])
        .build();
    let Some(server) = SymbolServer::start(store) else {
        return;
    };
    server.store("debuginfo", &program.debug_only());
    let Some(mut valgrind) = server.client(tools::VALGRIND) else {
        return;
    };
    if tools::DEBUGINFOD_FIND.find().is_none() {
        return;
    }
    let said = run::finish(valgrind.arg("--quiet").arg(program.stripped())).all();
    for text in [
        "Invalid read of size 4",
        "read_behind (main.c:5)",
        "main (main.c:11)",
    ] {
        assert!(
            said.contains(text),
            "no {text:?} in:\n{said}\n{}",
            server.server.log()
        );
    }
}
