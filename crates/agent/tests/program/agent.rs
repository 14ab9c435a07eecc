//! A running agent, and programs for it to see.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::{http, run, tools};

use crate::PROGRAM;

/// Longest time for anything here; it takes seconds on an idle machine.
pub(crate) const DEADLINE: Duration = Duration::from_mins(3);

/// A running agent; killed when it is dropped.
pub(crate) struct Agent {
    child: Child,
    url: String,
    log: PathBuf,
    _stdout: BufReader<ChildStdout>,
    _folder: tempfile::TempDir,
}

/// A program that is busy until it is dropped.
pub(crate) struct Busy(Child);

impl Drop for Busy {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Agent {
    /// Starts it; none where it may not look at this host.
    pub(crate) fn start(arguments: &[&str]) -> Option<Self> {
        if !may_sample() {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let mut command = agent();
        let mut child = command
            .args(["run", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("a log"))
            .spawn()
            .expect("it starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let said = || String::from_utf8_lossy(&run::read(&log)).into_owned();
        let url = line.trim().strip_prefix("listening on ").map(str::to_owned);
        let url = url.unwrap_or_else(|| panic!("it does not say where it listens:\n{}", said()));
        Some(Self {
            child,
            url,
            log,
            _stdout: stdout,
            _folder: folder,
        })
    }

    /// The number of a series of `/metrics`.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let text = http::get(&format!("{}/metrics", self.url))
            .expect("an answer")
            .text();
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let found = lines.find(|(name, _)| *name == series);
        found.map_or(0.0, |(_, value)| value.parse().expect("a number"))
    }

    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&run::read(&self.log)).into_owned()
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn stop(mut self) -> ExitStatus {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        rustix::process::kill_process(id.expect("an ID"), Signal::TERM).expect("it runs");
        run::wait(&mut self.child, DEADLINE).unwrap_or_else(|| panic!("no end:\n{}", self.log()))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The program, without settings of whoever runs the tests.
pub(crate) fn agent() -> Command {
    let mut command = Command::new(PROGRAM);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"UNHEX_") {
            command.env_remove(name);
        }
    }
    command
}

/// Whether samples of the whole host can be taken; says so if not, and never on a build machine.
pub(crate) fn may_sample() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        tools::skip("samples of the whole host need root, or CAP_PERFMON and CAP_BPF");
    }
    is_root
}

/// A program that spends its time in `leaf`, called by `middle`, called by `outer`, without frame pointers.
///
/// Tests that send its symbols to a server of their own have a build of their own: which file of a build an agent
/// looks at does not depend on whose test it is.
pub(crate) fn spinner(test: &str) -> Fixture {
    let source = "volatile unsigned long count;\n\
         __attribute__((noinline)) unsigned long leaf(unsigned long n) {\n\
             for (unsigned long i = 0; i < 1000000; i++) { n = n * 6364136223846793005ul + 1; count += n >> 60; }\n\
             return n;\n\
         }\n\
         __attribute__((noinline)) unsigned long middle(unsigned long n) { return leaf(n) + 1; }\n\
         __attribute__((noinline)) unsigned long outer(unsigned long n) { return middle(n) + 1; }\n\
         int main(void) { unsigned long n = 1; for (;;) n = outer(n); }\n";
    Program::c(format!("const char test[] = \"{test}\";\n{source}"))
        .flags(&[
            "-g",
            "-O1",
            "-fomit-frame-pointer",
            "-fno-optimize-sibling-calls",
            "-pie",
            "-fPIE",
        ])
        .name("spinner")
        .build()
}

/// Starts a program as a service.
pub(crate) fn busy(program: &Path, arguments: &[&str], service: &str) -> Busy {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("OTEL_SERVICE_NAME", service)
        .env(
            "OTEL_RESOURCE_ATTRIBUTES",
            "service.version=1%2E2,team=tests",
        )
        .stdin(Stdio::null());
    Busy(command.spawn().expect("it starts"))
}
