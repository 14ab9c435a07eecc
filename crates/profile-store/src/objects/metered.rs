//! Tells an observer of each request to a store: what, how it ended, how many bytes, how long.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt as _};
use object_store::path::Path as Key;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

/// Who is told.
pub type Observer = Arc<dyn Fn(&Request) + Send + Sync>;

/// What was asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// An object written.
    Put,
    /// An object or a range of it read.
    Get,
    /// An object removed.
    Delete,
    /// A page or more of names.
    List,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Put, Self::Get, Self::Delete, Self::List];

    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Delete => "delete",
            Self::List => "list",
        }
    }
}

/// How it ended, after all attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// As it should.
    Done,
    /// The object is not there.
    Absent,
    /// Neither.
    Failed,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Done, Self::Absent, Self::Failed];

    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Absent => "absent",
            Self::Failed => "failed",
        }
    }

    fn of<T>(result: &Result<T>) -> Self {
        match result {
            Ok(_) => Self::Done,
            Err(object_store::Error::NotFound { .. }) => Self::Absent,
            Err(_) => Self::Failed,
        }
    }
}

/// A request that is over; of a LIST, the whole of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What was asked.
    pub operation: Operation,
    /// How it ended.
    pub outcome: Outcome,
    /// Bytes of objects that were sent, or that are to be received.
    pub bytes: u64,
    /// From the request to its answer, without a body that is received.
    pub took: Duration,
}

pub(super) struct Metered {
    inner: Arc<dyn ObjectStore>,
    observer: Observer,
}

impl Metered {
    pub(super) fn new(inner: Arc<dyn ObjectStore>, observer: Observer) -> Self {
        Self { inner, observer }
    }

    async fn tell<T>(
        &self,
        operation: Operation,
        asking: impl Future<Output = Result<T>>,
        bytes: impl FnOnce(&T) -> u64,
    ) -> Result<T> {
        let begun = Instant::now();
        let result = asking.await;
        (self.observer)(&Request {
            operation,
            outcome: Outcome::of(&result),
            bytes: result.as_ref().map_or(0, bytes),
            took: begun.elapsed(),
        });
        result
    }

    /// The stream, and at its end what is told of it.
    fn tell_at_end(
        &self,
        listing: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (observer, begun) = (Arc::clone(&self.observer), Instant::now());
        let mut outcome = Outcome::Done;
        let mut listing = Some(listing);
        let told = futures_util::stream::poll_fn(move |context| {
            let Some(inner) = listing.as_mut() else {
                return std::task::Poll::Ready(None);
            };
            let next = std::task::ready!(inner.poll_next_unpin(context));
            match &next {
                Some(Err(_)) => outcome = Outcome::Failed,
                Some(Ok(_)) => {}
                None => {
                    listing = None;
                    observer(&Request {
                        operation: Operation::List,
                        outcome,
                        bytes: 0,
                        took: begun.elapsed(),
                    });
                }
            }
            std::task::Poll::Ready(next)
        });
        told.boxed()
    }
}

impl fmt::Debug for Metered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Display for Metered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Metered {
    async fn put_opts(
        &self,
        location: &Key,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let bytes = payload.content_length() as u64;
        let putting = self.inner.put_opts(location, payload, opts);
        self.tell(Operation::Put, putting, |_| bytes).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Key,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let beginning = self.inner.put_multipart_opts(location, opts);
        self.tell(Operation::Put, beginning, |_| 0).await
    }

    async fn get_opts(&self, location: &Key, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let getting = self.inner.get_opts(location, options);
        let length = |got: &GetResult| got.range.end.saturating_sub(got.range.start);
        let bytes = |got: &GetResult| if is_head { 0 } else { length(got) };
        self.tell(Operation::Get, getting, bytes).await
    }

    async fn get_ranges(&self, location: &Key, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let getting = self.inner.get_ranges(location, ranges);
        let bytes = |got: &Vec<Bytes>| got.iter().map(|range| range.len() as u64).sum();
        self.tell(Operation::Get, getting, bytes).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Key>>,
    ) -> BoxStream<'static, Result<Key>> {
        let observer = Arc::clone(&self.observer);
        let mut begun = Instant::now();
        let deleted = self.inner.delete_stream(locations);
        let told = deleted.inspect(move |result| {
            observer(&Request {
                operation: Operation::Delete,
                outcome: Outcome::of(result),
                bytes: 0,
                took: begun.elapsed(),
            });
            begun = Instant::now();
        });
        told.boxed()
    }

    fn list(&self, prefix: Option<&Key>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.tell_at_end(self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Key>,
        offset: &Key,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.tell_at_end(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Key>) -> Result<ListResult> {
        let listing = self.inner.list_with_delimiter(prefix);
        self.tell(Operation::List, listing, |_| 0).await
    }

    async fn copy_opts(&self, from: &Key, to: &Key, options: CopyOptions) -> Result<()> {
        let copying = self.inner.copy_opts(from, to, options);
        self.tell(Operation::Put, copying, |()| 0).await
    }

    async fn rename_opts(&self, from: &Key, to: &Key, options: RenameOptions) -> Result<()> {
        let renaming = self.inner.rename_opts(from, to, options);
        self.tell(Operation::Put, renaming, |()| 0).await
    }
}
