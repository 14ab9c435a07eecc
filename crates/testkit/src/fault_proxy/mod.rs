//! A server in front of another one, or of a tree of files, that fails as it is told.
//!
//! Real servers hang, reset and truncate at times of their own choosing; this one does it on demand.
//! It speaks HTTP/1.1, one exchange a connection, and keeps every request in memory until it has
//! been passed on whole. Faults are taken from those for some requests first, then from a queue, then
//! from the standing one; without any, answers pass through unchanged.

mod exchange;
mod fault;

pub use exchange::Seen;
pub use fault::Fault;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// A running proxy; it lets go of every connection when this is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// What answers when nothing fails.
#[derive(Debug)]
enum Behind {
    /// Another HTTP server, `HOST:PORT`.
    Server(String),
    /// Bodies by path; everything else is 404.
    Tree(BTreeMap<String, Vec<u8>>),
}

#[derive(Debug)]
struct Shared {
    behind: Behind,
    script: Mutex<Script>,
    seen: Mutex<Vec<Seen>>,
    open: AtomicUsize,
    stopped: AtomicBool,
}

/// What fails next, and after that.
#[derive(Default)]
struct Script {
    /// Which requests, how many of them are left, and how they fail.
    chosen: Option<(Box<Chooser>, usize, Fault)>,
    next: VecDeque<Fault>,
    standing: Fault,
}

type Chooser = dyn Fn(&Seen) -> bool + Send;

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, then {:?}", self.next, self.standing)
    }
}

impl FaultProxy {
    /// In front of the server at `http://HOST:PORT`.
    ///
    /// # Panics
    /// If that is no such URL, or no port is free.
    pub fn before(url: &str) -> Self {
        let host = url.strip_prefix("http://").expect("an http URL");
        Self::start(Behind::Server(host.trim_end_matches('/').to_owned()))
    }

    /// In front of files, by the path that they are asked under.
    ///
    /// # Panics
    /// If no port is free.
    pub fn serving<P: Into<String>>(files: impl IntoIterator<Item = (P, Vec<u8>)>) -> Self {
        let files = files.into_iter().map(|(path, body)| (path.into(), body));
        Self::start(Behind::Tree(files.collect()))
    }

    fn start(behind: Behind) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            behind,
            script: Mutex::default(),
            seen: Mutex::default(),
            open: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        });
        let accepted = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || accept(&listener, &accepted));
        Self {
            address,
            shared,
            accepting: Some(accepting),
        }
    }

    /// `http://127.0.0.1:PORT`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Fails every request so from now on, but for those that [`Self::fail_next`] speaks of.
    pub fn fail(&self, fault: Fault) {
        lock(&self.shared.script).standing = fault;
    }

    /// Fails the next requests so, one each; [`Fault::None`] lets one pass.
    pub fn fail_next(&self, faults: impl IntoIterator<Item = Fault>) {
        lock(&self.shared.script).next.extend(faults);
    }

    /// Fails the next so many requests that are chosen; replaces what was chosen before.
    pub fn fail_where(
        &self,
        times: usize,
        fault: Fault,
        chosen: impl Fn(&Seen) -> bool + Send + 'static,
    ) {
        lock(&self.shared.script).chosen = Some((Box::new(chosen), times, fault));
    }

    /// Every request so far whose head has come.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }

    /// How many requests have come so far.
    pub fn requests(&self) -> usize {
        lock(&self.shared.seen).len()
    }

    /// Connections that are open now: clients that gave up are not among them.
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for the next client.
        drop(TcpStream::connect(self.address));
        drop(self.accepting.take().map(JoinHandle::join));
    }
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn next_fault(&self, seen: &Seen) -> Fault {
        let mut script = lock(&self.script);
        if let Some((chosen, times, fault)) = &mut script.chosen
            && *times > 0
            && chosen(seen)
        {
            *times -= 1;
            return fault.clone();
        }
        let standing = script.standing.clone();
        script.next.pop_front().unwrap_or(standing)
    }
}

/// Counts one open connection while it lives.
struct OpenConnection(Arc<Shared>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut exchanges = Vec::new();
    for stream in listener.incoming() {
        if shared.stopped() {
            break;
        }
        let Ok(stream) = stream else { continue };
        shared.open.fetch_add(1, Ordering::Relaxed);
        let open = OpenConnection(Arc::clone(shared));
        exchanges.retain(|exchange: &JoinHandle<()>| !exchange.is_finished());
        exchanges.push(std::thread::spawn(move || {
            exchange::run(&stream, &open.0);
            // Closed before it counts as closed.
            drop(stream);
            drop(open);
        }));
    }
    for exchange in exchanges {
        drop(exchange.join());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds this")
}

#[cfg(test)]
mod tests;
