//! A local port that answers `GET /metrics` and `GET /healthz`, and nothing else: too little for a framework.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Metrics;

/// Bytes of a request's head: Prometheus sends some hundred.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// How long a request may take to come, and its answer to be taken.
const EXCHANGE_SECONDS_MAX: u64 = 10;
/// Scrapers at once; others wait.
const EXCHANGES_AT_ONCE: usize = 8;
/// How long to wait after the system had no connection to give, as when files are used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where metrics are asked for.
#[derive(Debug)]
pub struct MetricsListener {
    listener: TcpListener,
    metrics: Arc<Metrics>,
}

impl MetricsListener {
    /// Takes the port.
    ///
    /// # Errors
    /// If it cannot be had.
    pub async fn bind(address: SocketAddr, metrics: Arc<Metrics>) -> io::Result<Self> {
        Ok(Self {
            listener: TcpListener::bind(address).await?,
            metrics,
        })
    }

    /// The address, with the port that was given for port 0.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until it is dropped.
    pub async fn serve(self) {
        let room = Arc::new(Semaphore::new(EXCHANGES_AT_ONCE));
        // Closes with this future, and with it all that is being answered.
        let mut exchanges = tokio::task::JoinSet::new();
        loop {
            while exchanges.try_join_next().is_some() {}
            let Ok(turn) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let metrics = Arc::clone(&self.metrics);
                    exchanges.spawn(async move {
                        let patience = Duration::from_secs(EXCHANGE_SECONDS_MAX);
                        // Whoever leaves or stalls has no answer, and nobody else minds.
                        let _cut = tokio::time::timeout(patience, answer(stream, &metrics)).await;
                        drop(turn);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "no connection could be taken for metrics: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn answer(mut stream: TcpStream, metrics: &Metrics) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > HEAD_BYTES_MAX || stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, path) = (words.next(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, body) = match (method, path) {
        (Some("GET"), "/metrics") => ("200 OK", metrics.render()),
        (Some("GET"), "/healthz") => ("200 OK", "ok\n".to_owned()),
        (Some("GET"), _) => (
            "404 Not Found",
            "there is /metrics and /healthz\n".to_owned(),
        ),
        _ => ("405 Method Not Allowed", "only GET\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use unhex_testkit::http;

    use super::*;

    #[test]
    fn metrics_and_health_are_answered_and_nothing_else() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let metrics = Arc::new(Metrics::new());
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = runtime.block_on(MetricsListener::bind(any_port, metrics));
        let listener = listener.unwrap();
        let url = format!("http://{}", listener.address().unwrap());
        runtime.spawn(listener.serve());
        let get = |path: &str| http::get(&format!("{url}{path}")).unwrap();
        let metrics = get("/metrics");
        assert_eq!(metrics.status, 200);
        assert!(metrics.text().contains("unhex_agent_build_info"));
        assert_eq!(get("/healthz").text(), "ok\n");
        assert_eq!(get("/other").status, 404);
        let posted = http::post_json(&format!("{url}/metrics"), "{}").unwrap();
        assert_eq!(posted.status, 405);
    }
}
