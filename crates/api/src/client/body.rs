//! A file as the body of a request, read as it is sent: memory stays constant whatever its size.

use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_compression::Level;
use async_compression::tokio::bufread::ZstdEncoder;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use tempfile::NamedTempFile;
use tokio_util::io::{ReaderStream, StreamReader};

use super::error::ClientError;

/// Bytes that are read at a time: large enough that the disk and TLS work in few calls.
const CHUNK_BYTES: usize = 256 << 10;

/// zstd's fastest level that still finds the repetition in DWARF; more costs a build farm's CPU.
const ZSTD_LEVEL: i32 = 3;

/// How a body is coded on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// As it is.
    #[default]
    Identity,
    /// `Content-Encoding: zstd`.
    Zstd,
}

/// A file to be sent.
#[derive(Clone, Debug)]
pub struct FileBody {
    /// Where it lies.
    pub path: PathBuf,
    /// Its length, as declared to the server.
    pub size_bytes: u64,
    /// How it is coded on the wire.
    pub encoding: Encoding,
}

/// What happens to a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyProgress {
    /// It is sent from its start: the first time, or again after a failure.
    Started,
    /// So many bytes of the file were taken by the connection.
    Taken(u64),
}

/// Told of progress, from the task that sends.
pub type ProgressFn = Arc<dyn Fn(BodyProgress) + Send + Sync>;

/// Counts what one attempt does; shared with the watchdog.
#[derive(Clone)]
pub(super) struct Meter {
    progress: ProgressFn,
    wire_bytes: Arc<AtomicU64>,
    ticks: Arc<AtomicU64>,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter")
            .field("wire_bytes", &self.wire_bytes)
            .finish_non_exhaustive()
    }
}

impl Meter {
    pub(super) fn new(progress: ProgressFn) -> Self {
        progress(BodyProgress::Started);
        Self {
            progress,
            wire_bytes: Arc::default(),
            ticks: Arc::default(),
        }
    }

    /// Bytes given to the connection.
    pub(super) fn wire_bytes(&self) -> u64 {
        self.wire_bytes.load(Ordering::Relaxed)
    }

    /// Changes whenever something moved.
    pub(super) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    fn taken(&self, bytes: &Bytes) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
        (self.progress)(BodyProgress::Taken(length(bytes)));
    }

    fn sent(&self, bytes: &Bytes) {
        self.wire_bytes.fetch_add(length(bytes), Ordering::Relaxed);
    }
}

fn length(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// A file that lies there as it goes over the wire.
#[derive(Debug)]
pub(super) struct Coded {
    pub(super) body: FileBody,
    /// Keeps it there.
    _temporary: Option<NamedTempFile>,
}

fn code(path: PathBuf, encoding: Encoding) -> std::io::Result<Coded> {
    let (path, temporary) = match encoding {
        Encoding::Identity => (path, None),
        Encoding::Zstd => {
            let temporary = NamedTempFile::new()?;
            let mut coder = zstd::stream::read::Encoder::new(File::open(path)?, ZSTD_LEVEL)?;
            std::io::copy(&mut coder, &mut temporary.as_file())?;
            (temporary.path().to_owned(), Some(temporary))
        }
    };
    let size_bytes = std::fs::metadata(&path)?.len();
    Ok(Coded {
        body: FileBody {
            path,
            size_bytes,
            encoding: Encoding::Identity,
        },
        _temporary: temporary,
    })
}

impl FileBody {
    /// The body of one attempt, from the start of the file.
    pub(super) async fn open(&self, meter: &Meter) -> Result<reqwest::Body, ClientError> {
        let file = tokio::fs::File::open(&self.path)
            .await
            .map_err(|source| self.error(source))?;
        let on_read = meter.clone();
        let read = ReaderStream::with_capacity(file, CHUNK_BYTES)
            .inspect_ok(move |bytes| on_read.taken(bytes));
        let on_send = meter.clone();
        let sent = move |bytes: &Bytes| on_send.sent(bytes);
        Ok(match self.encoding {
            Encoding::Identity => reqwest::Body::wrap_stream(read.inspect_ok(sent)),
            Encoding::Zstd => {
                let level = Level::Precise(ZSTD_LEVEL);
                let coded = ZstdEncoder::with_quality(StreamReader::new(read), level);
                let coded = ReaderStream::with_capacity(coded, CHUNK_BYTES);
                reqwest::Body::wrap_stream(coded.inspect_ok(sent))
            }
        })
    }

    /// The file as it goes over the wire, in a file of its own where that is another one: whoever wants
    /// the length before the first byte cannot take what is coded as it is sent.
    pub(super) async fn coded(&self) -> Result<Coded, ClientError> {
        let (path, encoding) = (self.path.clone(), self.encoding);
        let coding = tokio::task::spawn_blocking(move || code(path, encoding));
        let coded = coding.await.map_err(std::io::Error::other).flatten();
        coded.map_err(|source| self.error(source))
    }

    fn error(&self, source: std::io::Error) -> ClientError {
        ClientError::File {
            path: self.path.clone(),
            source,
        }
    }
}
