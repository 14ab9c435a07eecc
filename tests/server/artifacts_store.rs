//! A store that fails on demand, a converter that does as it is told, and artifacts over both.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use unhex::artifacts::record::Provenance;
use unhex::artifacts::store::{
    BlobForm, GetLimit, Glance, ListQuery, LocalFile, NewBlob, ObjectEntry, ObjectKey, ObjectStore,
    Staging, StoreError, StoreFuture, StoredBlob,
};
use unhex::artifacts::{
    ArtifactKind, ArtifactLimits, Artifacts, ArtifactsParts, Clock, ContentEncoding, ContentHash,
    IngestError, Ingested, Origin, Target, Upload, Upstreams,
};
use unhex::conversion::{
    ConversionResult, ConversionSource, ConversionSources, Convert, Converted,
};
use unhex::limits::Limits;
use unhex::metrics::Metrics;
use unhex_build_id::{BuildId, Identity};
use unhex_symbols::quality::Quality;

use crate::artifacts_backends::Backend;

/// What is being asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Put,
    PutFile,
    Get,
    Open,
    Glance,
    List,
    Delete,
}

/// Decides, before the store does anything, whether it fails.
type Hook = dyn Fn(Operation, String) -> BoxFuture<'static, Result<(), StoreError>> + Send + Sync;

/// A store behind a hook.
pub struct FaultyStore {
    store: Arc<dyn ObjectStore>,
    hook: Mutex<Arc<Hook>>,
}

impl FaultyStore {
    pub fn over(store: Arc<dyn ObjectStore>) -> Arc<Self> {
        let hook: Arc<Hook> = Arc::new(|_, _| async { Ok(()) }.boxed());
        Arc::new(Self {
            store,
            hook: Mutex::new(hook),
        })
    }

    /// From now on asks `hook`.
    pub fn set(
        &self,
        hook: impl Fn(Operation, String) -> BoxFuture<'static, Result<(), StoreError>>
        + Send
        + Sync
        + 'static,
    ) {
        *self.hook.lock() = Arc::new(hook);
    }

    /// From now on fails where `fails` says so.
    pub fn fail(
        &self,
        kind: std::io::ErrorKind,
        fails: impl Fn(Operation, &str) -> bool + Send + Sync + 'static,
    ) {
        self.set(move |operation, key| {
            let failed = fails(operation, &key);
            async move {
                if failed {
                    return Err(StoreError::from_io(
                        "doing as the test says with",
                        &key,
                        kind.into(),
                    ));
                }
                Ok(())
            }
            .boxed()
        });
    }

    /// From now on works.
    pub fn mend(&self) {
        self.set(|_, _| async { Ok(()) }.boxed());
    }

    fn ask<'a, T: 'a>(
        &'a self,
        operation: Operation,
        key: &str,
        then: impl FnOnce(&'a dyn ObjectStore) -> StoreFuture<'a, T> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        let hook = Arc::clone(&self.hook.lock());
        let asked = hook(operation, key.to_owned());
        async move {
            asked.await?;
            then(&*self.store).await
        }
        .boxed()
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}

impl ObjectStore for FaultyStore {
    fn put(&self, key: ObjectKey, bytes: Bytes) -> StoreFuture<'_, ()> {
        let name = key.to_string();
        self.ask(Operation::Put, &name, |store| store.put(key, bytes))
    }

    fn put_file(&self, key: ObjectKey, blob: NewBlob) -> StoreFuture<'_, BlobForm> {
        let name = key.to_string();
        self.ask(Operation::PutFile, &name, move |store| {
            store.put_file(key, blob)
        })
    }

    fn get(&self, key: ObjectKey, limit: GetLimit) -> StoreFuture<'_, Option<Bytes>> {
        let name = key.to_string();
        self.ask(Operation::Get, &name, move |store| store.get(key, limit))
    }

    fn open(&self, blob: StoredBlob) -> StoreFuture<'_, Option<LocalFile>> {
        let name = blob.key.to_string();
        self.ask(Operation::Open, &name, |store| store.open(blob))
    }

    fn glance(&self, blob: StoredBlob) -> StoreFuture<'_, Glance> {
        let name = blob.key.to_string();
        self.ask(Operation::Glance, &name, |store| store.glance(blob))
    }

    fn list(&self, query: ListQuery) -> StoreFuture<'_, Vec<ObjectEntry>> {
        let name = query.prefix.clone();
        self.ask(Operation::List, &name, |store| store.list(query))
    }

    fn list_folders(&self, query: ListQuery) -> StoreFuture<'_, Vec<String>> {
        let name = query.prefix.clone();
        self.ask(Operation::List, &name, |store| store.list_folders(query))
    }

    fn delete(&self, key: ObjectKey) -> StoreFuture<'_, ()> {
        let name = key.to_string();
        self.ask(Operation::Delete, &name, |store| store.delete(key))
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        self.store.check()
    }

    fn abort_unfinished(&self, before: SystemTime) -> StoreFuture<'_, u64> {
        self.store.abort_unfinished(before)
    }

    fn staging(&self) -> &Staging {
        self.store.staging()
    }
}

/// What the converter does next.
pub type Script = dyn Fn(&ConversionSources) -> BoxFuture<'static, ConversionResult> + Send + Sync;

/// A converter whose index is the list of its sources' hashes.
pub struct ScriptedConverter {
    pub version: AtomicU32,
    pub runs: AtomicUsize,
    script: Mutex<Arc<Script>>,
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the result of a conversion that went well"
)]
/// The facts of an index that [`ScriptedConverter`] makes.
pub fn converted() -> ConversionResult {
    Ok(Ok(Converted {
        quality: Quality::DwarfLines,
        functions: 2,
        lines: 3,
        units_failed: 0,
        needs_supplement: None,
        converter_version: 1,
        size_bytes: 0,
    }))
}

impl ScriptedConverter {
    pub fn new() -> Arc<Self> {
        let script: Arc<Script> = Arc::new(|_| async { converted() }.boxed());
        Arc::new(Self {
            version: AtomicU32::new(1),
            runs: AtomicUsize::new(0),
            script: Mutex::new(script),
        })
    }

    pub fn set(
        &self,
        script: impl Fn(&ConversionSources) -> BoxFuture<'static, ConversionResult>
        + Send
        + Sync
        + 'static,
    ) {
        *self.script.lock() = Arc::new(script);
    }

    pub fn answer(&self, result: ConversionResult) {
        self.set(move |_| {
            let result = result.clone();
            async move { result }.boxed()
        });
    }

    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for ScriptedConverter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptedConverter")
    }
}

impl Convert for ScriptedConverter {
    fn version(&self) -> u32 {
        self.version.load(Ordering::SeqCst)
    }

    fn convert<'a>(
        &'a self,
        sources: &'a ConversionSources,
        output: &'a Path,
    ) -> BoxFuture<'a, ConversionResult> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let script = Arc::clone(&self.script.lock());
        let answered = script(sources);
        // Where the files lie is nobody's business.
        let hash = |file: &Option<ConversionSource>| file.as_ref().map(|file| file.sha256);
        let index = format!(
            "{} debuginfo: {:?}, executable: {:?}, supplement: {:?}, dwp: {:?}",
            self.version(),
            hash(&sources.debuginfo),
            hash(&sources.executable),
            hash(&sources.supplement),
            hash(&sources.dwp),
        );
        async move {
            let mut result = answered.await;
            if let Ok(Ok(converted)) = &mut result {
                std::fs::write(output, &index).unwrap();
                converted.size_bytes = index.len().try_into().unwrap();
            }
            result
        }
        .boxed()
    }
}

/// An implementation of the object store, and what stands over it.
pub struct Room {
    backend: Box<dyn Backend>,
    /// What the artifacts use.
    pub store: Arc<FaultyStore>,
    pub converter: Arc<ScriptedConverter>,
    pub artifacts: Artifacts,
    /// Seconds that the clock is ahead of the machine's.
    pub ahead: Arc<AtomicU64>,
}

impl Room {
    pub fn over(backend: impl Backend + 'static) -> Self {
        let store = FaultyStore::over(backend.store());
        let converter = ScriptedConverter::new();
        let ahead = Arc::new(AtomicU64::new(0));
        let artifacts = artifacts(&store, &converter, &ahead);
        Self {
            backend: Box::new(backend),
            store,
            converter,
            artifacts,
            ahead,
        }
    }

    /// A second server over the same store, with caches of its own.
    pub fn replica(&self) -> Artifacts {
        artifacts(&self.store, &self.converter, &self.ahead)
    }

    /// The store without the hook.
    pub fn plain_store(&self) -> Arc<dyn ObjectStore> {
        self.backend.store()
    }

    /// The keys of build IDs that have this in them, whatever the hook says.
    pub async fn keys(&self, part: &str) -> Vec<ObjectKey> {
        let listed = self.plain_store().list_all("builds/".to_owned()).await;
        let keys = listed.unwrap().into_iter().map(|entry| entry.key);
        keys.filter(|key| key.as_str().contains(part)).collect()
    }

    /// The key of the one blob that was put with these bytes.
    pub async fn blob_of(&self, bytes: &[u8]) -> ObjectKey {
        let keys = self
            .keys(&format!("/blob/{}.", ContentHash::of(bytes)))
            .await;
        let [key] = &keys[..] else {
            panic!("not one blob: {keys:?}");
        };
        key.clone()
    }

    /// Whether files are fetched from afar before they can be read.
    pub fn fetches(&self) -> bool {
        self.backend.fetches()
    }

    /// Lets an object be other bytes, or none.
    pub async fn overwrite(&self, key: &ObjectKey, bytes: Option<&[u8]>) {
        self.backend.overwrite(key, bytes).await;
    }

    /// The files that are on their way in.
    pub fn staged(&self) -> usize {
        let staging = self.store.staging().folder().to_owned();
        std::fs::read_dir(staging).unwrap().count()
    }

    pub fn advance(&self, by: Duration) {
        self.ahead.fetch_add(by.as_secs(), Ordering::SeqCst);
    }
}

fn artifacts(
    store: &Arc<FaultyStore>,
    converter: &Arc<ScriptedConverter>,
    ahead: &Arc<AtomicU64>,
) -> Artifacts {
    let ahead = Arc::clone(ahead);
    Artifacts::new(ArtifactsParts {
        store: Arc::clone(store) as Arc<dyn ObjectStore>,
        converter: Arc::clone(converter) as Arc<dyn Convert>,
        clock: Clock::new(move || {
            SystemTime::now() + Duration::from_secs(ahead.load(Ordering::SeqCst))
        }),
        limits: ArtifactLimits::from(&Limits::default()),
        tasks: TaskTracker::new(),
        stopping: CancellationToken::new(),
        in_place: None,
        upstreams: Upstreams::none(),
        metrics: Arc::new(Metrics::new()),
    })
}

/// Uploads a file under a build ID.
pub async fn upload(
    artifacts: &Artifacts,
    (id, kind): (&str, ArtifactKind),
    bytes: &[u8],
) -> Result<Ingested, IngestError> {
    let mut receiver = artifacts.receive(ContentEncoding::Identity);
    receiver.write(Bytes::copy_from_slice(bytes)).await?;
    let received = receiver.finish().await?;
    let identity = Identity::Gnu(id.parse().unwrap());
    let upload = Upload {
        target: Target::Named { identity, kind },
        origin: Origin::Upload,
        provenance: Provenance::default(),
    };
    artifacts.ingest(received, upload).await
}

/// The bytes of a file, if there is one.
pub async fn download(artifacts: &Artifacts, id: &str, kind: ArtifactKind) -> Option<Vec<u8>> {
    let id: BuildId = id.parse().unwrap();
    let artifact = artifacts.locate(&id, kind).await.unwrap()?;
    Some(std::fs::read(artifact.path).unwrap())
}

/// Asks until there is an answer, within the deadline of tests.
pub async fn until<T, F: Future<Output = Option<T>>>(mut ask: impl FnMut() -> F) -> T {
    let answered = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::server::DEADLINE, answered)
        .await
        .expect("an answer before the deadline")
}
