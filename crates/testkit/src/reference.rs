//! The reference debuginfod of elfutils, as a peer to compare with.
//!
//! The version in Debian 12 listens on every interface, so that it runs in a network namespace of its
//! own, which needs root; so do the clients that ask it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{run, tools};

/// Its namespace is its own, so that any port is free.
const PORT: u16 = 8002;

/// Longest time until it has scanned its folders.
const START_DEADLINE: Duration = Duration::from_mins(1);

/// A running reference server; it is killed when this is dropped.
#[derive(Debug)]
pub struct Reference {
    child: Child,
    nsenter: PathBuf,
    folder: tempfile::TempDir,
}

impl Reference {
    /// Starts it over the ELF files of some folders and waits until they are scanned. `None`, after
    /// saying so, when something that it needs is missing and this is no build machine.
    ///
    /// # Panics
    /// If it does not become ready, or something is missing and `CI` is `true`.
    pub fn start(folders: &[&Path]) -> Option<Self> {
        Self::start_behind(folders, "")
    }

    /// The same, and it asks the servers of `upstreams`, in its namespace, for what it has not.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_behind(folders: &[&Path], upstreams: &str) -> Option<Self> {
        let debuginfod = tools::DEBUGINFOD.find()?;
        let unshare = tools::UNSHARE.find()?;
        let nsenter = tools::NSENTER.find()?;
        let ip = tools::IP.find()?;
        tools::CURL.find()?;
        let namespaces = run::finish(Command::new(&unshare).args(["-n", "true"]));
        if !namespaces.status.success() {
            tools::skip(
                "the reference debuginfod needs a network namespace, which only root may make",
            );
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        // `exec` twice: the child's ID is the server's, and so is its namespace.
        let script = "\"$0\" link set lo up && exec \"$@\"";
        let child = Command::new(unshare)
            .args(["-n", "bash", "-c", script])
            .arg(ip)
            .arg(debuginfod)
            .args(["-d", ":memory:", "-t", "0", "-p"])
            .arg(PORT.to_string())
            .arg("-F")
            .args(folders)
            .env("DEBUGINFOD_URLS", upstreams)
            .env("DEBUGINFOD_CACHE_PATH", folder.path().join("upstream"))
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("unshare starts");
        let reference = Self {
            child,
            nsenter,
            folder,
        };
        run::poll("the reference debuginfod to scan", START_DEADLINE, || {
            let metrics = run::finish(&mut reference.curl("/metrics"));
            let said = metrics.text();
            let done = |line: &str| said.lines().any(|l| l == line);
            (done("thread_work_total{role=\"traverse\"} 1")
                && done("thread_work_pending{role=\"scan\"} 0")
                && done("thread_busy{role=\"scan\"} 0"))
            .then_some(())
        });
        Some(reference)
    }

    /// Where it is, for programs in its namespace.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{PORT}")
    }

    /// A program that runs in its namespace, with `DEBUGINFOD_URLS` set to it and an empty cache.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(&self.nsenter);
        command
            .arg(format!("--net=/proc/{}/ns/net", self.child.id()))
            .arg(program.as_ref())
            .env("DEBUGINFOD_URLS", self.url())
            .env("DEBUGINFOD_CACHE_PATH", self.folder.path().join("cache"));
        command
    }

    /// The status and the body of what it answers to a GET of `path`, sent as it is.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn get(&self, path: &str) -> (u16, Vec<u8>) {
        let mut curl = self.curl(path);
        curl.args(["-w", "%{stderr}%{http_code}"]);
        let answer = run::succeed(&mut curl);
        let status = answer.stderr.trim().parse().expect("a status code");
        (status, answer.stdout)
    }

    fn curl(&self, path: &str) -> Command {
        let mut command = self.command(tools::CURL.path());
        command.args(["--silent", "--noproxy", "*", "--path-as-is"]);
        command.arg(format!("{}{path}", self.url()));
        command
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Program;

    #[test]
    fn the_reference_serves_a_fixture() {
        let program = Program::c("int main(void) { return 0; }")
            .flags(&["-g"])
            .build();
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::copy(program.path(), folder.path().join("program")).expect("copied");
        let Some(reference) = Reference::start(&[folder.path()]) else {
            return;
        };
        let (status, body) = reference.get(&format!("/buildid/{}/debuginfo", program.build_id()));
        assert_eq!((status, body.len()), (200, program.bytes().len()));
        assert_eq!(reference.get("/buildid/00112233/debuginfo").0, 404);
    }
}
