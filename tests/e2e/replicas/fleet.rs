//! Two servers, either of which may be down, and clients that do not give up.

use std::path::PathBuf;
use std::time::Instant;

use parking_lot::RwLock;
use unhex_testkit::http::{self, Request, Response};
use unhex_testkit::run;
use unhex_testkit::s3_server::S3Server;
use unhex_testkit::server::{Home, Server};

use super::DEADLINE;
use super::figures::Figures;
/// The first of them keeps next to nothing on its disk, so that files come and go under load.
const ARGUMENTS: [&[&str]; 2] = [&["--cache-bytes-max", "256KiB"], &[]];

/// Two replicas over one bucket.
pub(super) struct Fleet {
    program: PathBuf,
    bucket: String,
    servers: [RwLock<Option<Server>>; 2],
}

/// What came of an attempt.
pub(super) enum Attempt<T> {
    Done(T),
    /// It may go well the next time; why it did not.
    Again(String),
}

impl Fleet {
    /// Replicas of a program, each with its own way to a new bucket.
    pub(super) fn start(program: impl Into<PathBuf>, gateways: [&S3Server; 2]) -> Self {
        let program = program.into();
        let bucket = format!("s3://{}/replicas", gateways[0].bucket());
        let servers = [0, 1].map(|at| {
            let home = Home::new().with_environment(gateways[at].environment());
            let arguments = [&["--s3", &bucket], ARGUMENTS[at]].concat();
            RwLock::new(Some(Server::start_in(home, &program, &arguments)))
        });
        Self {
            program,
            bucket,
            servers,
        }
    }

    /// Kills one of them as `kill -9` does, and starts it again over the same disk.
    pub(super) fn kill_and_restart(&self, at: usize) {
        let server = self.servers[at].write().take();
        let home: Home = server.expect("one killer").kill();
        let arguments = [&["--s3", &self.bucket], ARGUMENTS[at]].concat();
        let server = Server::start_in(home, &self.program, &arguments);
        *self.servers[at].write() = Some(server);
    }

    /// The answer of one replica, or why there is none.
    pub(super) fn send(&self, at: usize, request: &Request<'_>) -> Attempt<Response> {
        let url = match &*self.servers[at].read() {
            Some(server) => server.url(request.url),
            None => return Attempt::Again("down".to_owned()),
        };
        let request = Request {
            url: &url,
            ..request.clone()
        };
        match http::send(&request) {
            None => Attempt::Again("cut".to_owned()),
            Some(answer) if matches!(answer.status, 429 | 500..) => {
                Attempt::Again(answer.status.to_string())
            }
            Some(answer) => Attempt::Done(answer),
        }
    }

    /// What an attempt comes to that is repeated at the one and the other replica until it is done.
    pub(super) fn insist<T>(
        (figures, what): (&Figures, &'static str),
        mut attempt: impl FnMut(usize) -> Attempt<T>,
    ) -> T {
        let began = Instant::now();
        let mut at = rand::random_range(0..2);
        let mut reasons = Vec::new();
        let done = run::poll("a failure to pass", DEADLINE, || match attempt(at) {
            Attempt::Done(done) => Some(done),
            Attempt::Again(reason) => {
                reasons.push(reason);
                at = 1 - at;
                None
            }
        });
        figures.answered(what, &reasons, began.elapsed());
        done
    }

    /// What one replica says in the end, however long it takes.
    pub(super) fn insist_on(&self, at: usize, request: &Request<'_>) -> Response {
        run::poll("a replica to answer", DEADLINE, || {
            match self.send(at, request) {
                Attempt::Done(answer) => Some(answer),
                Attempt::Again(_) => None,
            }
        })
    }

    /// Whether requests should be sent to a replica, as a load balancer asks.
    pub(super) fn is_ready(&self, at: usize) -> bool {
        let request = Request {
            method: "GET",
            url: "/readyz",
            headers: &[],
            body: &[],
        };
        matches!(self.send(at, &request), Attempt::Done(answer) if answer.status == 200)
    }

    /// A number of the metrics of one replica, over all label sets.
    pub(super) fn metric(&self, at: usize, series: &str) -> f64 {
        let request = Request {
            method: "GET",
            url: "/metrics",
            headers: &[],
            body: &[],
        };
        let text = self.insist_on(at, &request).text();
        let values = text.lines().filter_map(|line| line.strip_prefix(series));
        values
            .filter_map(|value| value.trim().parse::<f64>().ok())
            .sum()
    }

    pub(super) fn resident_bytes(&self) -> [u64; 2] {
        let of = |server: &RwLock<Option<Server>>| {
            server.read().as_ref().map_or(0, Server::peak_memory_bytes)
        };
        [of(&self.servers[0]), of(&self.servers[1])]
    }
}
