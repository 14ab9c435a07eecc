//! Resident memory of a process and its children, from `/proc`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Watches the memory of a process and its children until it is dropped.
#[derive(Debug)]
pub struct MemoryWatch {
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Seen {
    most_bytes: AtomicU64,
    is_over: AtomicBool,
}

impl MemoryWatch {
    /// Starts to watch the process of that ID.
    pub fn start(id: u32) -> Self {
        let seen = Arc::new(Seen::default());
        let shared = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            while !shared.is_over.load(Ordering::Relaxed) {
                shared.most_bytes.fetch_max(of_tree(id), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Self {
            seen,
            thread: Some(thread),
        }
    }

    /// The most that was seen so far, in bytes.
    pub fn most_bytes(&self) -> u64 {
        self.seen.most_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        self.seen.is_over.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Resident memory of a process and all its descendants, in bytes; those that end meanwhile count nothing.
pub fn of_tree(id: u32) -> u64 {
    let children: u64 = children_of(id).into_iter().map(of_tree).sum();
    status_bytes(id, "VmRSS:") + children
}

/// A field of `/proc/ID/status` that is in kB; 0 when the process is gone.
pub(crate) fn status_bytes(id: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    status
        .lines()
        .find_map(|line| {
            line.strip_prefix(field)?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .map_or(0, |kib: u64| kib * 1024)
}

fn children_of(id: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task"))
        .into_iter()
        .flatten();
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|children| {
            children
                .split_whitespace()
                .filter_map(|id| id.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, Signal};

    use super::*;
    use crate::tools;

    #[test]
    fn memory_of_children_is_counted() {
        let mut shell = Command::new(tools::BASH.path())
            .args(["-c", "(echo; exec sleep 600) & wait"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash starts");
        let mut stdout = shell.stdout.take().expect("a pipe");
        stdout.read_exact(&mut [0]).expect("the child is up");
        let watch = MemoryWatch::start(shell.id());
        assert!(of_tree(shell.id()) > status_bytes(shell.id(), "VmRSS:"));
        crate::run::poll("a look at the memory", Duration::from_mins(1), || {
            (watch.most_bytes() > 0).then_some(())
        });
        for id in children_of(shell.id()) {
            let id = Pid::from_raw(i32::try_from(id).expect("small")).expect("not 0");
            rustix::process::kill_process(id, Signal::KILL).expect("it runs");
        }
        shell.wait().expect("the shell ends");
    }
}
