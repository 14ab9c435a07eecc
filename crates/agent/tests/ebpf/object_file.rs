//! The object that is checked in is what its source compiles to.

use std::process::Command;

use unhex_testkit::{repository, run, tools};

#[test]
fn the_object_is_what_its_source_compiles_to() {
    if tools::CLANG.find().is_none() || tools::LLVM_OBJCOPY.find().is_none() {
        return;
    }
    let folder = repository::root().join("crates/agent/bpf");
    let built = repository::target_tmp("bpf").join(format!("unwind-{}.o", std::process::id()));
    run::succeed(Command::new(folder.join("build.sh")).arg(&built));
    let (fresh, kept) = (run::read(&built), run::read(folder.join("unwind.x86_64.o")));
    std::fs::remove_file(&built).expect("the object can be removed");
    assert!(
        fresh == kept,
        "crates/agent/bpf/unwind.x86_64.o is not what its source compiles to: run crates/agent/bpf/build.sh"
    );
}
