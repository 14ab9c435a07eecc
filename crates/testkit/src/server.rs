//! A server of this project as a process of its own, on a free loopback port, with a data folder
//! that goes away with it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::memory::{self, MemoryWatch};
use crate::{http, run};

/// Longest time from the start until the server answers; it takes tenths of a second on an idle machine.
const START_DEADLINE: Duration = Duration::from_mins(1);

/// Longest time from SIGTERM to the end.
const STOP_DEADLINE: Duration = Duration::from_mins(1);

/// A running server; it is killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    url: String,
    home: Home,
}

/// The folder that a server runs in; it outlives a server that is killed, for the next one.
#[derive(Debug)]
pub struct Home {
    folder: tempfile::TempDir,
    environment: Vec<(&'static str, String)>,
}

impl Home {
    /// An empty folder.
    ///
    /// # Panics
    /// If the temporary folder cannot be written.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self {
            folder,
            environment: Vec::new(),
        }
    }

    /// The same folder, for servers with these variables.
    #[must_use]
    pub fn with_environment(
        mut self,
        variables: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Self {
        self.environment.extend(variables);
        self
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where the server keeps its data.
    pub fn data(&self) -> PathBuf {
        self.path().join("unhex-data")
    }

    fn log(&self) -> PathBuf {
        self.path().join("log")
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// Starts `program serve` in an empty folder and waits until it is ready.
    ///
    /// # Panics
    /// If it does not become ready; the message has its log.
    pub fn start(program: impl AsRef<Path>) -> Self {
        Self::start_in(Home::new(), program, &[])
    }

    /// Starts `program serve` with more arguments in a folder that an earlier one may have left.
    ///
    /// # Panics
    /// If it does not become ready; the message has its log.
    pub fn start_in(home: Home, program: impl AsRef<Path>, arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", home, program, arguments)
    }

    /// Starts `program serve` at an address, as a restart does that clients must not notice.
    ///
    /// # Panics
    /// If it does not become ready; the message has its log.
    pub fn start_at(
        listen: &str,
        home: Home,
        program: impl AsRef<Path>,
        arguments: &[&str],
    ) -> Self {
        let log = File::options()
            .create(true)
            .append(true)
            .open(home.log())
            .expect("a log file can be created");
        let mut command = Command::new(program.as_ref());
        command
            .args(["serve", "--listen", listen])
            .args(arguments)
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"UNHEX_") {
                command.env_remove(name);
            }
        }
        command.envs(home.environment.iter().map(|(name, value)| (name, value)));
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdout = child.stdout.take().expect("a pipe");
        let mut server = Self {
            child,
            url: String::new(),
            home,
        };
        server.url = server.announced_url(stdout);
        run::poll("the server to be ready", START_DEADLINE, || {
            http::get(&server.url("/readyz")).filter(|answer| answer.status == 200)
        });
        server
    }

    /// `http://127.0.0.1:PORT` and the path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The folder that it runs in.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&run::read(self.home.log())).into_owned()
    }

    /// Resident memory of the server and its children now, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        memory::of_tree(self.id())
    }

    /// Watches that memory until the watch is dropped.
    pub fn watch_memory(&self) -> MemoryWatch {
        MemoryWatch::start(self.id())
    }

    /// The most memory that the server itself, without children, had resident so far, in bytes.
    pub fn peak_memory_bytes(&self) -> u64 {
        memory::status_bytes(self.id(), "VmHWM:")
    }

    /// Kills it at once, as `kill -9` does, and returns its folder.
    pub fn kill(mut self) -> Home {
        drop(self.child.kill());
        drop(self.child.wait());
        std::mem::take(&mut self.home)
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Panics
    /// If it does not end within a minute.
    pub fn stop(mut self) -> ExitStatus {
        self.end()
    }

    /// Sends SIGTERM, waits for a good end, and returns the folder.
    ///
    /// # Panics
    /// If it does not end within a minute, or not well.
    pub fn terminate(mut self) -> Home {
        let status = self.end();
        assert!(status.success(), "{status}:\n{}", self.log());
        std::mem::take(&mut self.home)
    }

    fn end(&mut self) -> ExitStatus {
        let id = i32::try_from(self.id()).expect("process IDs are small");
        let id = Pid::from_raw(id).expect("not process 0");
        rustix::process::kill_process(id, Signal::TERM).expect("it runs");
        run::wait(&mut self.child, STOP_DEADLINE)
            .unwrap_or_else(|| panic!("no end after SIGTERM:\n{}", self.log()))
    }

    /// Reads the line `listening on http://ADDRESS`; the rest of the output is read and dropped, so that the
    /// server never waits for this side.
    fn announced_url(&self, stdout: impl Read + Send + 'static) -> String {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(url) = line.strip_prefix("listening on ") {
                    drop(sender.send(url.trim().to_owned()));
                }
            }
        });
        receiver
            .recv_timeout(START_DEADLINE)
            .unwrap_or_else(|_| panic!("the server does not say where it listens:\n{}", self.log()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
