//! A Ceph that outlives its parts: three monitors, three OSDs with a copy of everything each, two
//! gateways.
//!
//! Two monitors and two OSDs are enough for it to go on. An OSD that was killed comes back empty,
//! since it keeps everything in memory; the two others fill it.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::S3Server;
use super::ceph::{Ceph, Daemon, Shape};
use crate::{run, tools};

/// How many OSDs, and copies.
const OSDS: usize = 3;

/// Longest wait for what an OSD says of itself.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// Longest wait for the monitors to agree on something to say.
const STATUS_DEADLINE: Duration = Duration::from_mins(1);

const SHAPE: Shape = Shape {
    monitors: 3,
    osds: OSDS,
    gateways: 2,
};

/// A running cluster; it is killed when this is dropped, or when this process ends.
#[derive(Debug)]
pub struct S3Cluster {
    ceph: Arc<Ceph>,
    gateways: [S3Server; 2],
}

impl S3Cluster {
    /// A cluster of its own, ready. `None`, after saying so, when a program that it needs is missing
    /// and this is no build machine.
    ///
    /// # Panics
    /// If it does not become ready, or a program is missing and `CI` is `true`.
    pub fn start() -> Option<Self> {
        let ceph = Arc::new(Ceph::start(SHAPE)?);
        let gateways = [0, 1].map(|at| S3Server::through(&ceph, at));
        Some(Self { ceph, gateways })
    }

    /// Either way to the same buckets.
    pub fn gateways(&self) -> [&S3Server; 2] {
        self.gateways.each_ref()
    }

    /// Kills one of its processes, as `kill -9` does.
    ///
    /// # Panics
    /// If that does not run.
    pub fn kill(&self, daemon: Daemon) {
        self.ceph.kill(daemon);
    }

    /// Starts one that was killed; what an OSD had is gone.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start_again(&self, daemon: Daemon) {
        self.ceph.start_again(daemon);
    }

    /// Lets one of its processes say nothing, as a host does that is gone: the others have to find
    /// that out.
    ///
    /// # Panics
    /// If that does not run.
    pub fn silence(&self, daemon: Daemon) {
        self.ceph.silence(daemon);
    }

    /// Lets a silent one go on where it was.
    ///
    /// # Panics
    /// If that does not run.
    pub fn wake(&self, daemon: Daemon) {
        self.ceph.wake(daemon);
    }

    /// What `ceph -s` says of its health and its processes, in one line.
    ///
    /// # Panics
    /// If no majority of monitors answers in a minute.
    pub fn status(&self) -> String {
        // While they elect a leader they refuse whatever is asked.
        let said = run::poll("the monitors to answer", STATUS_DEADLINE, || {
            let mut ceph = Command::new(tools::CEPH.path());
            ceph.arg("-c").arg(self.ceph.configuration());
            ceph.args(["--connect-timeout", "10", "-s"]);
            let asked = ceph.output().expect("ceph runs");
            let said = String::from_utf8(asked.stdout).expect("text");
            asked.status.success().then_some(said)
        });
        let lines = said.lines().map(str::trim);
        let lines = lines.skip_while(|line| !line.starts_with("health:"));
        let lines = lines.take_while(|line| !line.starts_with("mgr:"));
        let lines = lines.filter(|line| !line.is_empty() && *line != "services:");
        let osds = said.lines().map(str::trim);
        let osds = osds.filter(|line| line.starts_with("osd:"));
        lines.chain(osds).collect::<Vec<_>>().join("; ")
    }

    /// Waits until each OSD has all of what was stored.
    ///
    /// # Panics
    /// If it takes longer than that.
    pub fn wait_until_whole(&self, deadline: Duration) {
        run::poll("every copy to be whole", deadline, || {
            self.is_whole().unwrap_or_default().then_some(())
        });
    }

    /// Whether every copy of every placement group is whole, as the OSDs say that have them.
    fn is_whole(&self) -> io::Result<bool> {
        let (mut leading, mut following) = (0, 0);
        for at in 0..OSDS {
            for state in placement_groups(&self.ceph.socket_of_osd(at))? {
                match state.as_str() {
                    // One OSD leads the copies of a group.
                    "Started/Primary/Active/Clean" => leading += 1,
                    "Started/ReplicaActive/RepNotRecovering" => following += 1,
                    _ => return Ok(false),
                }
            }
        }
        Ok(leading > 0 && following == leading * (OSDS - 1))
    }
}

/// The states of the copies of placement groups that an OSD has, by its admin socket: a question
/// ends with a zero byte, an answer begins with its length.
fn placement_groups(socket: &Path) -> io::Result<Vec<String>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
    stream.write_all(b"{\"prefix\": \"dump_pgstate_history\"}\0")?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut answer = String::new();
    let length = u64::from(u32::from_be_bytes(length));
    stream.take(length).read_to_string(&mut answer)?;
    let values = answer.split("\"currently\":").skip(1).map(|rest| {
        let mut quoted = rest.split('"');
        quoted.nth(1).unwrap_or_default().to_owned()
    });
    Ok(values.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long the filling of an OSD may take on a busy machine.
    const DEADLINE: Duration = Duration::from_mins(3);

    #[test]
    fn what_an_osd_lost_it_has_again_when_another_is_killed() {
        let Some(cluster) = S3Cluster::start() else {
            return;
        };
        let [one, two] = cluster.gateways();
        let bucket = one.bucket();
        one.put(&bucket, "before", b"bytes");
        cluster.kill(Daemon::Osd(0));
        two.put(&bucket, "meanwhile", b"bytes");
        cluster.kill(Daemon::Monitor(2));
        run::poll("both to be missed", DEADLINE, || {
            let status = cluster.status();
            let are_missed = ["3 osds: 2 up", "out of quorum: 2"].map(|what| status.contains(what));
            (are_missed == [true; 2]).then_some(())
        });
        cluster.start_again(Daemon::Monitor(2));
        cluster.start_again(Daemon::Osd(0));
        cluster.wait_until_whole(DEADLINE);
        cluster.kill(Daemon::Osd(1));
        for key in ["before", "meanwhile"] {
            assert_eq!(two.request("GET", &format!("{bucket}/{key}")), 200, "{key}");
        }
    }
}
