//! Two servers over one bucket: what one takes in the other one has, whoever is killed meanwhile.

mod cluster;
mod figures;
mod fleet;
mod load;
mod subject;

use std::time::{Duration, Instant};

use serde_json::json;
use unhex_testkit::fixture::Program;
use unhex_testkit::s3_server::S3Server;
use unhex_testkit::server::Server;
use unhex_testkit::{http, run};

use self::fleet::Fleet;
use self::load::Load;
use crate::stores::server_over_with;
use crate::symbol_server::UNHEX;

/// How long anything may take on a busy machine.
const DEADLINE: Duration = Duration::from_mins(2);

/// How long a replica lives at most.
const LIFE: Duration = Duration::from_secs(8);

/// How long the load lasts; ten minutes are `UNHEX_REPLICAS_SECONDS=600`.
fn seconds() -> Duration {
    let set = std::env::var("UNHEX_REPLICAS_SECONDS").ok();
    let seconds = set.map_or(60, |text| text.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}

#[test]
fn under_load_and_kills_no_byte_is_wrong_no_file_is_lost_and_every_failure_passes() {
    let Some(s3) = S3Server::shared() else {
        return;
    };
    let fleet = Fleet::start(UNHEX, [s3, s3]);
    let load = load::run(&fleet, |load| kill_at_random(&fleet, load));
    let figures = load.check_all(&fleet);
    println!("replicas under load: {figures}");
    figures.check_that_much_happened(seconds());
    let kills = figures.total("kills");
    assert!(kills * 30 >= seconds().as_secs(), "only {kills} kills");
}

fn kill_at_random(fleet: &Fleet, load: &Load) {
    let end = Instant::now() + seconds();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let life = LIFE.mul_f64(rand::random());
        load.last(life.min(left));
        if life >= left {
            return;
        }
        fleet.kill_and_restart(rand::random_range(0..2));
        load.figures().count("kills");
    }
}

fn gauge(server: &Server) -> Option<String> {
    let metrics = http::get(&server.url("/metrics"))?.text();
    let series = "unhex_unknown_build_ids{deployment=\"prod\",service=\"s\",version=\"1\"} ";
    let mut lines = metrics.lines();
    lines.find_map(|line| line.strip_prefix(series).map(str::to_owned))
}

#[test]
fn a_profile_on_one_replica_alerts_on_the_other_and_an_upload_to_the_first_ends_that() {
    let Some(s3) = S3Server::shared() else {
        return;
    };
    let bucket = format!("s3://{}", s3.bucket());
    let [one, two] = [(); 2].map(|()| server_over_with(s3, &bucket, &["--unknown-grace", "1s"]));
    let program = Program::c("int main(void) { return 23; }")
        .flags(&["-g"])
        .build();
    let request = json!({
        "labels": {"service": "s", "version": "1", "deployment": "prod"},
        "modules": [{"build_id": program.build_id(), "name": "s", "addresses": ["0x1139"]}],
    });
    let answer = http::post_json(&one.url("/symbolize"), &request.to_string());
    let answer = answer.expect("an answer").text();
    assert!(answer.contains("unknown_build_id"), "{answer}");
    run::poll("the other replica to alert", DEADLINE, || {
        (gauge(&two).as_deref() == Some("1")).then_some(())
    });
    let listed = http::get(&two.url("/build-ids?status=unknown")).expect("an answer");
    assert!(
        listed.text().contains(&program.build_id()),
        "{}",
        listed.text()
    );

    let path = format!("/buildid/{}/debuginfo", program.build_id());
    let stored = http::put(&one.url(&path), &program.bytes()).expect("an answer");
    assert_eq!(stored.status, 201, "{}", stored.text());
    run::poll("the other replica's alert to end", DEADLINE, || {
        (gauge(&two).as_deref() == Some("0")).then_some(())
    });
}
