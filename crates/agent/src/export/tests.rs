//! Deliveries to a receiver that takes, refuses, is busy, away or slow.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use unhex_pprof::{Builder, Limits, Profile, otlp};
use unhex_testkit::fault_proxy::{Fault, FaultProxy};
use unhex_testkit::run;

use super::*;
use crate::metrics::Metrics;

const PATH: &str = "/v1development/profiles";
const DEADLINE: Duration = Duration::from_mins(1);

/// An exporter on a thread of its own, and what it counts.
struct Delivery {
    queue: Queue,
    metrics: Arc<Metrics>,
    done: Option<std::thread::JoinHandle<()>>,
}

impl Delivery {
    fn to(server: &str) -> Self {
        Self::with(ExporterOptions {
            server: server.to_owned(),
            ..quick()
        })
    }

    fn with(options: ExporterOptions) -> Self {
        let metrics = Arc::new(Metrics::new());
        let queue = Queue::new(1 << 20, Arc::clone(&metrics));
        let exporter = Exporter::new(options, queue.clone(), Arc::clone(&metrics)).unwrap();
        let done = std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime
                .enable_all()
                .build()
                .unwrap()
                .block_on(exporter.run());
        });
        Self {
            queue,
            metrics,
            done: Some(done),
        }
    }

    fn wait_for(&self, line: &str) {
        run::poll(line, DEADLINE, || has(&self.metrics, line).then_some(()));
    }

    /// Ends it when everything is delivered.
    fn end(&mut self) {
        self.queue.end();
        self.done.take().unwrap().join().unwrap();
    }
}

fn quick() -> ExporterOptions {
    ExporterOptions {
        pause_first: Duration::from_millis(1),
        ..ExporterOptions::default()
    }
}

fn has(metrics: &Metrics, line: &str) -> bool {
    metrics.render().lines().any(|found| found == line)
}

fn outcome(word: &str, batches: u64) -> String {
    format!("unhex_agent_batches_total{{outcome=\"{word}\"}} {batches}")
}

fn message(period: i64) -> Message {
    let mut builder = Builder::default();
    builder.profile(Profile {
        period,
        ..Profile::default()
    });
    Message::pack(&builder.finish(), 3, Compression::Zstd).unwrap()
}

fn taking() -> FaultProxy {
    FaultProxy::serving([(PATH, Vec::new())])
}

#[test]
fn what_may_pass_is_sent_again_until_it_is_taken() {
    let receiver = taking();
    receiver.fail_next([
        Fault::status(503),
        Fault::Reset,
        Fault::status(429),
        Fault::status(502),
    ]);
    let mut delivery = Delivery::to(&receiver.url());
    delivery.queue.push(message(1));
    delivery.wait_for(&outcome("delivered", 1));
    delivery.end();
    assert_eq!(receiver.requests(), 5);
    let lines = [
        "unhex_agent_delivery_retries_total{reason=\"busy\"} 2",
        "unhex_agent_delivery_retries_total{reason=\"connection\"} 1",
        "unhex_agent_delivery_retries_total{reason=\"bad_gateway\"} 1",
        "unhex_agent_batch_samples_total{outcome=\"delivered\"} 3",
        "unhex_agent_queue_batches 0",
        "unhex_agent_queue_bytes 0",
    ];
    for line in lines {
        assert!(has(&delivery.metrics, line), "{line}");
    }
}

#[test]
fn what_will_not_pass_is_counted_and_the_next_batch_is_sent() {
    let receiver = taking();
    receiver.fail_next([Fault::status(400), Fault::status(401), Fault::status(413)]);
    let mut delivery = Delivery::to(&receiver.url());
    for period in 1..=4 {
        delivery.queue.push(message(period));
    }
    delivery.wait_for(&outcome("delivered", 1));
    assert!(has(&delivery.metrics, &outcome("refused", 3)));
    delivery.end();
    assert_eq!(receiver.requests(), 4);
}

#[test]
fn a_receiver_says_when_to_come_again() {
    let receiver = taking();
    // Longer than the test waits for anything.
    let busy = Fault::answer(503, &[("Retry-After", "200")], b"");
    receiver.fail_next([busy]);
    let delivery = Delivery::to(&receiver.url());
    delivery.queue.push(message(1));
    delivery.wait_for("unhex_agent_delivery_retries_total{reason=\"busy\"} 1");
    // With pauses of its own, milliseconds, it would have come again by the time that another exporter has
    // delivered twenty batches.
    let other = taking();
    let mut quick = Delivery::to(&other.url());
    for period in 0..20 {
        quick.queue.push(message(period));
    }
    quick.wait_for(&outcome("delivered", 20));
    quick.end();
    assert_eq!(receiver.requests(), 1);
}

#[test]
fn profiles_that_were_not_taken_are_said() {
    let receiver = FaultProxy::serving([(PATH, b"\x0a\x07\x08\x02\x12\x03why".to_vec())]);
    let mut delivery = Delivery::to(&receiver.url());
    delivery.queue.push(message(1));
    delivery.wait_for(&outcome("partial", 1));
    delivery.end();
}

#[test]
fn the_oldest_batches_go_when_the_queue_is_full() {
    let metrics = Arc::new(Metrics::new());
    let size = message(1).body.len();
    let queue = Queue::new(size * 2 + size / 2, Arc::clone(&metrics));
    for period in 1..=3 {
        queue.push(message(period));
    }
    assert!(has(&metrics, &outcome("dropped", 1)));
    assert!(has(&metrics, "unhex_agent_queue_batches 2"));
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.build().unwrap();
    let first = runtime.block_on(queue.first()).unwrap();
    assert_eq!(*first, message(2));
    // It goes while it is on its way, and is no longer the first.
    queue.push(message(4));
    assert!(!queue.remove(&first));
    assert!(has(&metrics, &outcome("dropped", 2)));
    queue.abandon();
    assert!(has(&metrics, &outcome("dropped", 4)));
    queue.end();
    assert_eq!(runtime.block_on(queue.first()), None);
}

#[test]
fn the_token_is_read_for_each_batch_and_sent() {
    let receiver = taking();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    let mut delivery = Delivery::with(ExporterOptions {
        server: receiver.url(),
        token_file: Some(file.clone()),
        ..quick()
    });
    delivery.queue.push(message(1));
    delivery.wait_for(&outcome("delivered", 1));
    std::fs::write(&file, "second\n").unwrap();
    delivery.queue.push(message(2));
    delivery.wait_for(&outcome("delivered", 2));
    delivery.end();
    let seen = receiver.seen();
    let tokens: Vec<_> = seen.iter().map(|one| one.header("authorization")).collect();
    assert_eq!(tokens, [Some("Bearer first"), Some("Bearer second")]);
    assert_eq!(seen[0].header("content-encoding"), Some("zstd"));
    assert_eq!(
        seen[0].header("content-type"),
        Some("application/x-protobuf")
    );
}

#[test]
fn each_compression_is_read_back_as_what_was_packed() {
    let mut builder = Builder::default();
    builder.profile(Profile {
        period: 7,
        ..Profile::default()
    });
    let profiles = builder.finish();
    let plain = otlp::encode(&profiles);
    for compression in [Compression::Zstd, Compression::Gzip, Compression::None] {
        let message = Message::pack(&profiles, 1, compression).unwrap();
        let unpacked = match message.encoding {
            Some("zstd") => zstd::stream::decode_all(&*message.body).unwrap(),
            Some("gzip") => {
                let unpacked = unhex_pprof::unpacked(&message.body, &Limits::default());
                unpacked.unwrap().into_owned()
            }
            _ => message.body,
        };
        assert_eq!(unpacked, plain, "{compression:?}");
    }
}

#[test]
fn the_body_is_the_message() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/prefix/", listener.local_addr().unwrap());
    let expected = message(7);
    let length = expected.body.len();
    let (sender, received) = mpsc::channel();
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        let has_all = |request: &[u8]| {
            let head = request.windows(4).position(|end| end == b"\r\n\r\n");
            head.is_some_and(|head| request.len() >= head + 4 + length)
        };
        while !has_all(&request) {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the request ends early");
            request.extend_from_slice(&buffer[..count]);
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .unwrap();
        sender.send(request).unwrap();
    });
    let mut delivery = Delivery::to(&url);
    delivery.queue.push(expected.clone());
    let request = received.recv_timeout(DEADLINE).unwrap();
    delivery.end();
    receiver.join().unwrap();
    let line = b"POST /prefix/v1development/profiles HTTP/1.1\r\n";
    assert!(
        request.starts_with(line),
        "{}",
        String::from_utf8_lossy(&request)
    );
    assert!(request.ends_with(&expected.body));
}

#[test]
fn an_address_or_a_file_that_cannot_be_used_is_said_at_once() {
    let error = |options: ExporterOptions| {
        let metrics = Arc::new(Metrics::new());
        let queue = Queue::new(1, Arc::clone(&metrics));
        Exporter::new(options, queue, metrics)
            .unwrap_err()
            .to_string()
    };
    let address = error(ExporterOptions {
        server: "localhost:8003".to_owned(),
        ..quick()
    });
    assert!(address.contains("write it like http://"), "{address}");
    let token = error(ExporterOptions {
        token_file: Some("/nowhere/token".into()),
        ..quick()
    });
    assert_eq!(token, "/nowhere/token cannot be read");
    let authority = error(ExporterOptions {
        ca_file: Some("/nowhere/ca.pem".into()),
        ..quick()
    });
    assert_eq!(authority, "/nowhere/ca.pem cannot be read");
}
