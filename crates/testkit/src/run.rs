//! Runs external programs to their end, with a deadline, and shows everything when they fail.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a finished program said.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output, bytes.
    pub stdout: Vec<u8>,
    /// Its standard error, as text.
    pub stderr: String,
}

impl Finished {
    /// Its standard output as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard output and error, one after the other: for assertions on all that was said.
    pub fn all(&self) -> String {
        format!("{}{}", self.text(), self.stderr)
    }
}

/// Longest run of a program: compilers and debuggers take seconds, on a busy machine more.
const DEADLINE: Duration = Duration::from_mins(3);

/// Another program of the workspace: it lies beside the one under test, in the same folder of the build.
///
/// # Panics
/// If it is not there: `cargo test` of one package builds that package's programs only.
pub fn program_beside(program: &str, name: &str) -> PathBuf {
    let path = Path::new(program).with_file_name(name);
    assert!(
        path.exists(),
        "{} is not there: run `cargo build -p {name}` first",
        path.display()
    );
    path
}

/// Runs `command` to its end and returns what it said, however it ended.
///
/// # Panics
/// If it cannot be started or runs for more than three minutes; it is killed then.
pub fn finish(command: &mut Command) -> Finished {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let status = wait(&mut child, DEADLINE)
        .unwrap_or_else(|| panic!("{command:?} did not end within {DEADLINE:?}"));
    let collect = |reader: std::thread::JoinHandle<Vec<u8>>| {
        reader.join().expect("the reader of a pipe does not panic")
    };
    Finished {
        status,
        stdout: collect(stdout),
        stderr: String::from_utf8_lossy(&collect(stderr)).into_owned(),
    }
}

/// Runs `command` to its end and returns what it said.
///
/// # Panics
/// If it fails, with all that it said; and as [`finish`].
pub fn succeed(command: &mut Command) -> Finished {
    let finished = finish(command);
    assert!(
        finished.status.success(),
        "{command:?} failed: {}\n{}",
        finished.status,
        finished.all()
    );
    finished
}

/// Waits for a child until the deadline; `None` when it had to be killed.
pub fn wait(child: &mut Child, deadline: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + deadline;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() > end {
            drop(child.kill());
            drop(child.wait());
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks `ready` again and again until it answers `Some`, or the deadline passes.
///
/// # Panics
/// If the deadline passes; `what` says for what.
pub fn poll<T>(what: &str, deadline: Duration, mut ready: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + deadline;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(
            Instant::now() < end,
            "waited {deadline:?} in vain for {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The bytes of a file.
///
/// # Panics
/// If it cannot be read.
pub fn read(path: impl AsRef<Path>) -> Vec<u8> {
    let path = path.as_ref();
    std::fs::read(path).unwrap_or_else(|error| panic!("{} cannot be read: {error}", path.display()))
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            drop(pipe.read_to_end(&mut bytes));
        }
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools;

    #[test]
    fn what_a_program_says_is_collected() {
        let mut command = Command::new(tools::BASH.path());
        let said = succeed(command.args(["-c", "echo out; echo err >&2"]));
        assert_eq!(
            (said.text().as_str(), said.stderr.as_str()),
            ("out\n", "err\n")
        );
    }

    #[test]
    #[should_panic(expected = "exit status: 3")]
    fn a_failure_shows_the_exit_status() {
        succeed(Command::new(tools::BASH.path()).args(["-c", "exit 3"]));
    }

    #[test]
    fn a_child_beyond_its_deadline_is_killed() {
        let mut child = Command::new(tools::BASH.path())
            .args(["-c", "sleep 60"])
            .spawn()
            .expect("bash starts");
        assert_eq!(wait(&mut child, Duration::from_millis(20)), None);
    }
}
