//! Pieces of files on their way to a socket, past the memory of this process.
//!
//! hyper hands a socket slices of memory. A piece of a file is a slice of a map of it, of which nobody
//! has read a byte: the socket asks here which file it is a piece of, and has the kernel send it
//! (sendfile(2)), at a third of what reading and writing takes. Whoever reads the slice after all
//! reads the right bytes, so that nothing depends on what hyper does with it.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

/// The pieces that were handed to one connection; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Outlet(Arc<Mutex<VecDeque<Window>>>);

/// Where in memory a piece of a file lies.
#[derive(Debug)]
struct Window {
    first: usize,
    length: usize,
    /// Whoever holds the piece keeps it open, and closes it once it is sent.
    file: Weak<File>,
    offset_bytes: u64,
}

/// What a slice of memory is of a file.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) file: Arc<File>,
    pub(super) offset_bytes: u64,
}

impl Outlet {
    /// Says that `piece` is what lies at an offset of `file`, which is open as long as `piece` is.
    pub(super) fn announce(&self, piece: &Bytes, file: &Arc<File>, offset_bytes: u64) {
        let mut windows = self.0.lock();
        windows.retain(|window| window.file.strong_count() > 0);
        windows.push_back(Window {
            first: piece.as_ptr().addr(),
            length: piece.len(),
            file: Arc::downgrade(file),
            offset_bytes,
        });
    }

    /// Which part of a file a slice is, if it is one.
    pub(super) fn part(&self, slice: &[u8]) -> Option<Part> {
        let windows = self.0.lock();
        windows.iter().find_map(|window| window.part(slice))
    }
}

impl Window {
    fn part(&self, slice: &[u8]) -> Option<Part> {
        let skipped = slice.as_ptr().addr().checked_sub(self.first)?;
        let end = skipped.checked_add(slice.len())?;
        if end > self.length {
            return None;
        }
        let skipped = u64::try_from(skipped).ok()?;
        Some(Part {
            // Of a file that is closed nobody holds a slice: its addresses are another one's now.
            file: self.file.upgrade()?,
            offset_bytes: self.offset_bytes.checked_add(skipped)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_the_part_of_its_file_as_long_as_that_is_open() {
        let outlet = Outlet::default();
        let (piece, other) = (Bytes::from(vec![0; 100]), Bytes::from(vec![0; 100]));
        let file = Arc::new(tempfile::tempfile().unwrap());
        outlet.announce(&piece, &file, 1_000);
        let offset = |slice: &[u8]| outlet.part(slice).map(|part| part.offset_bytes);
        assert_eq!(offset(&piece), Some(1_000));
        assert_eq!(offset(&piece[30..]), Some(1_030));
        assert_eq!(offset(&other), None);
        drop(file);
        assert_eq!(offset(&piece), None);
    }
}
