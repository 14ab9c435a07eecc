//! Processes are known while they run, and what they mapped is known after the shortest of them have ended.

use std::process::{Command, Stdio};
use std::time::Duration;

use unhex_agent::clock::monotonic_nanos;
use unhex_agent::perf_events::online_processors;
use unhex_agent::processes::{BinaryKind, Process, Processes};
use unhex_agent::sample::ProcessId;
use unhex_agent::sideband::Sideband;
use unhex_build_id::Identity;
use unhex_testkit::fixture::Program;
use unhex_testkit::run;

use crate::privileges::may_follow_all_processes;

const DEADLINE: Duration = Duration::from_secs(30);

/// All that happened until now.
fn catch_up(sideband: &mut Sideband, processes: &mut Processes) -> Vec<ProcessId> {
    let now = monotonic_nanos();
    let mut changed = Vec::new();
    run::poll("records of now", DEADLINE, || {
        let until = sideband.collect().unwrap();
        sideband.advance(processes, until, |_, id| changed.push(id));
        (until >= now).then_some(())
    });
    changed
}

fn names(process: &Process) -> Vec<&str> {
    let regions = process.regions().iter();
    regions.map(|region| region.binary.name.as_str()).collect()
}

#[test]
fn a_process_that_has_ended_already_has_its_mappings_with_identities() {
    if !may_follow_all_processes() {
        return;
    }
    let program = Program::c("int main(void) { return 0; }")
        .flags(&["-O2"])
        .build();
    let mut processes = Processes::default();
    let mut sideband = Sideband::open(&mut processes).unwrap();
    for _ in 0..20 {
        let mut child = Command::new(program.path()).spawn().unwrap();
        let id = ProcessId(child.id());
        assert!(child.wait().unwrap().success());
        let changed = catch_up(&mut sideband, &mut processes);
        assert!(changed.contains(&id), "{changed:?}");
        let process = processes.get(id).unwrap();
        let path = program.path().to_str().unwrap();
        let of_program = process
            .regions()
            .iter()
            .find(|region| region.binary.name == path);
        let own = &of_program
            .unwrap_or_else(|| panic!("{:?}", names(process)))
            .binary;
        let build_id = program.build_id().parse().unwrap();
        assert_eq!(own.identity, Some(Identity::Gnu(build_id)));
        let libc = process
            .regions()
            .iter()
            .find(|region| region.binary.name.ends_with("/libc.so.6"));
        let libc = libc.unwrap_or_else(|| panic!("{:?}", names(process)));
        assert!(libc.binary.identity.is_some() && !libc.binary.segments.0.is_empty());
        assert!(
            process
                .regions()
                .iter()
                .any(|region| region.binary.kind == BinaryKind::Vdso)
        );
    }
    assert_eq!(sideband.lost(), 0);
}

#[test]
fn what_a_process_loads_replaces_and_runs_is_followed_as_proc_has_it() {
    if !may_follow_all_processes() {
        return;
    }
    let mut processes = Processes::default();
    let mut sideband = Sideband::open(&mut processes).unwrap();
    // A shell forks and both run other programs: `sleep` in the child, `cat` in the shell itself.
    let script = "sleep 100 & echo $!; exec cat";
    let mut shell = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = shell.stdout.as_mut().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    let ids = [
        ("sleep", ProcessId(line.trim().parse().unwrap())),
        ("cat", ProcessId(shell.id())),
    ];
    for (program, id) in ids {
        let followed = run::poll(program, DEADLINE, || {
            catch_up(&mut sideband, &mut processes);
            let process = processes.get(id)?;
            let names = names(process);
            let runs = names
                .iter()
                .any(|name| name.ends_with(&format!("/{program}")));
            let regions = process.regions().iter();
            let ranges = regions.map(|region| (region.mapping.start.0, region.mapping.end.0));
            // Its libraries are there, too.
            (runs && names.iter().any(|name| name.ends_with("/libc.so.6")))
                .then(|| ranges.collect::<Vec<_>>())
        });
        let mut read = Processes::default();
        assert!(read.ensure(id, monotonic_nanos()));
        let regions = read.get(id).unwrap().regions().iter();
        let ranges: Vec<_> = regions
            .map(|region| (region.mapping.start.0, region.mapping.end.0))
            .collect();
        assert_eq!(followed, ranges, "{program}");
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(id.0.try_into().unwrap()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
    }
    shell.wait().unwrap();
}

#[test]
fn what_was_lost_is_mended_by_reading_proc() {
    if !may_follow_all_processes() {
        return;
    }
    let mut processes = Processes::default();
    let mut sideband = Sideband::open(&mut processes).unwrap();
    // More records than the rings of two processors hold, and a process behind them that nobody tells of.
    let threads_begin_and_end = || {
        for _ in 0..12_000 {
            std::thread::spawn(|| {}).join().unwrap();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..online_processors().unwrap().len() {
            scope.spawn(threads_begin_and_end);
        }
    });
    let mut child = Command::new("sleep").arg("100").spawn().unwrap();
    let id = ProcessId(child.id());
    run::poll("lost records", DEADLINE, || {
        // The kernel says how many were lost with the next record for which there is room.
        std::thread::spawn(|| {}).join().unwrap();
        catch_up(&mut sideband, &mut processes);
        (sideband.lost() > 0).then_some(())
    });
    run::poll("the process that was not told of", DEADLINE, || {
        catch_up(&mut sideband, &mut processes);
        sideband.tidy(&mut processes, |_, _| {});
        let process = processes.get(id)?;
        names(process)
            .iter()
            .any(|name| name.ends_with("/libc.so.6"))
            .then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn who_waits_is_woken_by_a_process_that_begins() {
    if !may_follow_all_processes() {
        return;
    }
    let mut processes = Processes::default();
    let sideband = Sideband::open(&mut processes).unwrap();
    let program = Program::c("int main(void) { return 0; }").build();
    let mut child = Command::new(program.path()).spawn().unwrap();
    assert!(sideband.wait(DEADLINE).unwrap());
    assert!(child.wait().unwrap().success());
}
