//! A reader that gives so many bytes and then fails, so that a bomb ends in an error.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// Bytes that may be unpacked, shared by all readers of one archive and of those in it.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    bytes_max: u64,
    left: Rc<Cell<u64>>,
}

/// Fails after its budget; a reader that only ended there would look like a whole archive.
#[derive(Debug)]
pub(super) struct Bounded<R> {
    inner: R,
    budget: Budget,
}

impl Budget {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            left: Rc::new(Cell::new(bytes_max)),
        }
    }

    fn spend(&self, bytes: usize) -> io::Result<()> {
        let left = u64::try_from(bytes)
            .ok()
            .and_then(|bytes| self.left.get().checked_sub(bytes));
        self.left.set(left.unwrap_or(0));
        match left {
            Some(_) => Ok(()),
            None => Err(io::Error::other(format!(
                "it unpacks to more than the limit of {} bytes",
                self.bytes_max
            ))),
        }
    }
}

impl<R: Read> Bounded<R> {
    pub(super) fn new(inner: R, budget: Budget) -> Self {
        Self { inner, budget }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.budget.spend(count)?;
        Ok(count)
    }
}
