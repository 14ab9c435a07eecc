//! The kernel's `perf_event_open`: events of one processor each, and the rings into which the kernel writes their
//! records.
//!
//! From the lowest level up: [`Settings`] say what is to be recorded, an [`Event`] is that on one processor, a [`Ring`]
//! has its records, a [`Record`] is one of them. All that is unsafe of it is in `event` and `ring`; records are taken
//! apart by pure functions, which believe no length.

mod event;
mod processors;
mod record;
mod ring;
mod settings;

pub use event::Event;
pub use processors::online_processors;
pub use record::{MappedRecord, Record, SampleRecord, Stamped, TaskRecord, UserRegisters};
pub use ring::{PerProcessor, Ring};
pub use settings::{SampledRegisters, Settings, Source};

use crate::refusal::EngineError;

/// What to say to who runs the agent when the kernel refused an event or its ring.
pub fn refused(action: &'static str, source: std::io::Error) -> EngineError {
    let advice = match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => Some("it needs CAP_PERFMON and CAP_IPC_LOCK, or root"),
        Some(libc::ENOSYS) => Some("the kernel was built without perf events"),
        Some(libc::EMFILE) => {
            Some("raise the limit of open files (ulimit -n): each processor needs two")
        }
        _ => None,
    };
    EngineError::Refused {
        action,
        source,
        advice,
    }
}
