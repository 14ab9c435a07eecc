//! What the kernel says now of the processes that there are: the way in for those that are older than the agent, and
//! the way back when records of changes were lost.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use super::maps::{MappedFile, executable_mapping};
use crate::sample::ProcessId;

/// Longest line of `/proc/PID/maps`: a path has at most 4096 bytes, each of which can be written as four.
const LINE_BYTES_MAX: u64 = 17 << 10;

/// Lines of `/proc/PID/maps` that are read: four times as many mappings as a process may have by default.
const LINES_MAX: usize = 4 * 65_530;

/// The executable mappings of a process, as many as `mappings_max`, lowest first.
///
/// # Errors
/// If there is no such process, or it may not be looked at.
pub(super) fn mappings(id: ProcessId, mappings_max: usize) -> std::io::Result<Vec<MappedFile>> {
    let mut reader = BufReader::new(File::open(format!("/proc/{}/maps", id.0))?);
    let mut found = Vec::new();
    let mut line = Vec::new();
    for _ in 0..LINES_MAX {
        line.clear();
        reader
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)?;
        let Some(line) = line.strip_suffix(b"\n") else {
            break;
        };
        found.extend(executable_mapping(line));
        if found.len() >= mappings_max {
            break;
        }
    }
    Ok(found)
}

/// All processes that there are now.
pub(super) fn process_ids() -> std::io::Result<Vec<ProcessId>> {
    let entries = std::fs::read_dir("/proc")?;
    let id = |name: std::ffi::OsString| name.to_str()?.parse().ok().map(ProcessId);
    Ok(entries
        .flatten()
        .filter_map(|entry| id(entry.file_name()))
        .collect())
}

/// Whether threads of a process still run though its first one, whose number it has, has ended.
pub(super) fn has_other_threads(id: ProcessId) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", id.0));
    let own = id.0.to_string();
    tasks.is_ok_and(|tasks| tasks.flatten().any(|task| task.file_name() != own.as_str()))
}
