//! A request that is sent again is kept once: here, after a crash, and at another replica.

use unhex_testkit::server::{Home, Server};

use crate::message::{Recipe, pprof, protobuf};
use crate::stored::cpu;
use crate::{OTLP, PROGRAM, PROTOBUF, post, store, store_in, table};

#[test]
fn a_resend_is_kept_once_while_the_first_waits_and_when_it_is_durable() {
    let server = store(&[]);
    let body = protobuf(&Recipe::default());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(post(&server, OTLP, &[PROTOBUF], &body).status, 200));
        }
    });
    assert_eq!(post(&server, OTLP, &[PROTOBUF], &body).status, 200);
    assert_eq!(cpu(&table(server.home()), "checkout").count, 100);
    let resent = crate::metric(
        &server,
        "unhex_store_messages_total{outcome=\"resent\",protocol=\"otlp_http\"}",
    );
    assert!((resent - 8.0).abs() < f64::EPSILON, "{resent}");
}

#[test]
fn a_resend_after_a_crash_and_to_another_replica_is_kept_once() {
    let server = store(&[]);
    // A message of two hours, too.
    let recipe = Recipe {
        time_unix_nanos: crate::message::now_nanos() / 3_600_000_000_000 * 3_600_000_000_000
            - 5_000,
        ..Recipe::default()
    };
    let bodies = [protobuf(&Recipe::default()), protobuf(&recipe)];
    let profile = pprof(3);
    let send = |server: &Server| {
        for body in &bodies {
            assert_eq!(post(server, OTLP, &[PROTOBUF], body).status, 200);
        }
        let answer = post(server, "/profiles?service=x", &[], &profile);
        assert_eq!(answer.status, 200);
        answer.text()
    };
    assert_eq!(send(&server), "{\"rows\":1,\"resent\":false}");
    // Another replica over the same table.
    let data = server.home().path().join("unhex-store-data");
    let data = data.to_str().expect("UTF-8").to_owned();
    let replica = Server::start_in(
        Home::new(),
        PROGRAM,
        &["--symbols", "none", "--data", &data],
    );
    assert_eq!(send(&replica), "{\"rows\":1,\"resent\":true}");
    let server = store_in(server.kill(), &[]);
    assert_eq!(send(&server), "{\"rows\":1,\"resent\":true}");
    let table = table(server.home());
    assert_eq!(cpu(&table, "checkout").count, 200);
    assert_eq!(cpu(&table, "x").value, 3_000_000_000);
}

#[test]
fn the_same_profile_under_other_labels_is_another_request() {
    let server = store(&[]);
    let profile = pprof(3);
    for service in ["a", "b"] {
        let answer = post(
            &server,
            &format!("/profiles?service={service}"),
            &[],
            &profile,
        );
        assert_eq!(answer.text(), "{\"rows\":1,\"resent\":false}");
    }
    assert_eq!(cpu(&table(server.home()), "b").value, 3_000_000_000);
}
