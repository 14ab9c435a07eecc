//! The seam between artifacts and where their bytes lie: immutable objects under keys.
//!
//! An object is put once and never changed, so there is no compare-and-swap and no lock; whoever
//! lists sees every finished put. Implementors are a local folder ([`LocalStore`]) and a bucket of an
//! S3 server ([`S3Store`]).

mod direct;
mod fetched;
mod frames;
mod key;
mod lease;
mod local;
mod s3;
mod staging;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::ContentHash;
use super::fingerprint::Fingerprint;

pub use direct::{DirectBody, DirectUploads};
pub use fetched::CacheBounds;
pub use frames::{FrameTable, FrameTableError};
pub use key::{ObjectKey, ParseObjectKeyError};
pub use lease::Lease;
pub use local::LocalStore;
pub use s3::{S3Parts, S3Store};
pub use staging::{StagedFile, Staging};

/// The most entries of one page of a listing: what S3 gives at most.
pub const PAGE_ENTRIES_MAX: usize = 1_000;

/// What an object store answers, some time later.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Immutable objects under keys.
///
/// A put is durable and complete when it answers; a reader sees the whole object or none. Absence
/// is `None` and definite; an error says nothing about what exists.
pub trait ObjectStore: fmt::Debug + Send + Sync + 'static {
    /// Puts a small object under a key that has none yet.
    ///
    /// Fails with [`StoreError::Exists`] when the key has one, which is left as it is. An S3 server
    /// may be too simple to tell, and replace it: so whoever puts uses a key that nobody else puts,
    /// or the same bytes as everybody.
    fn put(&self, key: ObjectKey, bytes: Bytes) -> StoreFuture<'_, ()>;

    /// Puts the content of a staged file under a key that has none yet, and says in what form it
    /// lies there; the form goes into the record, since reading needs it.
    ///
    /// Fails with [`StoreError::Exists`] as [`Self::put`] does, and with [`StoreError::Altered`] where
    /// the file is read on the way and has another hash by now.
    fn put_file(&self, key: ObjectKey, blob: NewBlob) -> StoreFuture<'_, BlobForm>;

    /// The whole of a small object, or `None` when there is none.
    fn get(&self, key: ObjectKey, limit: GetLimit) -> StoreFuture<'_, Option<Bytes>>;

    /// The whole object as a file on this disk, in identity form, or `None` when there is none.
    /// Whoever needs the file's path keeps its lease.
    ///
    /// Whether the bytes have the hash of the blob is said in [`LocalFile::verification`].
    fn open(&self, blob: StoredBlob) -> StoreFuture<'_, Option<LocalFile>>;

    /// Whether the store itself keeps a blob as it has to be, whatever this disk has of it; `None` when
    /// [`Self::open`] looks at nothing else.
    fn keeps_whole(&self, _blob: StoredBlob) -> StoreFuture<'_, Option<bool>> {
        std::future::ready(Ok(None)).boxed()
    }

    /// What is known of a blob without reading all of it.
    fn glance(&self, blob: StoredBlob) -> StoreFuture<'_, Glance> {
        async move { Ok(self.open(blob).await?.map_or(Glance::Absent, Glance::Here)) }.boxed()
    }

    /// Objects in byte order of their keys: one page.
    fn list(&self, query: ListQuery) -> StoreFuture<'_, Vec<ObjectEntry>>;

    /// All objects under a prefix, in byte order of their keys, read page by page.
    fn list_all(&self, prefix: String) -> StoreFuture<'_, Vec<ObjectEntry>> {
        async move {
            let mut entries: Vec<ObjectEntry> = Vec::new();
            loop {
                let query = ListQuery {
                    prefix: prefix.clone(),
                    after: entries.last().map(|entry| entry.key.to_string()),
                    entries_max: PAGE_ENTRIES_MAX,
                };
                let page = self.list(query).await?;
                let is_last = page.len() < PAGE_ENTRIES_MAX;
                entries.extend(page);
                if is_last {
                    return Ok(entries);
                }
            }
        }
        .boxed()
    }

    /// The names of the folders directly under a prefix that ends in `/`, in byte order: one page.
    /// `after` of the query is a folder's prefix too.
    fn list_folders(&self, query: ListQuery) -> StoreFuture<'_, Vec<String>>;

    /// Removes an object; removing what is not there is no error.
    fn delete(&self, key: ObjectKey) -> StoreFuture<'_, ()>;

    /// Whether the store can be asked now; where nothing but a disk is asked, that is so.
    fn check(&self) -> StoreFuture<'_, ()> {
        std::future::ready(Ok(())).boxed()
    }

    /// Gives up puts that were begun before that time and whose server died, where those leave
    /// something behind; says how many.
    fn abort_unfinished(&self, before: SystemTime) -> StoreFuture<'_, u64> {
        // Whatever the time is: nothing is left behind.
        let _ = before;
        std::future::ready(Ok(0)).boxed()
    }

    /// Gives up what can be had again, so that the disk of [`Self::staging`] has room for so many bytes.
    fn make_room(&self, bytes: u64) {
        // Whatever is asked for: nothing can be had again.
        let _ = bytes;
    }

    /// How clients put files into the store themselves, where they can.
    fn direct_uploads(&self) -> Option<&dyn DirectUploads> {
        None
    }

    /// Where files lie until they are put.
    fn staging(&self) -> &Staging;
}

/// The most that a [`ObjectStore::get`] reads into memory.
#[derive(Clone, Copy, Debug)]
pub struct GetLimit {
    /// A larger object is an error.
    pub bytes_max: u64,
}

/// In what form the bytes of a blob lie in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "snake_case")]
#[non_exhaustive]
pub enum BlobForm {
    /// As they are.
    #[default]
    Identity,
    /// As independent zstd frames.
    ZstdFrames(FrameTable),
}

/// A blob as its record describes it.
#[derive(Clone, Debug)]
pub struct StoredBlob {
    /// Where it lies.
    pub key: ObjectKey,
    /// In what form.
    pub form: BlobForm,
    /// The SHA-256 of its bytes.
    pub sha256: ContentHash,
    /// How many bytes it has.
    pub size_bytes: u64,
}

impl StoredBlob {
    /// How many bytes it takes in the store.
    fn stored_size_bytes(&self) -> u64 {
        match &self.form {
            BlobForm::Identity => self.size_bytes,
            BlobForm::ZstdFrames(table) => table.packed_size_bytes(),
        }
    }
}

/// Whether a file was compared with the hash of its blob since it last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// The store has compared it.
    Done,
    /// Whoever reads it has to.
    Wanted,
}

/// What a blob holds; a store may choose its form by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobContent {
    /// A file that somebody uploaded: read whole or by ranges, and worth compressing.
    Artifact,
    /// A symbol index: small, packed already, and mapped as it is.
    SymbolIndex,
}

/// A file that becomes a blob.
#[derive(Debug)]
pub struct NewBlob {
    /// The file.
    pub staged: StagedFile,
    /// The SHA-256 that it had when it was written, by which it will be known.
    pub sha256: ContentHash,
    /// What it holds.
    pub content: BlobContent,
}

/// One page of a listing.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// Keys that begin so; folders end in `/`.
    pub prefix: String,
    /// Only keys behind this one, which need not exist.
    pub after: Option<String>,
    /// The most entries that are wanted, at most [`PAGE_ENTRIES_MAX`]; fewer mean that the listing
    /// has ended.
    pub entries_max: usize,
}

/// One object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEntry {
    /// Its key.
    pub key: ObjectKey,
    /// Its length as it lies there.
    pub size_bytes: u64,
    /// When it was put.
    pub modified: SystemTime,
}

/// A complete object as a file on this disk.
#[derive(Debug)]
pub struct LocalFile {
    /// Opened for reading; stays readable when the object is removed meanwhile.
    pub file: File,
    /// Its path, for children that map it. The file stays there as long as `lease` is kept.
    pub path: PathBuf,
    /// Its length.
    pub size_bytes: u64,
    /// What it was when it was opened.
    pub fingerprint: Fingerprint,
    /// Whether its bytes are known to be the right ones.
    pub verification: Verification,
    /// Keeps the file at its path.
    pub lease: Lease,
}

/// What a store knows of a blob without reading all of it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Glance {
    /// There is none, definitely.
    Absent,
    /// It is not what it has to be: of another length, or of another hash when it was last read.
    Damaged,
    /// It is there, as long as it has to be.
    There,
    /// It lies on this disk.
    Here(LocalFile),
}

/// Why the store did not do what it was asked; says nothing about what exists.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Objects are never replaced.
    #[error("{key} exists already")]
    Exists {
        /// The key.
        key: String,
    },
    /// No space, quota or file size left.
    #[error("no room left while {doing} {key}: {source}")]
    Full {
        /// The key or path.
        key: String,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// An object is larger than its reader bears.
    #[error("{key} has {size_bytes} bytes, more than the limit of {bytes_max}")]
    TooLarge {
        /// The key.
        key: String,
        /// Its length.
        size_bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// A stored object is not what it has to be.
    #[error("the stored object {key} is damaged: {detail}")]
    Damaged {
        /// The key.
        key: String,
        /// What was found.
        detail: String,
    },
    /// A file that was to be put is not what it was when it was hashed; nothing was put.
    #[error(
        "{key} was not put: its file has the SHA-256 {found} by now, it was written with {expected}; \
         the disk or the memory of this machine may be failing"
    )]
    Altered {
        /// The key.
        key: String,
        /// The hash of what was written.
        expected: ContentHash,
        /// The hash of what was read.
        found: ContentHash,
    },
    /// The store does not do this until somebody mends what the words say.
    #[error("{doing} {key}: {detail}")]
    Refused {
        /// The key or path.
        key: String,
        /// What was tried.
        doing: &'static str,
        /// What is to be done about it.
        detail: String,
    },
    /// What all who waited for one fetch are told.
    #[error(transparent)]
    Shared(Arc<StoreError>),
    /// A key that no store accepts.
    #[error(transparent)]
    Key(#[from] ParseObjectKeyError),
    /// Anything else.
    #[error("{doing} {key}: {source}")]
    Io {
        /// The key or path.
        key: String,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl StoreError {
    /// Whether there is no room for what was to be written.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::Shared(shared) => shared.is_full(),
            _ => false,
        }
    }

    /// The error of a system call that was made while `doing` something with `key`.
    pub fn from_io(doing: &'static str, key: &dyn fmt::Display, source: io::Error) -> Self {
        let key = key.to_string();
        let full = [
            io::ErrorKind::StorageFull,
            io::ErrorKind::QuotaExceeded,
            io::ErrorKind::FileTooLarge,
        ];
        if full.contains(&source.kind()) {
            Self::Full { key, doing, source }
        } else {
            Self::Io { key, doing, source }
        }
    }
}

/// Does what waits for the disk off the async threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| {
            Err(StoreError::from_io(
                "running",
                &"a task of the store",
                io::Error::other(error),
            ))
        })
}
