//! The processes of a Ceph: started together, killed and started again one by one, ended with this.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::S3Server;
use crate::{http, run, tools};

/// The start of all its processes, see there.
const START: &str = include_str!("start.sh");

/// Longest time until it answers; six seconds on an idle machine, eleven for three of each.
const START_DEADLINE: Duration = Duration::from_mins(3);

/// Longest time until a process is killed or started.
const ORDER_DEADLINE: Duration = Duration::from_secs(20);

/// Longest time until all its processes are gone.
const STOP_DEADLINE: Duration = Duration::from_secs(20);

/// How many processes of each kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) monitors: usize,
    pub(super) osds: usize,
    pub(super) gateways: usize,
}

/// One of its processes, numbered from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// One that knows who is up, with a majority of its kind; the first of those that run leads.
    Monitor(usize),
    /// One that keeps a copy of everything, in memory.
    Osd(usize),
    /// One that speaks S3.
    Gateway(usize),
}

impl fmt::Display for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Monitor(at) => write!(f, "mon.{at}"),
            Self::Osd(at) => write!(f, "osd.{at}"),
            Self::Gateway(at) => write!(f, "rgw.{at}"),
        }
    }
}

/// A running Ceph; it is killed when this is dropped, or when this process ends.
#[derive(Debug)]
pub(super) struct Ceph {
    script: Child,
    orders: Mutex<Option<Orders>>,
    endpoints: Vec<String>,
    buckets: AtomicU32,
    folder: tempfile::TempDir,
}

/// What the script is told and what it answers.
#[derive(Debug)]
struct Orders {
    told: ChildStdin,
    said: Receiver<String>,
}

impl Ceph {
    /// `None`, after saying so, when a program that it needs is missing and this is no build machine.
    ///
    /// # Panics
    /// If it does not become ready, or a program is missing and `CI` is `true`.
    pub(super) fn start(shape: Shape) -> Option<Self> {
        let bash = tools::BASH.find()?;
        for tool in [
            tools::CEPH,
            tools::CEPH_MON,
            tools::CEPH_OSD,
            tools::RADOSGW,
            tools::MONMAPTOOL,
            tools::OSDMAPTOOL,
            tools::RADOSGW_ADMIN,
            tools::CURL,
        ] {
            tool.find()?;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = File::create(folder.path().join("log")).expect("a log file can be created");
        let ports = free_ports(shape.monitors + shape.gateways);
        let (monitor_ports, gateway_ports) = ports.split_at(shape.monitors);
        let mut script = Command::new(bash)
            .args(["-c", START, "s3-server"])
            .arg(folder.path().join("ceph"))
            .args([S3Server::ACCESS_KEY, S3Server::SECRET_KEY])
            .arg(shape.osds.to_string())
            .args([monitor_ports.join(" "), gateway_ports.join(" ")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("bash starts");
        let orders = Orders::of(&mut script);
        let of = |port| format!("http://127.0.0.1:{port}");
        let ceph = Self {
            script,
            orders: Mutex::new(Some(orders)),
            endpoints: gateway_ports.iter().map(of).collect(),
            buckets: AtomicU32::new(0),
            folder,
        };
        ceph.wait_for("started", START_DEADLINE);
        for endpoint in &ceph.endpoints {
            run::poll("the S3 server to answer", START_DEADLINE, || {
                http::get(&format!("{endpoint}/")).filter(|answer| answer.status < 500)
            });
        }
        Some(ceph)
    }

    /// Kills one of its processes, as `kill -9` does.
    pub(super) fn kill(&self, daemon: Daemon) {
        self.order(&format!("kill {daemon}"));
    }

    /// Starts one that was killed; what an OSD had in its memory is gone.
    pub(super) fn start_again(&self, daemon: Daemon) {
        self.order(&format!("start {daemon}"));
    }

    /// Lets one of its processes say nothing, as a host does that is gone: nobody is told that.
    pub(super) fn silence(&self, daemon: Daemon) {
        self.order(&format!("silence {daemon}"));
    }

    /// Lets a silent one go on where it was.
    pub(super) fn wake(&self, daemon: Daemon) {
        self.order(&format!("wake {daemon}"));
    }

    fn order(&self, order: &str) {
        {
            let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
            let told = &mut orders.as_mut().expect("it runs").told;
            writeln!(told, "{order}").expect("the script reads");
        }
        self.wait_for(&format!("done: {order}"), ORDER_DEADLINE);
    }

    fn wait_for(&self, line: &str, deadline: Duration) {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let said = &orders.as_ref().expect("it runs").said;
        let said = said.recv_timeout(deadline);
        assert!(
            said.as_deref() == Ok(line),
            "the S3 server says {said:?}, not {line}:\n{}",
            self.log()
        );
    }

    /// What its processes said so far.
    pub(super) fn log(&self) -> String {
        let names = ["log", "ceph/log/started"];
        let texts = names.map(|name| std::fs::read(self.folder.path().join(name)));
        let texts = texts.map(Result::unwrap_or_default);
        String::from_utf8_lossy(&texts.concat()).into_owned()
    }

    /// `http://127.0.0.1:PORT` of each gateway.
    pub(super) fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// A number that no other bucket has.
    pub(super) fn bucket_number(&self) -> u32 {
        self.buckets.fetch_add(1, Ordering::Relaxed)
    }

    /// The folder of all its files.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its configuration.
    pub(super) fn configuration(&self) -> PathBuf {
        self.folder().join("ceph/ceph.conf")
    }

    /// Where an OSD answers questions about itself.
    pub(super) fn socket_of_osd(&self, at: usize) -> PathBuf {
        self.folder().join(format!("ceph/osd.{at}.asok"))
    }
}

impl Orders {
    fn of(script: &mut Child) -> Self {
        let told = script.stdin.take().expect("a pipe");
        let stdout = script.stdout.take().expect("a pipe");
        let (sender, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                drop(sender.send(line));
            }
        });
        Self { told, said }
    }
}

impl Drop for Ceph {
    fn drop(&mut self) {
        // The script kills what it started once its standard input ends.
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        drop(orders.take());
        drop(orders);
        let _ended = run::wait(&mut self.script, STOP_DEADLINE);
    }
}

/// Ports that were free an instant ago; none of these programs can pick one itself and say which.
/// In order: of monitors at one host that of the lowest port leads.
fn free_ports(number: usize) -> Vec<String> {
    let listener = |_| TcpListener::bind("127.0.0.1:0").expect("a free port");
    let listeners: Vec<_> = (0..number).map(listener).collect();
    let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
    let mut ports: Vec<u16> = listeners.iter().map(port).collect();
    ports.sort_unstable();
    ports.iter().map(u16::to_string).collect()
}
