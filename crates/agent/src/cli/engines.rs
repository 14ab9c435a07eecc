//! Which engine takes the samples: the best that the kernel allows.

use anyhow::bail;

use crate::config::EngineChoice;
#[cfg(target_arch = "x86_64")]
use crate::engine::ebpf::{Ebpf, EbpfSettings};
use crate::engine::perf_copy::{PerfCopy, PerfCopySettings};
use crate::engine::{Engine, EngineError};
use crate::limits::Limits;
use crate::processes::Processes;

/// Starts an engine, and has what runs read.
type Start = fn(u32, &mut Processes) -> Result<Box<dyn Engine>, EngineError>;

/// All engines, the best first.
const ENGINES: &[(EngineChoice, Start)] = &[
    #[cfg(target_arch = "x86_64")]
    (EngineChoice::Ebpf, ebpf),
    (EngineChoice::PerfCopy, perf_copy),
];

/// Starts taking samples, and reads what runs.
///
/// # Errors
/// If the kernel allows none of the engines that may be taken.
pub(super) fn open(
    choice: EngineChoice,
    samples_per_second: u32,
) -> anyhow::Result<(Box<dyn Engine>, Processes)> {
    let mut refused = Vec::new();
    for (engine, start) in ENGINES {
        if choice != EngineChoice::Auto && choice != *engine {
            continue;
        }
        let mut processes = Processes::new(Limits::default());
        match start(samples_per_second, &mut processes) {
            Ok(engine) => return Ok((engine, processes)),
            Err(error) => {
                let name = engine.as_str();
                tracing::warn!(engine = name, "no samples can be taken by {name}: {error}");
                refused.push(format!("{name}: {error}"));
            }
        }
    }
    bail!(
        "no samples can be taken on this host: {}",
        refused.join("; ")
    );
}

#[cfg(target_arch = "x86_64")]
fn ebpf(
    samples_per_second: u32,
    processes: &mut Processes,
) -> Result<Box<dyn Engine>, EngineError> {
    let settings = EbpfSettings {
        samples_per_second,
        ..EbpfSettings::default()
    };
    Ok(Box::new(Ebpf::start(settings, processes)?))
}

fn perf_copy(
    samples_per_second: u32,
    processes: &mut Processes,
) -> Result<Box<dyn Engine>, EngineError> {
    let settings = PerfCopySettings {
        samples_per_second,
        ..PerfCopySettings::default()
    };
    Ok(Box::new(PerfCopy::open(settings, processes)?))
}
