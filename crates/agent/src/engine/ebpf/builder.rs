//! Makes unwind tables on a thread of its own: reading and running the unwind information of a compiler takes a second, in which
//! the kernel's ring would run over.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use super::kernel::FramePointersInGaps;
use crate::engine::EngineError;
use crate::processes::BinaryFile;
use crate::table::{EhFrameSection, UnwindTable};

/// Tables that wait to be taken over; that of a compiler has 10 MB.
const FINISHED_MAX: usize = 8;

/// What a table is made of.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) slot: u32,
    /// Which binary of that slot.
    pub(super) token: u64,
    pub(super) file: BinaryFile,
    /// Link addresses of executable segments.
    pub(super) code: Vec<Range<u64>>,
    /// The lowest link address.
    pub(super) base: u64,
}

/// What came of an order.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) slot: u32,
    pub(super) token: u64,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) enum Outcome {
    Table {
        table: UnwindTable,
        frame_pointers_in_gaps: FramePointersInGaps,
    },
    /// The binary has no unwind information.
    Bare,
    /// It has more than is read.
    Refused(String),
}

/// The thread.
#[derive(Debug)]
pub(super) struct Builder {
    orders: Option<Sender<Order>>,
    finished: Option<Receiver<Finished>>,
    thread: Option<JoinHandle<()>>,
}

impl Builder {
    pub(super) fn start() -> Result<Self, EngineError> {
        let (orders, to_do) = channel();
        let (done, finished) = sync_channel(FINISHED_MAX);
        let thread = std::thread::Builder::new()
            .name("unwind-tables".to_owned())
            .spawn(move || work(&to_do, &done))
            .map_err(|source| EngineError::Refused {
                action: "start a thread",
                source,
                advice: None,
            })?;
        Ok(Self {
            orders: Some(orders),
            finished: Some(finished),
            thread: Some(thread),
        })
    }

    pub(super) fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // The thread ends after this is dropped, or by a panic, which would have been seen.
            drop(orders.send(order));
        }
    }

    pub(super) fn finished(&self) -> Option<Finished> {
        self.finished.as_ref()?.try_recv().ok()
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        drop((self.orders.take(), self.finished.take()));
        if let Some(thread) = self.thread.take() {
            // It panicked; whoever drops this has nothing to do about it.
            drop(thread.join());
        }
    }
}

/// The smallest binaries first: most stacks need only those, and a compiler's table takes as long as hundreds of others.
fn work(orders: &Receiver<Order>, done: &SyncSender<Finished>) {
    let mut waiting: Vec<Order> = Vec::new();
    loop {
        if waiting.is_empty() {
            let Ok(order) = orders.recv() else {
                return;
            };
            waiting.push(order);
        }
        waiting.extend(orders.try_iter());
        let smallest = (0..)
            .zip(&waiting)
            .min_by_key(|(_, order)| code_bytes(order));
        let Some(place) = smallest.map(|(place, _)| place) else {
            continue;
        };
        let order = waiting.swap_remove(place);
        let finished = Finished {
            slot: order.slot,
            token: order.token,
            outcome: outcome(&order),
        };
        if done.send(finished).is_err() {
            return;
        }
    }
}

fn code_bytes(order: &Order) -> u64 {
    let lengths = order
        .code
        .iter()
        .map(|code| code.end.saturating_sub(code.start));
    lengths.fold(0, u64::saturating_add)
}

pub(super) fn outcome(order: &Order) -> Outcome {
    let sections = order.file.unwind_sections();
    let Some(eh_frame) = sections.eh_frame else {
        return Outcome::Bare;
    };
    let section = EhFrameSection {
        bytes: &eh_frame.bytes,
        address: eh_frame.address.0,
        header_address: sections.eh_frame_hdr.map_or(0, |header| header.address.0),
        code: order.code.clone(),
        base: order.base,
    };
    let table = match UnwindTable::build(&section) {
        Ok(table) if table.rows().is_empty() => return Outcome::Bare,
        Ok(table) => table,
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    Outcome::Table {
        frame_pointers_in_gaps: frame_pointers_in_gaps(order, &table),
        table,
    }
}

/// Go's compiler keeps frame pointers and writes no unwind information. Others write it for nearly all code or, asked to, for
/// none: then only what the C library adds to each program has some.
fn frame_pointers_in_gaps(order: &Order, table: &UnwindTable) -> FramePointersInGaps {
    let is_mostly_gaps = table.covered_bytes().saturating_mul(2) < code_bytes(order);
    if is_mostly_gaps || order.file.section(".note.go.buildid").is_some() {
        FramePointersInGaps::Yes
    } else {
        FramePointersInGaps::No
    }
}
