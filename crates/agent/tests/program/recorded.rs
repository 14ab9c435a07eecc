//! `unhex-agent record`: a file of one host, with names.

use std::path::Path;

use unhex_pprof::{FrameKind, Limits, Profiles, Value, pprof, unpacked};
use unhex_testkit::server::Server;
use unhex_testkit::{http, run};

use crate::PROGRAM;
use crate::agent::{DEADLINE, agent, busy, may_sample, spinner};

/// The stacks of a service, outermost frame last, each as names.
fn stacks(model: &Profiles<'_>, service: &str) -> Vec<Vec<String>> {
    let profile = &model.profiles()[0];
    let is_of_service = |sample: &unhex_pprof::Sample<'_>| {
        let attributes = sample
            .attributes
            .iter()
            .filter_map(|id| model.attribute(*id));
        let mut texts = attributes.filter_map(|attribute| match attribute.value {
            Value::Text(id) => Some((model.text(attribute.key), model.text(id))),
            _ => None,
        });
        texts.any(|pair| pair == ("service.name", service))
    };
    let samples = model.samples(profile).filter(is_of_service);
    let names = samples.map(|sample| {
        let frames = model.stack(sample.stack).iter();
        let frames = frames.filter_map(|id| model.frame(*id));
        let native = frames.filter(|frame| matches!(frame.kind, FrameKind::Native(_)));
        native
            .flat_map(|frame| model.lines(frame))
            .map(|line| {
                let function = model.function(line.function).expect("a function");
                model.text(function.name).to_owned()
            })
            .collect()
    });
    names.collect()
}

fn recorded(path: &Path) -> Vec<u8> {
    let file = run::read(path);
    unpacked(&file, &Limits::default())
        .expect("gzip")
        .into_owned()
}

fn whole_stacks_by(engine: &str) {
    if !may_sample() {
        return;
    }
    let symbols = Server::start(run::program_beside(PROGRAM, "unhex"));
    let spinner = spinner(engine);
    let upload = symbols.url(&format!("/buildid/{}/debuginfo", spinner.build_id()));
    let uploaded = http::put(&upload, &run::read(spinner.path())).expect("an answer");
    assert!((200..300).contains(&uploaded.status), "{}", uploaded.text());
    let _busy = busy(&spinner.stripped(), &[], "checkout");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cpu.pb.gz");
    // While the host is busy with much else its unwind tables may come late.
    run::poll("whole stacks with names", DEADLINE, || {
        let mut command = agent();
        command
            .args(["record", "--duration", "2s", "--samples-per-second", "99"])
            .args(["--engine", engine])
            .args(["--server", &symbols.url("")])
            .arg("--out")
            .arg(&file)
            .current_dir(folder.path());
        let said = run::succeed(&mut command).all();
        assert!(said.contains("is written"), "{said}");
        let bytes = recorded(&file);
        let model = pprof::decode(&bytes, &Limits::default()).expect("a pprof");
        let is_whole = |stack: &Vec<String>| {
            let names: Vec<&str> = stack.iter().map(String::as_str).collect();
            names.starts_with(&["leaf", "middle", "outer", "main"])
        };
        stacks(&model, "checkout")
            .iter()
            .any(is_whole)
            .then_some(())
    });
}

#[test]
fn a_file_of_one_host_has_the_names_that_a_symbol_server_knows() {
    whole_stacks_by("ebpf");
}

#[test]
fn so_has_one_of_the_engine_that_copies_stacks() {
    whole_stacks_by("perf-copy");
}

#[test]
fn what_cannot_be_recorded_is_said_in_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = agent();
    command
        .args(["record", "--out", "x", "--config", "/nowhere/file"])
        .current_dir(folder.path());
    let said = run::finish(&mut command);
    assert!(!said.status.success());
    assert_eq!(
        said.stderr,
        "unhex-agent: /nowhere/file cannot be read: No such file or directory (os error 2)\n"
    );
}
