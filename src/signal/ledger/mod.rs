//! The ledger: build IDs that profiles brought and that have no symbols, durable and shared.
//!
//! Each replica keeps what it saw itself ([`own`]) and writes it to the object store as its part
//! ([`segment`]); the ledger of all is a fold of the parts ([`fold`]), in any order. There is no lock
//! and no leader: a part replaces an older one of the same replica, and nothing else. What replicas
//! that are gone left behind is taken [`together`].

mod entry;
mod fold;
mod own;
mod segment;
#[cfg(test)]
mod tests;
mod together;

pub(super) use entry::Sighting;
pub use entry::{Entry, SeenBy};
pub(super) use fold::{Folded, latest};
pub(super) use own::OwnLedger;
pub use segment::{Listed, Part};
pub(super) use segment::{
    ReadSegmentError, SEGMENT_BYTES_MAX, SEGMENT_JSON_BYTES_MAX, SEGMENTS, Segment, key, packed,
};
pub(super) use together::{KeptBounds, has_run_out, kept};
