//! A range of an open file as a body: large pieces, one read ahead, constant memory.
//!
//! The file is complete and verified before its first byte is sent. If reading fails all the same,
//! the body ends in an error, which closes the connection with FIN (src/http/socket.rs).

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use rustix::io::ReadWriteFlags;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::artifacts::Fingerprint;
use crate::artifacts::store::Lease;

/// What is read at once: large enough that a system call costs nothing beside its copy, small
/// enough that a thousand downloads fit in memory.
const PIECE_BYTES: u64 = 256 << 10;
/// What is read at once for one of many answers over a connection, of which each may be left lying:
/// two frames of HTTP/2.
const STREAM_PIECE_BYTES: u64 = 32 << 10;
/// What is read at once where it is asked for: copying more would hold up others.
const SHORT_BYTES_MAX: u64 = 64 << 10;

/// The rest of a range of a file.
#[derive(Debug)]
pub(super) struct FileBody {
    file: Arc<File>,
    /// What was not asked of the file yet.
    unread: Range<u64>,
    /// What was not handed out yet.
    left_bytes: u64,
    ahead: Ahead,
    pace: Pace,
    /// Keeps what the file is a part of from being given up.
    _in_use: Lease,
    /// What the file has to be still when its last piece was read.
    unchanged: Option<Fingerprint>,
}

/// How much of a file waits in memory to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// The answer has a connection of its own: a large piece, and one ahead.
    Connection,
    /// It is one of hundreds of streams: a small piece.
    Stream,
}

impl Pace {
    fn piece_bytes(self) -> u64 {
        match self {
            Self::Connection => PIECE_BYTES,
            Self::Stream => STREAM_PIECE_BYTES,
        }
    }
}

/// The piece that comes next.
#[derive(Debug)]
enum Ahead {
    There(Bytes),
    Read(JoinHandle<io::Result<Bytes>>),
    /// It is read when it is asked for.
    Later,
    End,
}

impl FileBody {
    /// Reads the first piece of `range`, so that a file that cannot be read never gets a 200. A file that
    /// others may write to says what it has to be still at the end: if it was changed meanwhile, the body
    /// ends in an error before its last piece.
    ///
    /// # Errors
    /// If the file is not `size_bytes` long, or cannot be read.
    pub(super) async fn open(
        file: File,
        (size_bytes, unchanged): (u64, Option<Fingerprint>),
        range: Range<u64>,
        pace: Pace,
    ) -> io::Result<Self> {
        let file = Arc::new(file);
        let mut body = Self {
            pace,
            left_bytes: range.end.saturating_sub(range.start),
            unread: range,
            ahead: Ahead::End,
            file: Arc::clone(&file),
            _in_use: Lease::unlimited(),
            unchanged,
        };
        let piece = body.next_piece();
        if unchanged.is_none()
            && let Some(first) = read_cached(&file, &piece, size_bytes)
        {
            body.ahead = Ahead::There(first);
            return Ok(body);
        }
        let unchanged = body.unchanged_behind();
        let first = spawn_blocking(move || {
            let found = file.metadata()?.len();
            if found != size_bytes {
                let detail = format!("it has {found} bytes instead of {size_bytes}");
                return Err(io::Error::other(detail));
            }
            read_unchanged(&file, piece, unchanged)
        });
        body.ahead = Ahead::There(first.await??);
        Ok(body)
    }

    /// The same body, with a lease that lives as long.
    pub(super) fn under(self, lease: Lease) -> Self {
        Self {
            _in_use: lease,
            ..self
        }
    }

    fn next_piece(&mut self) -> Range<u64> {
        let end = self
            .unread
            .end
            .min(self.unread.start.saturating_add(self.pace.piece_bytes()));
        let piece = self.unread.start..end;
        self.unread.start = end;
        piece
    }

    /// What the file has to be behind the piece that is read next, if that is the last one.
    fn unchanged_behind(&self) -> Option<Fingerprint> {
        self.unchanged.filter(|_| self.unread.is_empty())
    }

    fn read_ahead(&mut self) {
        let piece = self.next_piece();
        self.ahead = if piece.is_empty() {
            Ahead::End
        } else {
            let file = Arc::clone(&self.file);
            let unchanged = self.unchanged_behind();
            Ahead::Read(spawn_blocking(move || {
                read_unchanged(&file, piece, unchanged)
            }))
        };
    }
}

/// A short piece of a file as long as it should be, if the system has it in memory.
fn read_cached(file: &File, piece: &Range<u64>, size_bytes: u64) -> Option<Bytes> {
    let length = piece.end.saturating_sub(piece.start);
    let is_as_long = file.metadata().ok()?.len() == size_bytes;
    if length > SHORT_BYTES_MAX || !is_as_long {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let slices = &mut [IoSliceMut::new(&mut bytes)];
    let read = rustix::io::preadv2(file, slices, piece.start, ReadWriteFlags::NOWAIT);
    (read == Ok(bytes.len())).then(|| bytes.into())
}

/// Reads exactly `piece`, of a file that is not changed behind it.
fn read_unchanged(
    file: &File,
    piece: Range<u64>,
    unchanged: Option<Fingerprint>,
) -> io::Result<Bytes> {
    let bytes = read_piece(file, piece)?;
    match unchanged {
        Some(before) if Fingerprint::of(file)? != before => {
            Err(io::Error::other("it was changed while it was read"))
        }
        _ => Ok(bytes),
    }
}

/// Reads exactly `piece`, without first writing zeros where it will be.
fn read_piece(file: &File, piece: Range<u64>) -> io::Result<Bytes> {
    let length = piece.end.saturating_sub(piece.start);
    let length = usize::try_from(length).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(length);
    let mut offset = piece.start;
    while bytes.len() < length {
        let count = rustix::io::retry_on_intr(|| {
            rustix::io::pread(file, rustix::buffer::spare_capacity(&mut bytes), offset)
        })?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        offset = offset.saturating_add(u64::try_from(count).map_err(io::Error::other)?);
    }
    // The allocation may be larger than what was asked for, and then more may have been read.
    bytes.truncate(length);
    Ok(bytes.into())
}

impl HttpBody for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if matches!(this.ahead, Ahead::Later) {
            this.read_ahead();
        }
        let piece = match &mut this.ahead {
            Ahead::End | Ahead::Later => return Poll::Ready(None),
            Ahead::There(piece) => Ok(std::mem::take(piece)),
            Ahead::Read(read) => match ready!(Pin::new(read).poll(context)) {
                Ok(piece) => piece,
                Err(lost) => Err(io::Error::other(lost)),
            },
        };
        match piece {
            Ok(piece) => {
                let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
                this.left_bytes = this.left_bytes.saturating_sub(length);
                match this.pace {
                    Pace::Connection => this.read_ahead(),
                    Pace::Stream => this.ahead = Ahead::Later,
                }
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Err(error) => {
                this.ahead = Ahead::End;
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left_bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;
    use std::io::Write as _;

    fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[tokio::test]
    async fn a_body_is_the_slice_of_its_range() {
        let bytes: Vec<u8> = (0..700_001_u32)
            .map(|n| u8::try_from(n % 251).unwrap())
            .collect();
        let file = file_of(&bytes);
        let ranges = [0..0, 0..1, 5..262_149, 0..700_001, 700_000..700_001];
        let paces = [Pace::Connection, Pace::Stream];
        for (range, pace) in ranges
            .into_iter()
            .flat_map(|range| paces.map(|pace| (range.clone(), pace)))
        {
            let slice = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            let body = FileBody::open(file.reopen().unwrap(), (700_001, None), range, pace)
                .await
                .unwrap();
            assert_eq!(body.size_hint().exact(), Some(slice.len() as u64));
            let collected = body.collect().await.unwrap().to_bytes();
            assert!(collected == bytes[slice.clone()], "{slice:?}");
        }
    }

    #[tokio::test]
    async fn a_stream_that_is_left_lying_holds_a_small_piece() {
        let file = file_of(&vec![7; 1 << 20]);
        let (file, size) = (file.reopen().unwrap(), (1 << 20, None));
        let body = FileBody::open(file, size, 0..1 << 20, Pace::Stream);
        let mut body = body.await.unwrap();
        for _ in 0..3 {
            let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(piece.len(), 32 << 10);
            assert!(matches!(body.ahead, Ahead::Later));
        }
    }

    #[tokio::test]
    async fn a_file_of_another_length_is_refused_before_anything_is_sent() {
        let file = file_of(b"short");
        assert!(
            FileBody::open(file.reopen().unwrap(), (6, None), 0..6, Pace::Connection)
                .await
                .is_err()
        );
    }

    #[tokio::test]
    async fn a_file_that_is_changed_meanwhile_ends_in_an_error_before_its_last_byte() {
        for changed in [false, true] {
            let file = file_of(&vec![7; 1 << 20]);
            let before = Fingerprint::of(file.as_file()).unwrap();
            let opened = (1 << 20, Some(before));
            let body = FileBody::open(file.reopen().unwrap(), opened, 0..1 << 20, Pace::Connection)
                .await
                .unwrap();
            if changed {
                let written = file.reopen().unwrap();
                written.set_modified(std::time::UNIX_EPOCH).unwrap();
            }
            assert_eq!(body.collect().await.is_err(), changed);
        }
    }

    #[tokio::test]
    async fn a_file_that_shrinks_ends_in_an_error_not_in_silence() {
        let file = file_of(&vec![7; 1 << 20]);
        let body = FileBody::open(
            file.reopen().unwrap(),
            (1 << 20, None),
            0..1 << 20,
            Pace::Connection,
        )
        .await
        .unwrap();
        file.as_file().set_len(300_000).unwrap();
        assert!(body.collect().await.is_err());
    }
}
