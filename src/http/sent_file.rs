//! A range of an open file as a body that the kernel sends from its cache (src/http/outlet.rs).
//!
//! What the cache lacks is read off the async threads first: sendfile(2) would wait for the disk.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use rustix::io::{Errno, ReadWriteFlags};
use tokio::task::{JoinHandle, spawn_blocking};

use super::outlet::Outlet;
use crate::artifacts::FileMap;
use crate::artifacts::store::Lease;

/// What is handed over at once: what a socket takes in a few goes.
const PIECE_BYTES: u64 = 512 << 10;
/// How much is read at a time into the cache.
const READ_BYTES: usize = 128 << 10;

/// The rest of a range of a file.
#[derive(Debug)]
pub(super) struct SentFile {
    file: Arc<File>,
    /// All of the file, untouched.
    map: Bytes,
    left: Range<u64>,
    /// Up to where the cache has it.
    cached_until: u64,
    reading: Option<JoinHandle<io::Result<()>>>,
    outlet: Outlet,
    /// Keeps the file in its cache while it is being sent.
    _in_use: Lease,
}

impl SentFile {
    /// Has the first piece of `range` read, so that a file that cannot be read never gets a 200.
    ///
    /// # Errors
    /// If the file is not `size_bytes` long, or cannot be read or mapped.
    pub(super) async fn open(
        file: File,
        size_bytes: u64,
        range: Range<u64>,
        outlet: Outlet,
    ) -> io::Result<Self> {
        let found = file.metadata()?.len();
        if found != size_bytes {
            let detail = format!("it has {found} bytes instead of {size_bytes}");
            return Err(io::Error::other(detail));
        }
        let file = Arc::new(file);
        let map = FileMap::of(Arc::clone(&file), size_bytes)?;
        let mut body = Self {
            map: Bytes::from_owner(map),
            cached_until: range.start,
            left: range,
            reading: None,
            outlet,
            _in_use: Lease::unlimited(),
            file,
        };
        let piece = body.next_piece();
        if !is_cached(&body.file, &piece)? {
            let file = Arc::clone(&body.file);
            let piece = piece.clone();
            spawn_blocking(move || read(&file, piece)).await??;
        }
        body.cached_until = piece.end;
        Ok(body)
    }

    /// The same, which keeps `lease` until all is handed over.
    pub(super) fn under(self, lease: Lease) -> Self {
        Self {
            _in_use: lease,
            ..self
        }
    }

    fn next_piece(&self) -> Range<u64> {
        let end = self.left.start.saturating_add(PIECE_BYTES);
        self.left.start..end.min(self.left.end)
    }

    /// Waits until the cache has `piece`.
    fn poll_cached(
        &mut self,
        piece: &Range<u64>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.cached_until < piece.end {
            if let Some(reading) = &mut self.reading {
                let read = ready!(Pin::new(reading).poll(context));
                self.reading = None;
                read.map_err(io::Error::other)??;
                self.cached_until = piece.end;
            } else if is_cached(&self.file, piece)? {
                self.cached_until = piece.end;
            } else {
                let (file, piece) = (Arc::clone(&self.file), piece.clone());
                self.reading = Some(spawn_blocking(move || read(&file, piece)));
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Whether the system's cache has a piece of a file, by its first and last byte: it reads and
/// forgets many pages at a time.
fn is_cached(file: &File, piece: &Range<u64>) -> io::Result<bool> {
    let ends = [piece.start, piece.end.saturating_sub(1)];
    for offset in ends.into_iter().take_while(|_| !piece.is_empty()) {
        let mut byte = [0];
        let mut bytes = [IoSliceMut::new(&mut byte)];
        match rustix::io::preadv2(file, &mut bytes, offset, ReadWriteFlags::NOWAIT) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            // Not every file system can say.
            Err(Errno::AGAIN | Errno::INTR | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// Reads a piece of a file, so that the cache has it.
fn read(file: &File, piece: Range<u64>) -> io::Result<()> {
    let mut bytes = vec![0; READ_BYTES];
    let mut offset = piece.start;
    while offset < piece.end {
        let count = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut bytes, offset))?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        offset = offset.saturating_add(u64::try_from(count).map_err(io::Error::other)?);
    }
    Ok(())
}

impl HttpBody for SentFile {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if this.left.is_empty() {
            return Poll::Ready(None);
        }
        let piece = this.next_piece();
        if let Err(error) = ready!(this.poll_cached(&piece, context)) {
            this.left.start = this.left.end;
            return Poll::Ready(Some(Err(error)));
        }
        let within = |offset| usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = this.map.slice(within(piece.start)..within(piece.end));
        this.outlet.announce(&bytes, &this.file, piece.start);
        this.left.start = piece.end;
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.end.saturating_sub(self.left.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    #[tokio::test]
    async fn a_body_is_the_slice_of_its_range_whoever_reads_it() {
        let bytes: Vec<u8> = (0..1_300_001_u32)
            .map(|n| u8::try_from(n % 251).unwrap())
            .collect();
        let file = file_of(&bytes);
        for range in [0..1, 5..600_000, 0..1_300_001, 1_300_000..1_300_001] {
            let slice = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            let (file, outlet) = (file.reopen().unwrap(), Outlet::default());
            let body = SentFile::open(file, 1_300_001, range, outlet).await;
            let body = body.unwrap();
            assert_eq!(body.size_hint().exact(), Some(slice.len() as u64));
            let collected = body.collect().await.unwrap().to_bytes();
            assert!(collected == bytes[slice.clone()], "{slice:?}");
        }
    }

    #[tokio::test]
    async fn a_file_is_closed_once_its_last_piece_is_gone() {
        let file = file_of(&[7; 100]);
        let outlet = Outlet::default();
        let body = SentFile::open(file.reopen().unwrap(), 100, 0..100, outlet.clone());
        let mut body = body.await.unwrap();
        let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        let part = outlet.part(&piece).map(|part| part.offset_bytes);
        assert_eq!(part, Some(0));
        let copy = piece.clone();
        drop(piece);
        assert!(outlet.part(&copy[50..]).is_some());
    }

    #[tokio::test]
    async fn a_file_of_another_length_or_that_shrinks_is_an_error() {
        let file = file_of(&vec![7; 2 << 20]);
        let open = |size_bytes: u64| {
            let (file, outlet) = (file.reopen().unwrap(), Outlet::default());
            SentFile::open(file, size_bytes, 0..size_bytes, outlet)
        };
        assert!(open(6).await.is_err());
        let mut body = open(2 << 20).await.unwrap();
        file.as_file().set_len(300_000).unwrap();
        let mut pieces = 0;
        let error = loop {
            match body.frame().await.unwrap() {
                Ok(_untouched) => pieces += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(pieces <= 1, "{pieces}");
    }
}
