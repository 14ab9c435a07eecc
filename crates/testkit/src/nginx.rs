//! nginx as a proxy in front of a server, with a configuration that documents show.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{http, run, tools};

/// Longest time until it listens.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// How often another port is tried: somebody may take the one that was free.
const PORTS_MAX: usize = 5;

/// A running proxy on a free loopback port; it is stopped when this is dropped.
#[derive(Debug)]
pub struct Nginx {
    child: Child,
    url: String,
    folder: tempfile::TempDir,
}

impl Nginx {
    /// Starts it with the text within `http { }`, in which port 80 becomes a free one and
    /// 127.0.0.1:8002 the server at `url`. `None`, after saying so, when it is missing and this is no
    /// build machine.
    ///
    /// # Panics
    /// If it does not start, or is missing and `CI` is `true`.
    pub fn before(url: &str, configuration: &str) -> Option<Self> {
        let nginx = tools::NGINX.find()?;
        let server = url.strip_prefix("http://").expect("an http URL");
        let server = server.trim_end_matches('/');
        for _ in 0..PORTS_MAX {
            let port = free_port();
            let here = configuration
                .replace("listen 80;", &format!("listen 127.0.0.1:{port};"))
                .replace("127.0.0.1:8002", server);
            let folder = tempfile::tempdir().expect("a temporary folder");
            std::fs::write(
                folder.path().join("nginx.conf"),
                whole(&here, folder.path()),
            )
            .expect("a configuration");
            let child = Command::new(&nginx)
                .arg("-c")
                .arg(folder.path().join("nginx.conf"))
                .arg("-e")
                .arg(folder.path().join("errors"))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("it starts");
            let mut started = Self {
                child,
                url: format!("http://127.0.0.1:{port}"),
                folder,
            };
            if started.answers() {
                return Some(started);
            }
        }
        panic!("nginx does not start");
    }

    fn answers(&mut self) -> bool {
        let url = format!("{}/healthz", self.url);
        run::poll("nginx to answer or to end", START_DEADLINE, || {
            let ended = self.child.try_wait().expect("a child").is_some();
            let answers = http::get(&url).is_some();
            (ended || answers).then_some(!ended)
        })
    }

    /// `http://127.0.0.1:PORT` and the path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Bytes of all files that it keeps: bodies on their way are none of them.
    pub fn stored_bytes(&self) -> u64 {
        let files = walk(&self.folder.path().join("bodies"));
        files.iter().map(std::fs::Metadata::len).sum()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM, so that it takes its workers along.
        if let Some(id) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ended_already = kill_process(id, Signal::TERM);
        }
        if run::wait(&mut self.child, START_DEADLINE).is_none() {
            drop(self.child.kill());
        }
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

fn walk(folder: &Path) -> Vec<std::fs::Metadata> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let entries = entries.filter_map(Result::ok);
    entries
        .flat_map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => walk(&entry.path()),
            Ok(metadata) => vec![metadata],
            Err(_) => Vec::new(),
        })
        .collect()
}

/// The whole configuration: one worker, everything that it writes below `folder`.
fn whole(http: &str, folder: &Path) -> String {
    let place = folder.display();
    let mut text =
        format!("daemon off;\nworker_processes 1;\npid {place}/pid;\nerror_log {place}/errors;\n");
    // Started by root, workers would be somebody who may not write here.
    if rustix::process::geteuid().is_root() {
        text.push_str("user root;\n");
    }
    text.push_str("events { worker_connections 256; }\nhttp {\naccess_log off;\n");
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _infallible = writeln!(text, "{kind}_temp_path {place}/bodies/{kind};");
    }
    let _infallible = writeln!(text, "{http}\n}}");
    // It makes the last folder of each path only.
    std::fs::create_dir_all(folder.join("bodies")).expect("a folder");
    text
}
