//! The place of one binary among the tables: which binary it is, and what there is to unwind through it.

use std::ops::Range;

use unhex_build_id::Identity;

use crate::processes::Binary;

/// What makes one binary another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    identity: Identity,
    /// Addresses and file offsets: what has one identity and others is a forgery, and has its own table.
    layout: Vec<[u64; 3]>,
}

/// What is in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing, and nobody asked yet.
    Idle,
    /// An order was given.
    Ordered,
    /// A table of so many rows, in these nodes.
    Rows { rows: u64, nodes: Vec<u32> },
    /// A way without rows, that costs nothing to keep.
    Settled,
    /// Nothing, until a time.
    Refused { until_nanos: u64 },
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) key: Option<Key>,
    pub(super) token: u64,
    pub(super) content: Content,
    pub(super) used_nanos: u64,
    /// How many processes have it mapped.
    pub(super) processes: u64,
}

impl Key {
    pub(super) fn of(binary: &Binary) -> Option<Self> {
        let segments = &binary.segments.0;
        Some(Self {
            identity: binary.identity.clone().filter(|_| !segments.is_empty())?,
            layout: segments
                .iter()
                .map(|segment| {
                    [
                        segment.address,
                        segment.file_offset,
                        segment.memory_size_bytes,
                    ]
                })
                .collect(),
        })
    }
}

/// Link addresses of a binary's code.
pub(super) fn code(binary: &Binary) -> Vec<Range<u64>> {
    let executable = binary
        .segments
        .0
        .iter()
        .filter(|segment| segment.executable);
    executable
        .map(|segment| segment.address..segment.address.saturating_add(segment.memory_size_bytes))
        .collect()
}
