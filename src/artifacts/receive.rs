//! An upload on its way in: decoded, measured, hashed and written to a staged file, in constant
//! memory.
//!
//! Decoding and writing happen off the async threads, one chunk at a time, so that a slow client
//! holds no thread while it is silent.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

use super::content_hash::ContentHash;
use super::ingested::IngestError;
use super::store::{ObjectStore, StagedFile, StoreError};
use crate::queue::Share;

/// Bytes that are gathered before they are handed over.
const CHUNK_BYTES: usize = 512 << 10;

/// Room that is made on the disk ahead of what is written: what a chunk may become when it is decoded
/// counts by what follows it.
const ROOM_BYTES: u64 = 64 << 20;

/// Largest zstd window that is accepted in any body, 64 MiB: larger ones are only made by
/// `zstd --ultra -22`, or by `zstd --long`, and each stream would hold so much memory.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 26;

/// How the bytes of an upload are encoded on their way (RFC 9110 §8.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentEncoding {
    /// As they are.
    #[default]
    Identity,
    /// One or more gzip members.
    Gzip,
    /// One or more zstd frames.
    Zstd,
}

/// An upload that is being received; dropping it leaves nothing behind.
#[derive(Debug)]
pub struct Receiver {
    gathered: BytesMut,
    writing: Option<JoinHandle<Result<Decoder, IngestError>>>,
    store: Arc<dyn ObjectStore>,
}

/// An upload that was received completely.
#[derive(Debug)]
pub struct Received {
    pub(super) staged: StagedFile,
    pub(super) sha256: ContentHash,
    pub(super) size_bytes: u64,
    /// Given back when it is published, or dropped.
    turn: Option<Share>,
}

impl Received {
    /// The same, which gives `turn` back once it is published.
    #[must_use]
    pub fn in_turn(mut self, turn: Share) -> Self {
        self.turn = Some(turn);
        self
    }
}

enum Decoder {
    Identity(Output),
    Gzip(Box<flate2::write::MultiGzDecoder<Output>>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Output>>),
}

struct Output {
    staged: StagedFile,
    hash: Sha256,
    size_bytes: u64,
    size_bytes_max: u64,
}

/// The decoded bytes exceed the limit; travels through [`io::Error`] and the decoders.
#[derive(Debug, thiserror::Error)]
#[error("more than {0} bytes")]
struct Exceeded(u64);

/// The disk failed, not the encoding.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct NotWritten(io::Error);

impl Receiver {
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        encoding: ContentEncoding,
        size_bytes_max: u64,
    ) -> Self {
        let of = Arc::clone(&store);
        let open = move || {
            let staged = of.staging().file();
            let staged = staged.map_err(not_staged)?;
            let output = Output {
                staged,
                hash: Sha256::new(),
                size_bytes: 0,
                size_bytes_max,
            };
            Decoder::new(encoding, output).map_err(not_staged)
        };
        Self {
            gathered: BytesMut::with_capacity(CHUNK_BYTES),
            writing: Some(tokio::task::spawn_blocking(open)),
            store,
        }
    }

    /// Takes the next bytes of the body.
    ///
    /// # Errors
    /// If the bytes before these could not be decoded or written, or exceed the limit.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<(), IngestError> {
        while !bytes.is_empty() {
            let room = CHUNK_BYTES.saturating_sub(self.gathered.len());
            let part = bytes.split_to(room.min(bytes.len()));
            self.gathered.extend_from_slice(&part);
            if self.gathered.len() >= CHUNK_BYTES {
                self.hand_over().await?;
            }
        }
        Ok(())
    }

    /// The whole upload, once the body has ended.
    ///
    /// # Errors
    /// If the body could not be decoded or written, or ends in the middle of its encoding.
    pub async fn finish(mut self) -> Result<Received, IngestError> {
        self.hand_over().await?;
        let decoder = self.landed().await?;
        spawn(move || decoder.finish()).await
    }

    /// Waits for the chunk before, then has this one written while the next is being received.
    async fn hand_over(&mut self) -> Result<(), IngestError> {
        let mut decoder = self.landed().await?;
        let chunk = self.gathered.split().freeze();
        self.gathered.reserve(CHUNK_BYTES);
        let store = Arc::clone(&self.store);
        self.writing = Some(tokio::task::spawn_blocking(move || {
            store.make_room(ROOM_BYTES);
            decoder.write_all(&chunk).map_err(not_decoded)?;
            Ok(decoder)
        }));
        Ok(())
    }

    async fn landed(&mut self) -> Result<Decoder, IngestError> {
        let writing = self.writing.take().ok_or(IngestError::CutOff)?;
        writing.await.unwrap_or(Err(IngestError::CutOff))
    }
}

impl Received {
    /// The whole content in memory, for what is known to be small.
    pub(super) async fn into_bytes(self) -> Result<Bytes, IngestError> {
        spawn(move || {
            let bytes = std::fs::read(self.staged.path()).map_err(not_staged)?;
            Ok(bytes.into())
        })
        .await
    }
}

async fn spawn<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IngestError> + Send + 'static,
) -> Result<T, IngestError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or(Err(IngestError::CutOff))
}

fn not_staged(error: io::Error) -> IngestError {
    StoreError::from_io("staging", &"an upload", error).into()
}

/// Tells a full disk and an exceeded limit from bytes that are not in their encoding.
fn not_decoded(error: io::Error) -> IngestError {
    let detail = error.to_string();
    match error
        .into_inner()
        .map(<dyn std::error::Error + Send + Sync>::downcast::<Exceeded>)
    {
        Some(Ok(exceeded)) => IngestError::TooLarge {
            bytes_max: exceeded.0,
        },
        Some(Err(other)) => match other.downcast::<NotWritten>() {
            Ok(not_written) => not_staged(not_written.0),
            Err(_other) => IngestError::Encoding { detail },
        },
        None => IngestError::Encoding { detail },
    }
}

impl Decoder {
    fn new(encoding: ContentEncoding, output: Output) -> io::Result<Self> {
        Ok(match encoding {
            ContentEncoding::Identity => Self::Identity(output),
            ContentEncoding::Gzip => {
                Self::Gzip(Box::new(flate2::write::MultiGzDecoder::new(output)))
            }
            ContentEncoding::Zstd => {
                let mut decoder = zstd::stream::write::Decoder::new(output)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Self::Zstd(Box::new(decoder))
            }
        })
    }

    fn finish(self) -> Result<Received, IngestError> {
        let output = match self {
            Self::Identity(output) => output,
            Self::Gzip(decoder) => decoder.finish().map_err(not_decoded)?,
            Self::Zstd(decoder) => decoder.finish().map_err(not_decoded)?,
        };
        Ok(Received {
            sha256: ContentHash(output.hash.finalize().into()),
            size_bytes: output.size_bytes,
            staged: output.staged,
            turn: None,
        })
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Identity(_) => "Identity",
            Self::Gzip(_) => "Gzip",
            Self::Zstd(_) => "Zstd",
        })
    }
}

impl Write for Decoder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Identity(output) => output.write(bytes),
            Self::Gzip(decoder) => decoder.write(bytes),
            Self::Zstd(decoder) => decoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Identity(output) => output.flush(),
            Self::Gzip(decoder) => decoder.flush(),
            Self::Zstd(decoder) => decoder.flush(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let size_bytes = self.size_bytes.saturating_add(length);
        if size_bytes > self.size_bytes_max {
            return Err(io::Error::other(Exceeded(self.size_bytes_max)));
        }
        let written = self.staged.as_file_mut().write_all(bytes);
        written.map_err(|error| io::Error::other(NotWritten(error)))?;
        self.hash.update(bytes);
        self.size_bytes = size_bytes;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
