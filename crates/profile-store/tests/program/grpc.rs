//! OTLP over gRPC: the frames and statuses that clients see, by HTTP/2 with prior knowledge.
//!
//! The generated client of `opentelemetry-proto` over tonic is in `tests/otlp-client`, a package of its own that is built by hand: `cargo test -p
//! unhex-profile-store --test program generated -- --ignored`. Its features would have half of the workspace compiled twice.

use std::process::Command;
use std::time::Duration;

use unhex_testkit::run;
use unhex_testkit::server::Home;

use crate::message::{Recipe, gzip, protobuf};
use crate::stored::cpu;
use crate::{store, store_in, table};

const EXPORT: &str = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";

/// What a call was answered.
#[derive(Debug)]
struct Answer {
    /// `grpc-status` where it came without a message.
    status: Option<String>,
    message: String,
    body: Vec<u8>,
    has_details: bool,
}

fn call(url: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = reqwest::Client::builder()
            .no_proxy()
            .http2_prior_knowledge();
        let client = client
            .timeout(Duration::from_mins(1))
            .build()
            .expect("a client");
        let mut request = client.post(url).body(body);
        for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        let text = |name| {
            let value = response.headers().get(name);
            value.map(|value| value.to_str().expect("ASCII").to_owned())
        };
        Answer {
            status: text("grpc-status"),
            message: text("grpc-message").unwrap_or_default(),
            has_details: text("grpc-status-details-bin").is_some(),
            body: response.bytes().await.expect("a body").to_vec(),
        }
    })
}

fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("short");
    [&[flag], length.to_be_bytes().as_slice(), message].concat()
}

#[test]
fn a_call_is_answered_when_it_is_durable_in_every_encoding() {
    let server = store(&[]);
    let url = server.url(EXPORT);
    let message = |service: &str| {
        protobuf(&Recipe {
            services: vec![service.to_owned()],
            ..Recipe::default()
        })
    };
    let zstd = zstd::encode_all(&*message("c"), 1).expect("zstd");
    for (encoding, body) in [
        ("identity", framed(0, &message("a"))),
        ("gzip", framed(1, &gzip(&message("b")))),
        ("zstd", framed(1, &zstd)),
        ("gzip", framed(0, &message("d"))),
    ] {
        let answer = call(&url, &[("grpc-encoding", encoding)], body);
        assert_eq!(answer.status, None, "{encoding}: {answer:?}");
        // An empty message: all was kept. The status is in the trailers.
        assert_eq!(answer.body, framed(0, b""), "{encoding}");
    }
    for service in ["a", "b", "c", "d"] {
        assert_eq!(cpu(&table(server.home()), service).count, 100, "{service}");
    }
    // Over HTTP the same bytes are the same message.
    let headers = [crate::PROTOBUF];
    let sent = message("e");
    let _answer = call(&url, &[], framed(0, &sent));
    assert_eq!(
        crate::post(&server, crate::OTLP, &headers, &sent).status,
        200
    );
    assert_eq!(cpu(&table(server.home()), "e").count, 100);
}

#[test]
fn what_is_wrong_has_the_status_that_clients_act_on() {
    let server = store(&["--message-bytes-max", "1MiB"]);
    let url = server.url(EXPORT);
    let good = protobuf(&Recipe::default());
    let zeros = zstd::encode_all(&*vec![0; 64 << 20], 1).expect("zstd");
    let cut = framed(0, &good)[..100].to_vec();
    for (encoding, body, status, words) in [
        ("identity", framed(0, b"<html>"), "3", "no protobuf message"),
        ("identity", cut, "3", "one message, whole"),
        ("identity", Vec::new(), "3", "no message"),
        ("gzip", framed(1, b"no gzip"), "3", "decompressed"),
        ("identity", framed(1, &good), "3", "grpc-encoding"),
        ("zstd", framed(1, &zeros), "8", "message_bytes_max, 1048576"),
        ("snappy", framed(1, &good), "12", "gzip or zstd"),
    ] {
        let answer = call(&url, &[("grpc-encoding", encoding)], body);
        assert_eq!(answer.status.as_deref(), Some(status), "{answer:?}");
        let said = answer.message.replace("%20", " ");
        assert!(said.contains(words), "{said}");
        assert!(answer.has_details, "{answer:?}");
    }
    let answer = call(
        &server.url("/opentelemetry.proto.Other/Export"),
        &[],
        Vec::new(),
    );
    assert_eq!(answer.status.as_deref(), Some("12"));
}

#[test]
fn the_second_port_speaks_the_same_and_a_token_is_asked_for_on_both() {
    let token = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(token.path(), "s3cret").expect("a token");
    let path = token.path().to_str().expect("UTF-8");
    let home = Home::new();
    let server = store_in(
        home,
        &["--grpc-listen", "127.0.0.1:0", "--write-token-file", path],
    );
    let second = run::poll("the second address", Duration::from_secs(10), || {
        let log = server.log();
        let line = log.lines().find(|line| line.contains(" too"))?;
        let (_, rest) = line.split_once("serving on ")?;
        rest.split(' ').next().map(str::to_owned)
    });
    for url in [server.url(EXPORT), format!("{second}{EXPORT}")] {
        let body = framed(0, &protobuf(&Recipe::default()));
        let refused = call(&url, &[], body.clone());
        assert_eq!(refused.status.as_deref(), Some("16"), "{refused:?}");
        let taken = call(&url, &[("authorization", "Bearer s3cret")], body);
        assert_eq!(taken.status, None, "{taken:?}");
    }
    let headers = [crate::PROTOBUF];
    let refused = crate::post(&server, crate::OTLP, &headers, b"");
    assert_eq!(refused.status, 401);
    assert!(refused.body.starts_with(&[8, 16]), "{:?}", refused.body);
    assert_eq!(crate::post(&server, "/profiles", &[], b"").status, 401);
}

#[test]
#[ignore = "compiles another package for a minute"]
fn the_generated_client_of_opentelemetry_is_understood_in_every_encoding() {
    let server = store(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("request.pb");
    std::fs::write(&file, protobuf(&Recipe::default())).expect("a file");
    let mut client = Command::new(env!("CARGO"));
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/otlp-client/Cargo.toml");
    client.args([
        "run",
        "--quiet",
        "--locked",
        "--manifest-path",
        manifest,
        "--",
    ]);
    client.arg(server.url("")).arg(&file);
    let said = run::succeed(&mut client).text();
    let whole = "ExportProfilesServiceResponse { partial_success: None }";
    let expected =
        ["None", "Some(Gzip)", "Some(Zstd)"].map(|encoding| format!("{encoding}: {whole}\n"));
    assert_eq!(said, expected.concat());
    // The same message in three encodings is one, sent again.
    assert_eq!(cpu(&table(server.home()), "checkout").count, 100);
}
