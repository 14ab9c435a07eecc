//! Whether this process may do what the agent does.

use std::io::Write;

use unhex_agent::perf_events::{Event, Settings};
use unhex_testkit::tools;

/// Whether events of all processes may be opened; says so if not.
///
/// # Panics
/// If they may not and this is root on a build machine.
pub(crate) fn may_follow_all_processes() -> bool {
    let Err(error) = Event::open(Settings::changes(), 0) else {
        return true;
    };
    skip(&format!(
        "CAP_PERFMON is missing: perf_event_open says {error}"
    ));
    false
}

/// Says that something is left out.
///
/// # Panics
/// If this is root on a build machine, where nothing may be.
pub(crate) fn skip(reason: &str) {
    if rustix::process::geteuid().is_root() {
        tools::skip(reason);
    } else {
        // Past the capture of the test harness, so that it is seen.
        let line = format!("SKIPPED: {reason}\n");
        drop(std::io::stderr().write_all(line.as_bytes()));
    }
}
