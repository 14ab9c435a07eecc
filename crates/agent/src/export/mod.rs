//! Batches to the store, or to any receiver of OTLP profiles: `POST /v1development/profiles`.
//!
//! A batch is packed where it is made and waits in a [`Queue`] that is bounded in bytes: when the receiver is away the oldest go, and
//! are counted. One task, [`Exporter::run`], delivers them one after another. What may pass (no connection, 408, 429, 502, 503, 504) is
//! repeated with growing pauses, or when the receiver says; what will not pass is counted and left. A batch that is sent again is the
//! same, byte for byte, by which the store keeps it once.

mod answer;
mod exporter;
mod packing;
mod queue;

pub use exporter::{Exporter, ExporterOptions, SetupError};
pub(crate) use exporter::{certificates, client_builder, token};
pub use packing::{Compression, Message};
pub use queue::Queue;

#[cfg(test)]
mod tests;
