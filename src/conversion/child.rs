//! Runs one conversion child from start to end, whatever it does meanwhile.
//!
//! It has a process group of its own, so that the wall clock ends everything that it may have
//! started; its output is read to a limit and thrown away beyond.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::protocol::{ConvertChildArgs, SourceArg};
use super::{ConversionLimits, ConversionSources, ConverterUnavailable};

/// What is kept of either output: a report is below 1 KiB, the rest is for people.
const OUTPUT_BYTES_KEPT: usize = 64 << 10;
/// How long pipes may stay open after the child has ended; only a grandchild could hold them.
const PIPE_GRACE: Duration = Duration::from_secs(1);

/// How a child ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its exit status; `None` when the wall clock ended it.
    pub(super) status: Option<ExitStatus>,
    /// The start of its standard output.
    pub(super) stdout: Vec<u8>,
    /// The start of its standard error.
    pub(super) stderr: Vec<u8>,
}

/// Kills the child's process group when dropped, unless the child was reaped.
struct Group(Option<Pid>);

impl Group {
    fn kill(&mut self) {
        if let Some(group) = self.0.take() {
            // It may be gone already, which is what is wanted.
            let _gone_is_fine = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs the converter and waits for its end, at most for the wall clock's limit.
pub(super) async fn run(
    program: &Path,
    limits: &ConversionLimits,
    sources: &ConversionSources,
    output: &Path,
) -> Result<Ended, ConverterUnavailable> {
    let arguments = ConvertChildArgs {
        debuginfo: sources.debuginfo.as_ref().map(SourceArg::from),
        executable: sources.executable.as_ref().map(SourceArg::from),
        supplement: sources.supplement.as_ref().map(SourceArg::from),
        dwp: sources.dwp.as_ref().map(SourceArg::from),
        output: output.to_owned(),
        memory_bytes_max: limits.memory_bytes_max,
        cpu_seconds_max: limits.seconds_max.as_secs().max(1),
        output_bytes_max: limits.output_bytes_max,
    };
    let mut child = spawn(program, &arguments)?;
    let mut group = Group(
        child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)),
    );
    let stdout = tokio::spawn(start_of(child.stdout.take()));
    let stderr = tokio::spawn(start_of(child.stderr.take()));
    let waited = timeout(limits.seconds_max, child.wait()).await;
    // Also after a normal end: nothing that it started may outlive it. The group's number cannot
    // be another's yet, since a group lives as long as a member, and an empty one is not found.
    group.kill();
    let status = match waited {
        Ok(Ok(status)) => Some(status),
        Ok(Err(error)) => return Err(unavailable(format!("its end cannot be awaited: {error}"))),
        Err(_elapsed) => {
            let _reaped = child.wait().await;
            None
        }
    };
    Ok(Ended {
        status,
        stdout: finish(stdout).await,
        stderr: finish(stderr).await,
    })
}

fn spawn(program: &Path, arguments: &ConvertChildArgs) -> Result<Child, ConverterUnavailable> {
    Command::new(program)
        .args(arguments.to_arguments())
        .env_clear()
        // One arena: each reserves 64 MiB of the address space that the child limits.
        .env("MALLOC_ARENA_MAX", "1")
        // Huge pages, where the system has them: a conversion fills its memory once, and page faults
        // are a tenth of its time.
        .env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| unavailable(format!("{} cannot be started: {error}", program.display())))
}

fn unavailable(detail: String) -> ConverterUnavailable {
    ConverterUnavailable { detail }
}

/// Reads to the end, and keeps the start.
async fn start_of(pipe: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let Some(mut pipe) = pipe else {
        return Vec::new();
    };
    let mut kept = Vec::new();
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let room = OUTPUT_BYTES_KEPT.saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(buffer.get(..room).unwrap_or_default());
    }
    kept
}

async fn finish(mut reader: tokio::task::JoinHandle<Vec<u8>>) -> Vec<u8> {
    match timeout(PIPE_GRACE, &mut reader).await {
        Ok(read) => read.unwrap_or_default(),
        Err(_elapsed) => {
            reader.abort();
            Vec::new()
        }
    }
}
