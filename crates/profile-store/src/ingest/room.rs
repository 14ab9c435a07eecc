//! Room in memory: so many bytes for all, taken before they are filled and given back when they are dropped.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use prometheus::IntGauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What one permit stands for: semaphores count to 2^32 at a time.
const UNIT_BYTES: u64 = 1 << 10;

/// Room for bytes; clones share it.
#[derive(Clone)]
pub struct Room {
    free: Arc<Semaphore>,
    units: u32,
    gauge: IntGauge,
}

/// Room that is held.
#[derive(Debug)]
pub(super) struct Held {
    _permit: Option<OwnedSemaphorePermit>,
    bytes: i64,
    gauge: IntGauge,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free = self.free.available_permits();
        write!(f, "Room({free} of {} KiB free)", self.units)
    }
}

impl Room {
    pub(super) fn new(bytes: u64, gauge: IntGauge) -> Self {
        let units = units(bytes);
        Self {
            free: Arc::new(Semaphore::new(units as usize)),
            units,
            gauge,
        }
    }

    /// So much, or all if it is less, once it is free; in the order of those who ask.
    pub(super) async fn take(&self, bytes: u64) -> Held {
        let units = units(bytes).min(self.units);
        let permit = Arc::clone(&self.free).acquire_many_owned(units).await;
        // Nobody closes it; and what is closed bounds nothing.
        self.held(permit.ok())
    }

    /// So much, if it is free now.
    fn try_take(&self, bytes: u64) -> Option<Held> {
        let units = units(bytes).min(self.units);
        let permit = Arc::clone(&self.free).try_acquire_many_owned(units);
        permit.ok().map(|permit| self.held(Some(permit)))
    }

    fn held(&self, permit: Option<OwnedSemaphorePermit>) -> Held {
        let (bytes, gauge) = (permit.as_ref().map_or(0, bytes_of), self.gauge.clone());
        gauge.add(bytes);
        Held {
            _permit: permit,
            bytes,
            gauge,
        }
    }
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES).max(1)).unwrap_or(u32::MAX >> 4)
}

fn bytes_of(permit: &OwnedSemaphorePermit) -> i64 {
    let units = u64::try_from(permit.num_permits()).unwrap_or(u64::MAX);
    i64::try_from(units.saturating_mul(UNIT_BYTES)).unwrap_or(i64::MAX)
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gauge.sub(self.bytes);
    }
}

/// A body that is received, and the room that it takes.
#[derive(Debug)]
pub struct Body {
    room: Room,
    held: Vec<Held>,
    held_bytes: u64,
    bytes: BytesMut,
}

/// There is no room for more of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Body {
    pub(super) fn new(room: Room) -> Self {
        Self {
            room,
            held: Vec::new(),
            held_bytes: 0,
            bytes: BytesMut::new(),
        }
    }

    /// Makes sure of room for so many bytes in all, before they come.
    ///
    /// # Errors
    /// If there is none at the moment.
    pub fn reserve(&mut self, bytes: u64) -> Result<(), NoRoom> {
        if let Some(more) = bytes.checked_sub(self.held_bytes).filter(|more| *more > 0) {
            // Doubled, so that a body without a length takes room a few times only.
            let more = more.max(self.held_bytes);
            self.held.push(self.room.try_take(more).ok_or(NoRoom)?);
            self.held_bytes = self.held_bytes.saturating_add(more);
        }
        Ok(())
    }

    /// Adds a piece.
    ///
    /// # Errors
    /// If there is no room for it at the moment.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), NoRoom> {
        let length = self.bytes.len().saturating_add(piece.len());
        self.reserve(length as u64)?;
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// How long it is so far.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether nothing came.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes bytes off the front.
    pub fn split_front(&mut self, length: usize) -> Bytes {
        let length = length.min(self.bytes.len());
        self.bytes.split_to(length).freeze()
    }

    /// What came.
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(bytes: u64) -> Room {
        Room::new(bytes, IntGauge::new("room", "a test's").unwrap())
    }

    #[tokio::test]
    async fn what_does_not_fit_finds_no_room_until_something_is_given_back() {
        let room = room(4 << 10);
        let mut one = Body::new(room.clone());
        one.reserve(3 << 10).unwrap();
        let mut two = Body::new(room.clone());
        assert_eq!(two.push(&[0; 2 << 10]), Err(NoRoom));
        assert_eq!(room.gauge.get(), 3 << 10);
        drop(one);
        two.push(&[0; 2 << 10]).unwrap();
        two.push(&[0; 1]).unwrap();
        assert_eq!(two.push(&[0; 2 << 10]), Err(NoRoom));
        drop(two);
        assert_eq!(room.gauge.get(), 0);
        // More than there is takes all.
        let held = room.take(1 << 20).await;
        assert_eq!(room.gauge.get(), 4 << 10);
        drop(held);
    }
}
