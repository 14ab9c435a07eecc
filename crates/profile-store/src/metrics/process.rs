//! What the kernel knows of this process: memory, files, threads, processor time.

use std::fs;

use prometheus::IntGaugeVec;

use super::declared::Families;

/// Reads what the kernel knows of this process; what it does not say keeps its last value.
pub(super) fn read(families: &Families) {
    let none: &[&str] = &[];
    let set = |gauge: &IntGaugeVec, value: Option<i64>| {
        if let Some(value) = value {
            gauge.with_label_values(none).set(value);
        }
    };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kibibytes = status_number(&status, "VmRSS:");
    set(
        &families.resident_bytes,
        kibibytes.map(|kib| kib.saturating_mul(1024)),
    );
    set(&families.threads, status_number(&status, "Threads:"));
    let files = fs::read_dir("/proc/self/fd").map(Iterator::count).ok();
    set(
        &families.open_files,
        files.and_then(|n| i64::try_from(n).ok()),
    );
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    set(
        &families.open_files_max,
        most.and_then(|n| i64::try_from(n).ok()),
    );
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(used) = cpu_seconds(&stat) {
        // The kernel counts; here it is only shown.
        families.cpu_seconds.reset();
        families.cpu_seconds.with_label_values(none).inc_by(used);
    }
}

/// The number behind a name of `/proc/self/status`.
fn status_number(status: &str, name: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User and system time of `/proc/self/stat`: the 14th and 15th word, counted by proc(5), where
/// the second is the program's name in parentheses and may have spaces.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, words) = stat.rsplit_once(") ")?;
    let mut words = words.split_whitespace().skip(11);
    let user: u32 = words.next()?.parse().ok()?;
    let system: u32 = words.next()?.parse().ok()?;
    let ticks = u32::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    Some((f64::from(user) + f64::from(system)) / f64::from(ticks))
}
