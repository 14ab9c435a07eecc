//! The implementations of the object store, each of which passes every test of artifacts.
//!
//! A test is a function of a [`Room`](crate::artifacts_store::Room); [`on_every_store`] makes it run
//! once over each implementation, in a module of that name.

use std::fs;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tempfile::TempDir;
use unhex::artifacts::store::{LocalStore, ObjectKey, ObjectStore};

/// One implementation with nothing in it yet, and what people and disks do behind its back.
pub trait Backend: Send + Sync {
    /// The store.
    fn store(&self) -> Arc<dyn ObjectStore>;

    /// Lets the object at a key be other bytes, or none. Every later reader finds them, those too
    /// whose store has opened the object before.
    fn overwrite<'a>(&'a self, key: &'a ObjectKey, bytes: Option<&'a [u8]>) -> BoxFuture<'a, ()>;
}

/// Makes a module of tests for each implementation out of functions that take a room.
macro_rules! on_every_store {
    ($($test:ident),+ $(,)?) => {
        mod local {
            $(
                #[tokio::test]
                async fn $test() {
                    let backend = $crate::artifacts_backends::Local::new();
                    super::$test($crate::artifacts_store::Room::over(backend)).await;
                }
            )+
        }
    };
}

pub(crate) use on_every_store;

/// A folder.
pub struct Local {
    folder: TempDir,
    store: Arc<LocalStore>,
}

impl Local {
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let store = Arc::new(LocalStore::open(folder.path()).unwrap());
        Self { folder, store }
    }
}

impl Backend for Local {
    fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store) as Arc<dyn ObjectStore>
    }

    fn overwrite<'a>(&'a self, key: &'a ObjectKey, bytes: Option<&'a [u8]>) -> BoxFuture<'a, ()> {
        let path = key.path_below(self.folder.path());
        async move {
            fs::remove_file(&path).unwrap();
            if let Some(bytes) = bytes {
                fs::write(&path, bytes).unwrap();
            }
        }
        .boxed()
    }
}
