//! A store that counts what is read of it, and that has faults: it stops after some changes, as if whoever asks had died, or fails once.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use object_store::path::Path as Key;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// What a stopped store does with the change that it stops at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// It does not do it.
    Fails,
    /// It does it, and the answer is lost.
    IsLost,
}

/// See above.
#[derive(Debug)]
pub(crate) struct Watched {
    inner: Arc<dyn ObjectStore>,
    fault: Fault,
    changes: AtomicI64,
    operations: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// After so many changes nothing is done any more.
    Stop(i64, Last),
    /// The operation with this number fails, whatever it is.
    Once(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Reads,
    Changes,
}

impl Watched {
    /// One without faults.
    pub(crate) fn new(inner: Arc<dyn ObjectStore>) -> Arc<Self> {
        Self::with(inner, Fault::None)
    }

    /// One that stops after so many changes. Between two changes it does not matter when somebody dies.
    pub(crate) fn stopping(inner: Arc<dyn ObjectStore>, after: i64, last: Last) -> Arc<Self> {
        Self::with(inner, Fault::Stop(after, last))
    }

    /// One of whose operations one fails, the first being 0.
    pub(crate) fn failing_once(inner: Arc<dyn ObjectStore>, at: u64) -> Arc<Self> {
        Self::with(inner, Fault::Once(at))
    }

    fn with(inner: Arc<dyn ObjectStore>, fault: Fault) -> Arc<Self> {
        Arc::new(Self {
            inner,
            fault,
            changes: AtomicI64::new(0),
            operations: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
        })
    }

    /// Operations so far.
    pub(crate) fn operations(&self) -> u64 {
        self.operations.load(Ordering::SeqCst)
    }

    /// Requests that read, and bytes that they got, since this was asked the last time.
    pub(crate) fn take_reads(&self) -> (u64, u64) {
        let requests = self.reads.swap(0, Ordering::SeqCst);
        (requests, self.read_bytes.swap(0, Ordering::SeqCst))
    }

    /// Whether the operation is to be done, and whether its answer is to be given.
    fn begin(&self, operation: Operation) -> (bool, bool) {
        let number = self.operations.fetch_add(1, Ordering::SeqCst);
        match self.fault {
            Fault::None => (true, true),
            Fault::Once(at) => (number != at, number != at),
            Fault::Stop(after, last) => {
                let change = i64::from(operation == Operation::Changes);
                let before = self.changes.fetch_add(change, Ordering::SeqCst);
                let is_alive = before + change <= after;
                let is_last = change == 1 && before == after && last == Last::IsLost;
                (is_alive || is_last, is_alive)
            }
        }
    }

    async fn one<T>(
        &self,
        operation: Operation,
        doing: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let (is_done, is_answered) = self.begin(operation);
        let result = if is_done { doing.await } else { Err(stopped()) };
        if is_answered { result } else { Err(stopped()) }
    }

    fn read(&self, bytes: u64) {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.read_bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    fn listed(
        &self,
        listing: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.begin(Operation::Reads) {
            (true, true) => listing,
            _ => stream::once(async { Err(stopped()) }).boxed(),
        }
    }
}

fn stopped() -> Error {
    Error::Generic {
        store: "watched",
        source: "stopped".into(),
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "watched {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Watched {
    async fn put_opts(
        &self,
        key: &Key,
        bytes: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.one(Operation::Changes, self.inner.put_opts(key, bytes, options))
            .await
    }

    async fn put_multipart_opts(
        &self,
        key: &Key,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.one(
            Operation::Changes,
            self.inner.put_multipart_opts(key, options),
        )
        .await
    }

    async fn get_opts(&self, key: &Key, options: GetOptions) -> Result<GetResult> {
        let got = self
            .one(Operation::Reads, self.inner.get_opts(key, options))
            .await?;
        self.read(got.range.end - got.range.start);
        Ok(got)
    }

    async fn get_ranges(&self, key: &Key, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let got = self
            .one(Operation::Reads, self.inner.get_ranges(key, ranges))
            .await?;
        self.read(got.iter().map(|bytes| bytes.len() as u64).sum());
        Ok(got)
    }

    fn delete_stream(
        &self,
        keys: BoxStream<'static, Result<Key>>,
    ) -> BoxStream<'static, Result<Key>> {
        match self.begin(Operation::Changes) {
            (true, true) => self.inner.delete_stream(keys),
            (true, false) => {
                let deleted = self.inner.delete_stream(keys);
                deleted.map(|_| Err(stopped())).boxed()
            }
            _ => stream::once(async { Err(stopped()) }).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Key>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Key>,
        after: &Key,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(self.inner.list_with_offset(prefix, after))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Key>) -> Result<ListResult> {
        self.one(Operation::Reads, self.inner.list_with_delimiter(prefix))
            .await
    }

    async fn copy_opts(&self, from: &Key, to: &Key, options: CopyOptions) -> Result<()> {
        self.one(Operation::Changes, self.inner.copy_opts(from, to, options))
            .await
    }
}
