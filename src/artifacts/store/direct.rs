//! Files that clients put into the store themselves, past this server.
//!
//! What lies there afterwards is whatever the client sent, and nobody vouches for it: it is read back
//! and verified before it becomes a blob, under another key.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;

use super::{ObjectKey, StoreError, StoreFuture};

/// What a store offers whose clients may reach it themselves.
pub trait DirectUploads: fmt::Debug + Send + Sync {
    /// A URL to which whoever has it may PUT the object of that key, as often as they like, until
    /// `lifetime` is over. It is a secret.
    fn presign_put(&self, key: ObjectKey, lifetime: Duration) -> StoreFuture<'_, String>;

    /// What was put there, or `None` when nothing was. It may be larger than `bytes_max`, and is
    /// not read then.
    fn take_back(&self, key: ObjectKey, bytes_max: u64) -> StoreFuture<'_, Option<DirectBody>>;
}

/// What a client put, as it was put.
pub struct DirectBody {
    /// Its `Content-Encoding`, if the client sent one.
    pub encoding: Option<String>,
    /// Its length as it lies there.
    pub size_bytes: u64,
    /// Its bytes in order, as they come.
    pub pieces: BoxStream<'static, Result<Bytes, StoreError>>,
}

impl fmt::Debug for DirectBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectBody")
            .field("encoding", &self.encoding)
            .field("size_bytes", &self.size_bytes)
            .finish_non_exhaustive()
    }
}
