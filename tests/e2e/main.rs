//! The real program against the real clients: gdb, valgrind, elfutils' and llvm's tools.
#![cfg(test)]

mod bucket;
mod debuginfod_find;
mod gdb;
mod hold;
mod hostile;
mod large;
mod llvm;
mod measured;
mod perf;
mod proxy;
mod renamed;
mod replicas;
mod scan;
mod stores;
mod symbol_server;
mod tour;
mod upstream;
mod valgrind;
