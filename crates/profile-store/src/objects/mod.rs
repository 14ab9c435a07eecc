//! Where the table lies: a folder or a bucket, behind one seam that knows keys and bytes and nothing of profiles.
//!
//! [`Objects`] has the operations that the table needs, each bounded in time: a PUT that is durable when it returns, a GET that tells "not there"
//! from "don't know", DELETE, and LIST. [`Objects::store`] is the same store for whoever reads Parquet by ranges. What passes by itself (throttling,
//! connections that break, gateways that restart) is tried again behind both, with pauses drawn at random, and is no error until the time is over.
//!
//! [`folder`] makes what `object_store`'s folder does durable, [`bucket`] finds its way to an S3 server, [`metered`] tells an observer of
//! each request, [`failure`] says in words what to mend.

mod bucket;
mod credentials;
mod failure;
mod folder;
mod metered;
mod s3_url;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt as _};
use object_store::path::Path as Key;
use object_store::prefix::PrefixStore;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt as _, PutPayload};

pub use bucket::{S3Addressing, S3Credentials, S3Encryption, S3Options, S3Patience};
pub use failure::{ObjectsError, OpenError};
pub use metered::{Observer, Operation, Outcome, Request};
pub use s3_url::{ParseS3UrlError, S3Url};

use failure::Failure;
use folder::DurableFolder;
use metered::Metered;

/// Bytes that a bucket gets in one request: longer objects go in parts, each with its own attempts, and appear whole at the end.
const WHOLE_BYTES_MAX: usize = 32 << 20;
/// Bytes of a part; S3 wants at least 5 MiB and at most 10,000 of them.
const PART_BYTES: usize = 16 << 20;
/// Parts that are on their way at once: they are slices of what is in memory anyway.
const PARTS_AT_ONCE: usize = 4;
/// The slowest line that a PUT or GET is waited for on, beside [`S3Patience::whole`].
const BYTES_PER_SECOND_MIN: u64 = 1 << 20;
/// The longest object that [`Objects::get`] waits for: outputs of compactions have 128 MB.
const GET_SECONDS_MAX: u64 = 300;

/// Where the table lies: a folder, or a bucket with a prefix. Clones are handles to the same.
#[derive(Clone, Debug)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    place: Place,
    whole: Duration,
}

/// What kind of store it is, for messages and for how absence is told.
#[derive(Clone, Debug)]
enum Place {
    Folder(Arc<Path>),
    Bucket(Arc<S3Url>),
    Other,
}

/// An object that LIST named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its key from the root of the table.
    pub key: String,
    /// Its length.
    pub bytes: u64,
}

impl Objects {
    /// The folder at `path`, which is created if need be.
    ///
    /// # Errors
    /// If it cannot be created or is no folder.
    pub fn folder(path: &Path) -> Result<Self, OpenError> {
        let store = DurableFolder::open(path)?;
        let place = Place::Folder(path.into());
        Ok(Self::at(Arc::new(store), place))
    }

    /// A bucket, which is looked into once.
    ///
    /// # Errors
    /// If it cannot be listed: wrong names, no credentials, no access, no server. The message says what to mend.
    pub async fn bucket(options: &S3Options) -> Result<Self, OpenError> {
        let store = bucket::connect(options).await?;
        let prefix = options.url.prefix().trim_end_matches('/');
        let store: Arc<dyn ObjectStore> = if prefix.is_empty() {
            Arc::new(store)
        } else {
            Arc::new(PrefixStore::new(store, prefix))
        };
        let place = Place::Bucket(Arc::new(options.url.clone()));
        let objects = Self {
            whole: options.patience.whole,
            ..Self::at(store, place)
        };
        match objects.folders("").await {
            Ok(_) => Ok(objects),
            Err(error) => Err(OpenError::Bucket(error)),
        }
    }

    /// Any store: for tests, which bring faults.
    pub fn over(store: Arc<dyn ObjectStore>) -> Self {
        Self::at(store, Place::Other)
    }

    fn at(store: Arc<dyn ObjectStore>, place: Place) -> Self {
        Self {
            store,
            place,
            whole: S3Patience::default().whole,
        }
    }

    /// The same place, each of whose requests `observer` is told of, also those by [`Self::store`].
    #[must_use]
    pub fn observed(self, observer: Observer) -> Self {
        let store = Arc::new(Metered::new(self.store, observer));
        Self { store, ..self }
    }

    /// Puts an object, which is durable when this returns. What stood under the key is replaced at once.
    ///
    /// # Errors
    /// If it may not be there; then it may be there nevertheless, as after an answer that was lost.
    pub async fn put(&self, key: &str, bytes: Bytes) -> Result<(), ObjectsError> {
        let doing = self.doing("writing", key);
        let path = doing.key()?;
        let deadline = self.deadline(bytes.len() as u64);
        let is_long = matches!(self.place, Place::Bucket(_)) && bytes.len() > WHOLE_BYTES_MAX;
        let putting = async {
            if is_long {
                self.put_in_parts(&path, &bytes).await
            } else {
                let put = self.store.put(&path, PutPayload::from_bytes(bytes.clone()));
                put.await.map(|_| ())
            }
        };
        doing.within(deadline, putting).await
    }

    async fn put_in_parts(&self, path: &Key, bytes: &Bytes) -> object_store::Result<()> {
        let mut upload = self.store.put_multipart(path).await?;
        let sent = send_parts(upload.as_mut(), bytes).await;
        if let Err(error) = sent {
            // Costs room until the bucket's rule for unfinished uploads, and counts for nothing.
            let _unfinished = upload.abort().await;
            return Err(error);
        }
        Ok(())
    }

    /// A whole object; `None` if it is definitely not there.
    ///
    /// # Errors
    /// If that is not known.
    pub async fn get(&self, key: &str) -> Result<Option<Bytes>, ObjectsError> {
        let doing = self.doing("reading", key);
        let path = doing.key()?;
        let getting = async { self.store.get(&path).await?.bytes().await };
        let got = doing.within(Duration::from_secs(GET_SECONDS_MAX), getting);
        match got.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_absence() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes an object; one that is not there is fine.
    ///
    /// # Errors
    /// If it may still be there.
    pub async fn delete(&self, key: &str) -> Result<(), ObjectsError> {
        let doing = self.doing("removing", key);
        let path = doing.key()?;
        let deadline = self.deadline(0);
        match doing.within(deadline, self.store.delete(&path)).await {
            Err(error) if !error.is_absence() => Err(error),
            _ => Ok(()),
        }
    }

    /// All objects whose key begins with `prefix` and is greater than `after`, in order of keys.
    ///
    /// Costs a request for 1,000 objects below the last `/` of the prefix.
    pub fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
    ) -> BoxStream<'_, Result<Listed, ObjectsError>> {
        let folder = prefix.rsplit_once('/').map(|(folder, _)| Key::from(folder));
        let listing = match after {
            None => self.store.list(folder.as_ref()),
            Some(after) => {
                let after = Key::from(after);
                self.store.list_with_offset(folder.as_ref(), &after)
            }
        };
        let (prefix, place) = (prefix.to_owned(), self.place.clone());
        let listed = listing.filter_map(move |listed| {
            let listed = match listed {
                Ok(meta) if meta.location.as_ref().starts_with(&prefix) => Some(Ok(Listed {
                    key: meta.location.into(),
                    bytes: meta.size,
                })),
                Ok(_) => None,
                Err(error) => {
                    let failure = Failure::new("listing", &prefix, &place.to_string());
                    Some(Err(failure.of(error)))
                }
            };
            std::future::ready(listed)
        });
        listed.boxed()
    }

    /// The names of the folders right below `prefix`, which is empty or ends in `/`: dates, or hours of one.
    ///
    /// # Errors
    /// If they are not known.
    pub async fn folders(&self, prefix: &str) -> Result<Vec<String>, ObjectsError> {
        let doing = self.doing("listing", prefix);
        let folder = prefix.strip_suffix('/').map(Key::from);
        let listing = self.store.list_with_delimiter(folder.as_ref());
        let listed = doing.within(self.deadline(0), listing).await;
        let listed = match listed {
            Err(error) if error.is_absence() => return Ok(Vec::new()),
            listed => listed?,
        };
        let names = listed.common_prefixes.iter();
        let names = names.filter_map(|path| path.filename().map(str::to_owned));
        Ok(names.collect())
    }

    /// The store, from the root of the table on: for `DataFusion` and readers of Parquet.
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store)
    }

    fn doing<'a>(&self, doing: &'static str, key: &'a str) -> Failure<'a> {
        Failure::new(doing, key, &self.place.to_string())
    }

    fn deadline(&self, bytes: u64) -> Duration {
        let moving = Duration::from_secs(bytes / BYTES_PER_SECOND_MIN);
        self.whole.saturating_add(moving)
    }
}

async fn send_parts(
    upload: &mut (dyn MultipartUpload + 'static),
    bytes: &Bytes,
) -> object_store::Result<()> {
    let starts = (0..bytes.len()).step_by(PART_BYTES);
    let parts: Vec<_> = starts
        .map(|start| {
            let end = bytes.len().min(start + PART_BYTES);
            upload.put_part(PutPayload::from_bytes(bytes.slice(start..end)))
        })
        .collect();
    let mut sent = futures_util::stream::iter(parts).buffer_unordered(PARTS_AT_ONCE);
    while let Some(part) = sent.next().await {
        part?;
    }
    drop(sent);
    upload.complete().await.map(|_| ())
}

/// As people write it in a setting.
impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Bucket(url) => url.fmt(f),
            Self::Other => f.write_str("the store"),
        }
    }
}
