//! A reader that gives so many bytes and then fails, so that a bomb ends in an error.

use std::io::{self, Read};

/// Fails after its budget; a reader that only ended there would look like a whole archive.
#[derive(Debug)]
pub(super) struct Bounded<R> {
    inner: R,
    bytes_max: u64,
    left: u64,
}

impl<R: Read> Bounded<R> {
    pub(super) fn new(inner: R, bytes_max: u64) -> Self {
        Self {
            inner,
            bytes_max,
            left: bytes_max,
        }
    }

    /// What is left of the budget.
    pub(super) fn left(&self) -> u64 {
        self.left
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = u64::try_from(count)
            .ok()
            .and_then(|count| self.left.checked_sub(count))
            .ok_or_else(|| too_large(self.bytes_max))?;
        Ok(count)
    }
}

pub(super) fn too_large(bytes_max: u64) -> io::Error {
    io::Error::other(format!(
        "it unpacks to more than the limit of {bytes_max} bytes"
    ))
}
