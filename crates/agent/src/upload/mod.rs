//! Debug information that lies on this host and that the symbol server lacks, sent to it. Off unless a server is named.
//!
//! Binaries that were sampled come in with their batch. The server is asked which of them it has no symbols of, and is sent a file only if it
//! says so: the debug file that the host has installed, else the binary itself if it has symbols. One file at a time, at a bounded
//! rate, on the thread of the deliveries: the sampling one waits for nobody. The server keeps what is better, whoever sent it.

mod local;
mod uploader;

use std::sync::Arc;

use crate::processes::Binary;
use crate::sample::ProcessId;

pub use local::{LocalFile, find};
pub use uploader::{UploadOptions, Uploader};

/// A binary that was sampled, and a process that has it mapped.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// The process.
    pub process: ProcessId,
    /// The binary.
    pub binary: Arc<Binary>,
}
