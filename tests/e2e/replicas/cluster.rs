//! The demonstration of docs/scaling.md: two servers over a Ceph of three nodes whose parts are killed
//! under load. By hand, since it takes minutes; `UNHEX_MEASURED` names the program.

use std::time::{Duration, Instant};

use unhex_testkit::run;
use unhex_testkit::s3_server::{Daemon, S3Cluster};

use super::DEADLINE;
use super::fleet::Fleet;
use super::load::{self, Load};
use crate::measured;

/// How long the load goes on with everything in its place.
const CALM: Duration = Duration::from_secs(10);

/// How long a monitor and an OSD are away, or an OSD is silent: Ceph takes ten to thirty seconds to go
/// on.
const AWAY: Duration = Duration::from_secs(35);

/// How long a gateway is away.
const WITHOUT_GATEWAY: Duration = Duration::from_secs(15);

/// How long the filling of an OSD may take on a busy machine.
const FILLING_DEADLINE: Duration = Duration::from_mins(3);

/// What `/readyz` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    Yes,
    No,
}

/// A cluster, servers over it, and a load on these.
struct Scene<'a> {
    cluster: &'a S3Cluster,
    fleet: &'a Fleet,
    load: &'a Load,
}

impl Scene<'_> {
    fn play(&self) {
        self.calm("before");
        // The leader of the monitors.
        self.kill("osd.0 and mon.0 killed", 0);
        self.start_again("osd.0 and mon.0 started again", 0);
        self.begin("replica 0 killed and started again");
        self.fleet.kill_and_restart(0);
        self.load.figures().count("kills");
        self.load.last(CALM);
        self.begin("gateway of replica 1 killed");
        self.cluster.kill(Daemon::Gateway(1));
        self.load.figures().count("kills");
        self.tell_when_ready("gateway killed", Readiness::No);
        self.load.last(WITHOUT_GATEWAY);
        self.begin("gateway started again");
        self.cluster.start_again(Daemon::Gateway(1));
        self.tell_when_ready("gateway started again", Readiness::Yes);
        self.load.last(CALM);
        self.begin("osd.2 silent");
        self.cluster.silence(Daemon::Osd(2));
        self.load.last(AWAY);
        println!("osd.2 silent: {}", self.cluster.status());
        self.begin("osd.2 awake");
        self.cluster.wake(Daemon::Osd(2));
        self.cluster.wait_until_whole(FILLING_DEADLINE);
        self.load.last(CALM);
        // What osd.0 was given again is needed from here on.
        self.kill("osd.1 and mon.1 killed", 1);
    }

    /// Waits until replica 1 says that it is ready, or not.
    fn tell_when_ready(&self, since: &str, readiness: Readiness) {
        let began = Instant::now();
        run::poll("replica 1 to notice", DEADLINE, || {
            (self.fleet.is_ready(1) == (readiness == Readiness::Yes)).then_some(())
        });
        let took = began.elapsed().as_secs_f64();
        println!("{since}: /readyz of replica 1 says {readiness:?} after {took:.1} s");
    }

    fn begin(&self, name: &str) {
        self.load.figures().begin(name);
    }

    fn calm(&self, name: &str) {
        self.begin(name);
        self.load.last(CALM);
    }

    fn kill(&self, name: &str, at: usize) {
        self.begin(name);
        self.cluster.kill(Daemon::Osd(at));
        self.cluster.kill(Daemon::Monitor(at));
        self.load.figures().add("kills", 2);
        self.load.last(AWAY);
        println!("{name}: {}", self.cluster.status());
    }

    fn start_again(&self, name: &str, at: usize) {
        self.begin(name);
        start_again(self.cluster, name, at);
        self.calm("after");
        println!("after: {}", self.cluster.status());
    }
}

fn start_again(cluster: &S3Cluster, name: &str, at: usize) {
    let began = Instant::now();
    cluster.start_again(Daemon::Monitor(at));
    cluster.start_again(Daemon::Osd(at));
    cluster.wait_until_whole(FILLING_DEADLINE);
    let took = began.elapsed().as_secs_f64();
    println!("{name}: every copy whole after {took:.1} s");
}

#[test]
#[ignore = "takes minutes, prints figures"]
fn under_load_a_killed_monitor_osd_gateway_and_replica_cost_no_byte_and_every_failure_passes() {
    let Some(cluster) = S3Cluster::start() else {
        return;
    };
    let fleet = Fleet::start(measured::program(), cluster.gateways());
    println!("at first: {}; load {}", cluster.status(), measured::load());
    let began = Instant::now();
    let load = load::run(&fleet, |load| {
        let (cluster, fleet) = (&cluster, &fleet);
        Scene {
            cluster,
            fleet,
            load,
        }
        .play();
    });
    let lasted = began.elapsed();
    println!(
        "under load for {:.1} s; load {}",
        lasted.as_secs_f64(),
        measured::load()
    );
    let figures = load.check_all(&fleet);
    start_again(&cluster, "osd.1 and mon.1 started again", 1);
    println!("at last: {}; load {}", cluster.status(), measured::load());
    println!("replicas over three nodes: {figures}");
    figures.check_that_much_happened(lasted);
}
