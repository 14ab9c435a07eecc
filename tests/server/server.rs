//! A server of the test's own, on a free port and a temporary folder.

#[path = "documented.rs"]
mod documented;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use unhex::app::App;
use unhex::config::Config;
use unhex::http::Server;

/// How long anything in a test may take before it counts as hanging.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// A running server; stopped when dropped, and its folder removed.
#[derive(Debug)]
pub struct TestServer {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it is made of, to look behind the curtain.
    pub app: App,
    data: TempDir,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
    _all_documented: documented::AllDocumented,
}

impl TestServer {
    /// A server with the defaults.
    pub async fn start() -> Self {
        Self::start_with(|_defaults| ()).await
    }

    /// A server with a changed configuration.
    pub async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_in(TempDir::new().unwrap(), change).await
    }

    /// A server over a folder that may have something already.
    pub async fn start_in(data: TempDir, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            data: data.path().to_owned(),
            converter_program: PathBuf::from(env!("CARGO_BIN_EXE_unhex")),
            shutdown: Duration::from_secs(10),
            ..Config::default()
        };
        change(&mut config);
        documented::listen();
        let app = App::open(config).await.unwrap();
        let server = Server::bind(app.clone()).await.unwrap();
        let address = server.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(server.run(async move {
            let _dropped_counts_too = stopped.await;
        }));
        Self {
            address,
            app,
            data,
            stop: Some(stop),
            running,
            _all_documented: documented::AllDocumented,
        }
    }

    /// The URL of a path, which starts with `/`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The folder with everything that is stored.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Stops it gracefully and hands back its folder.
    pub async fn stop(mut self) -> TempDir {
        drop(self.stop.take());
        tokio::time::timeout(DEADLINE, self.running)
            .await
            .expect("the server stops in time")
            .unwrap();
        self.data
    }

    /// Sends `path` as it is (a client library would normalise it) and reads the answer.
    pub async fn get_raw(&self, path: &str) -> RawAnswer {
        self.raw(&format!(
            "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
        ))
        .await
    }

    /// Sends bytes and reads until the server closes.
    pub async fn raw(&self, request: &str) -> RawAnswer {
        let exchange = async {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            answer
        };
        let answer = tokio::time::timeout(DEADLINE, exchange)
            .await
            .expect("the server answers and closes");
        RawAnswer::parse(&answer)
    }
}

/// An answer as it stood on the wire.
#[derive(Debug)]
pub struct RawAnswer {
    /// The status code.
    pub status: u16,
    /// The header lines, without `date`, in the server's order.
    pub headers: Vec<String>,
    /// The body, as sent.
    pub body: Vec<u8>,
}

impl RawAnswer {
    fn parse(answer: &[u8]) -> Self {
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no headers in {answer:?}"));
        let head = std::str::from_utf8(&answer[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        Self {
            status: status.parse().unwrap(),
            headers: lines
                .filter(|line| !line.starts_with("date:"))
                .map(str::to_owned)
                .collect(),
            body: answer[end + 4..].to_vec(),
        }
    }

    /// The value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            (found == name).then_some(value)
        })
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}
