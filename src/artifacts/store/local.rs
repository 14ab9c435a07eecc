//! Objects as files below one folder: temporary file, fsync, link, fsync of the folder.
//!
//! `link` fails when the name exists and shows the whole file or none, also after a crash.
//! What is not found is absent only as long as the folder is the one that was opened: a disk that
//! was unmounted or a folder that was moved away is an error.

use std::fmt;
use std::fs::{self, File, FileTimes};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::FutureExt;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use super::{
    BlobForm, GetLimit, Lease, ListQuery, LocalFile, NewBlob, ObjectEntry, ObjectKey, ObjectStore,
    StagedFile, Staging, StoreError, StoreFuture, StoredBlob, Verification, blocking,
};
use crate::artifacts::fingerprint::Fingerprint;

/// How often a file is linked into a folder that somebody else removes each time: each try needs one
/// more removal of a last object, in microseconds.
const LINK_TRIES_MAX: usize = 16;

/// An object store in a folder of this machine.
#[derive(Debug)]
pub struct LocalStore {
    place: Place,
    staging: Staging,
}

/// Where the objects lie, and how to tell that they still do.
#[derive(Clone, Debug)]
struct Place {
    root: PathBuf,
    /// The staging folder of this process. Nobody else has one of that name or removes it while it
    /// is locked, so that `root` is the opened store as long as it is there.
    landmark: PathBuf,
}

impl Place {
    /// Makes sure that what was not found does not exist.
    fn confirm_absence(&self, key: &dyn fmt::Display) -> Result<(), StoreError> {
        fs::metadata(&self.landmark).map(drop).map_err(|error| {
            let landmark = self.landmark.display();
            let gone =
                format!("the folder of the store is gone or another one: {landmark}: {error}");
            StoreError::from_io("looking for", key, io::Error::other(gone))
        })
    }
}

impl LocalStore {
    /// The store in `root`, which is made when it is not there.
    ///
    /// # Errors
    /// If the folder cannot be made or written.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let failed = |error| StoreError::from_io("opening", &root.display(), error);
        fs::create_dir_all(root).map_err(failed)?;
        let root = root.canonicalize().map_err(failed)?;
        let staging = Staging::open(&root.join("staging")).map_err(failed)?;
        let landmark = staging.folder().to_owned();
        let place = Place { root, landmark };
        Ok(Self { place, staging })
    }
}

impl ObjectStore for LocalStore {
    fn put(&self, key: ObjectKey, bytes: Bytes) -> StoreFuture<'_, ()> {
        let place = self.place.clone();
        let folder = self.staging.folder().to_owned();
        blocking(move || {
            let failed = |error| StoreError::from_io("writing", &key, error);
            let mut file = StagedFile::new_in(folder).map_err(failed)?;
            file.write_all(&bytes).map_err(failed)?;
            publish(&place.root, &key, &file)
        })
        .boxed()
    }

    fn put_file(&self, key: ObjectKey, blob: NewBlob) -> StoreFuture<'_, BlobForm> {
        let place = self.place.clone();
        blocking(move || publish(&place.root, &key, &blob.staged).map(|()| BlobForm::Identity))
            .boxed()
    }

    fn get(&self, key: ObjectKey, limit: GetLimit) -> StoreFuture<'_, Option<Bytes>> {
        let place = self.place.clone();
        blocking(move || read(&place, &key, limit)).boxed()
    }

    fn open(&self, blob: StoredBlob) -> StoreFuture<'_, Option<LocalFile>> {
        if blob.form == BlobForm::Identity
            && let Some(file) = open_without_waiting(&self.place, &blob.key)
        {
            return std::future::ready(Ok(Some(file))).boxed();
        }
        let place = self.place.clone();
        blocking(move || match blob.form {
            BlobForm::Identity => open(&place, &blob.key),
            // Somebody copied a bucket into a folder.
            BlobForm::ZstdFrames(_) => {
                let source = io::Error::from(io::ErrorKind::Unsupported);
                Err(StoreError::from_io("opening frames of", &blob.key, source))
            }
        })
        .boxed()
    }

    fn list(&self, query: ListQuery) -> StoreFuture<'_, Vec<ObjectEntry>> {
        let place = self.place.clone();
        blocking(move || {
            let mut page = Page {
                place: &place,
                query: &query,
                entries: Vec::new(),
            };
            // Only folders that can hold the prefix are read.
            let top = query.prefix.rsplit_once('/').map_or("", |(top, _)| top);
            page.walk(top)?;
            Ok(page.entries)
        })
        .boxed()
    }

    fn list_folders(&self, query: ListQuery) -> StoreFuture<'_, Vec<String>> {
        let place = self.place.clone();
        blocking(move || {
            let prefix = query.prefix.trim_end_matches('/');
            let after = query.after.as_deref().unwrap_or_default();
            let folders = names_in(&place, prefix)?
                .into_iter()
                .filter_map(|name| name.strip_suffix('/').map(str::to_owned))
                .filter(|name| format!("{prefix}/{name}/").as_str() > after);
            Ok(folders.take(query.entries_max).collect())
        })
        .boxed()
    }

    fn delete(&self, key: ObjectKey) -> StoreFuture<'_, ()> {
        let place = self.place.clone();
        blocking(move || remove(&place.root, &key)).boxed()
    }

    fn staging(&self) -> &Staging {
        &self.staging
    }
}

fn publish(root: &Path, key: &ObjectKey, staged: &StagedFile) -> Result<(), StoreError> {
    let failed = |error| StoreError::from_io("publishing", key, error);
    let path = key.path_below(root);
    let folder = path.parent().unwrap_or(root);
    // The sweeper counts from now, however long the upload took.
    let now = FileTimes::new().set_modified(SystemTime::now());
    staged.as_file().set_times(now).map_err(failed)?;
    staged.as_file().sync_all().map_err(failed)?;
    link(root, staged.path(), &path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => StoreError::Exists {
            key: key.to_string(),
        },
        _ => failed(error),
    })?;
    sync_folder(folder).map_err(failed)
}

/// Links a file to its name, in folders that are made for it. One that is empty yet may be removed
/// by somebody who removes what was in it.
fn link(root: &Path, from: &Path, to: &Path) -> io::Result<()> {
    let folder = to.parent().unwrap_or(root);
    for _ in 1..LINK_TRIES_MAX {
        match make_folders(root, folder).and_then(|()| fs::hard_link(from, to)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            ended => return ended,
        }
    }
    make_folders(root, folder)?;
    fs::hard_link(from, to)
}

/// Removes a file and the folders that are empty then.
fn remove(root: &Path, key: &ObjectKey) -> Result<(), StoreError> {
    let path = key.path_below(root);
    match fs::remove_file(&path) {
        Err(error) if !is_absence(&error) => {
            return Err(StoreError::from_io("removing", key, error));
        }
        _ => {}
    }
    let folders = path.ancestors().skip(1);
    for folder in folders.take_while(|folder| *folder != root) {
        match fs::remove_dir(folder) {
            Err(error) if !is_absence(&error) => break,
            _ => {}
        }
    }
    Ok(())
}

/// Makes `folder` and those above it up to `root`, each durable in its parent.
fn make_folders(root: &Path, folder: &Path) -> io::Result<()> {
    if folder.is_dir() || folder == root {
        return Ok(());
    }
    let parent = folder.parent().unwrap_or(root);
    make_folders(root, parent)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_folder(parent),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn open(place: &Place, key: &ObjectKey) -> Result<Option<LocalFile>, StoreError> {
    let failed = |error| StoreError::from_io("opening", key, error);
    let path = key.path_below(&place.root);
    let file = match File::open(&path) {
        Err(error) if is_absence(&error) => return place.confirm_absence(key).map(|()| None),
        opened => opened.map_err(failed)?,
    };
    let fingerprint = Fingerprint::of(&file).map_err(failed)?;
    Ok(Some(LocalFile {
        file,
        path,
        size_bytes: fingerprint.size_bytes,
        fingerprint,
        verification: Verification::Wanted,
        lease: Lease::unlimited(),
    }))
}

/// A file whose folders the system has in memory, so that opening it does not wait for the disk.
fn open_without_waiting(place: &Place, key: &ObjectKey) -> Option<LocalFile> {
    let path = key.path_below(&place.root);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let opened = openat2(CWD, &path, flags, Mode::empty(), ResolveFlags::CACHED);
    // Whatever is wrong, somebody finds out who may wait.
    let file = File::from(opened.ok()?);
    let fingerprint = Fingerprint::of(&file).ok()?;
    Some(LocalFile {
        file,
        path,
        size_bytes: fingerprint.size_bytes,
        fingerprint,
        verification: Verification::Wanted,
        lease: Lease::unlimited(),
    })
}

fn read(place: &Place, key: &ObjectKey, limit: GetLimit) -> Result<Option<Bytes>, StoreError> {
    let Some(LocalFile {
        mut file,
        size_bytes,
        ..
    }) = open(place, key)?
    else {
        return Ok(None);
    };
    if size_bytes > limit.bytes_max {
        return Err(StoreError::TooLarge {
            key: key.to_string(),
            size_bytes,
            bytes_max: limit.bytes_max,
        });
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(|error| StoreError::from_io("reading", key, error))?;
    Ok(Some(bytes.into()))
}

fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The names in a folder in the byte order of keys: that of a folder has its `/`.
fn names_in(place: &Place, folder: &str) -> Result<Vec<String>, StoreError> {
    let failed = |error| StoreError::from_io("listing", &folder, error);
    let entries = match fs::read_dir(place.root.join(folder)) {
        Err(error) if is_absence(&error) => {
            return place.confirm_absence(&folder).map(|()| Vec::new());
        }
        opened => opened.map_err(failed)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let Ok(mut name) = entry.file_name().into_string() else {
            continue;
        };
        if entry.file_type().map_err(failed)?.is_dir() {
            name.push('/');
        }
        names.push(name);
    }
    names.sort_unstable();
    Ok(names)
}

/// One page of a walk through the folders.
struct Page<'a> {
    place: &'a Place,
    query: &'a ListQuery,
    entries: Vec<ObjectEntry>,
}

impl Page<'_> {
    fn walk(&mut self, folder: &str) -> Result<(), StoreError> {
        for name in names_in(self.place, folder)? {
            if self.entries.len() >= self.query.entries_max {
                break;
            }
            let key = if folder.is_empty() {
                name
            } else {
                format!("{folder}/{name}")
            };
            match key.strip_suffix('/') {
                Some(inner) if self.may_hold(&key) => self.walk(inner)?,
                Some(_) => {}
                None => self.visit(&key)?,
            }
        }
        Ok(())
    }

    /// Whether a key below `folder` (which ends in `/`) can be wanted.
    fn may_hold(&self, folder: &str) -> bool {
        let prefix = self.query.prefix.as_str();
        let after = self.query.after.as_deref().unwrap_or_default();
        (folder.starts_with(prefix) || prefix.starts_with(folder))
            && (after < folder || after.starts_with(folder))
    }

    fn visit(&mut self, key: &str) -> Result<(), StoreError> {
        let after = self.query.after.as_deref().unwrap_or_default();
        let wanted = key.starts_with(&self.query.prefix) && key > after;
        // Anything that is no key was not put by a store.
        let Some(key) = wanted.then(|| key.parse::<ObjectKey>().ok()).flatten() else {
            return Ok(());
        };
        let failed = |error| StoreError::from_io("listing", &key, error);
        let metadata = match fs::metadata(key.path_below(&self.place.root)) {
            Err(error) if is_absence(&error) => return self.place.confirm_absence(&key),
            found => found.map_err(failed)?,
        };
        let modified = metadata.modified().map_err(failed)?;
        self.entries.push(ObjectEntry {
            key,
            size_bytes: metadata.len(),
            modified,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifacts::ContentHash;

    fn key(text: &str) -> ObjectKey {
        text.parse().unwrap()
    }

    async fn store_with(keys: &[&str]) -> (tempfile::TempDir, LocalStore) {
        let root = tempfile::tempdir().unwrap();
        let store = LocalStore::open(root.path()).unwrap();
        for text in keys {
            store
                .put(key(text), Bytes::from(text.to_string()))
                .await
                .unwrap();
        }
        (root, store)
    }

    #[tokio::test]
    async fn a_folder_that_is_gone_or_another_one_is_an_error_and_never_absence() {
        let (root, store) = store_with(&["a/b"]).await;
        let away = root.path().with_extension("away");
        let limit = GetLimit { bytes_max: 10 };
        fs::rename(root.path(), &away).unwrap();
        for state in ["gone", "empty"] {
            for absent in ["a/b", "a/c"] {
                store.get(key(absent), limit).await.unwrap_err();
                let blob = StoredBlob {
                    key: key(absent),
                    form: BlobForm::Identity,
                    sha256: ContentHash::of(b""),
                    size_bytes: 0,
                };
                let opened = store.open(blob).await;
                let error = opened.unwrap_err().to_string();
                assert!(error.contains("gone or another"), "{state}: {error}");
            }
            let query = ListQuery {
                prefix: "a/".to_owned(),
                after: None,
                entries_max: 9,
            };
            store.list(query.clone()).await.unwrap_err();
            store.list_folders(query).await.unwrap_err();
            if state == "gone" {
                fs::create_dir(root.path()).unwrap();
            }
        }
        fs::remove_dir(root.path()).unwrap();
        fs::rename(&away, root.path()).unwrap();
        assert_eq!(store.get(key("a/b"), limit).await.unwrap().unwrap(), "a/b");
        assert_eq!(store.get(key("a/c"), limit).await.unwrap(), None);
    }

    #[tokio::test]
    async fn folders_of_which_everything_was_removed_are_gone() {
        let (root, store) = store_with(&["a/b/c/1", "a/b/c/2", "a/d"]).await;
        let there = |folder: &str| root.path().join(folder).exists();
        store.delete(key("a/b/c/1")).await.unwrap();
        assert!(there("a/b/c"));
        store.delete(key("a/b/c/2")).await.unwrap();
        assert!(there("a") && !there("a/b"));
        store.delete(key("a/d")).await.unwrap();
        assert!(!there("a") && root.path().exists());
        // As a crash leaves it, and before anybody removes an object there.
        fs::create_dir_all(root.path().join("a/b/c")).unwrap();
        store.delete(key("a/b/c/none")).await.unwrap();
        assert!(!there("a"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn objects_are_put_while_others_empty_their_folder() {
        let (_root, store) = store_with(&[]).await;
        let store = std::sync::Arc::new(store);
        let writers = (0..4).map(|writer| {
            let store = std::sync::Arc::clone(&store);
            tokio::spawn(async move {
                for number in 0..50 {
                    let own = key(&format!("a/b/c/{writer}-{number}"));
                    store.put(own.clone(), Bytes::from_static(b"x")).await?;
                    store.delete(own).await?;
                }
                Ok::<_, StoreError>(())
            })
        });
        for ended in futures_util::future::join_all(writers).await {
            ended.unwrap().unwrap();
        }
    }
}
