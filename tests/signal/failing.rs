//! A local store that fails when it is told to.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use parking_lot::Mutex;
use unhex::artifacts::store::{
    BlobForm, GetLimit, ListQuery, LocalFile, LocalStore, NewBlob, ObjectEntry, ObjectKey,
    ObjectStore, Staging, StoreError, StoreFuture, StoredBlob,
};

/// What is being asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Put,
    Get,
    List,
    Delete,
}

type Fails = dyn Fn(Operation, &str) -> bool + Send + Sync;

/// A local store that fails when it is told to.
pub struct FailingStore {
    store: LocalStore,
    fails: Mutex<Option<(ErrorKind, Arc<Fails>)>>,
}

impl FailingStore {
    pub fn open(folder: &Path) -> Arc<Self> {
        Arc::new(Self {
            store: LocalStore::open(folder).unwrap(),
            fails: Mutex::default(),
        })
    }

    /// From now on fails where `fails` says so.
    pub fn fail(
        &self,
        kind: ErrorKind,
        fails: impl Fn(Operation, &str) -> bool + Send + Sync + 'static,
    ) {
        *self.fails.lock() = Some((kind, Arc::new(fails)));
    }

    /// From now on works.
    pub fn mend(&self) {
        *self.fails.lock() = None;
    }

    fn ask<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        key: &str,
        then: impl FnOnce(&'a LocalStore) -> StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        match &*self.fails.lock() {
            Some((kind, fails)) if fails(operation, key) => {
                let error = StoreError::from_io("asking for", &key, (*kind).into());
                std::future::ready(Err(error)).boxed()
            }
            _ => then(&self.store),
        }
    }
}

impl fmt::Debug for FailingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FailingStore")
    }
}

impl ObjectStore for FailingStore {
    fn put(&self, key: ObjectKey, bytes: Bytes) -> StoreFuture<'_, ()> {
        let name = key.to_string();
        self.ask(Operation::Put, &name, |store| store.put(key, bytes))
    }

    fn put_file(&self, key: ObjectKey, blob: NewBlob) -> StoreFuture<'_, BlobForm> {
        self.store.put_file(key, blob)
    }

    fn get(&self, key: ObjectKey, limit: GetLimit) -> StoreFuture<'_, Option<Bytes>> {
        let name = key.to_string();
        self.ask(Operation::Get, &name, |store| store.get(key, limit))
    }

    fn open(&self, blob: StoredBlob) -> StoreFuture<'_, Option<LocalFile>> {
        self.store.open(blob)
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

    fn staging(&self) -> &Staging {
        self.store.staging()
    }
}
