//! A folder as an object store whose PUT is durable: `object_store`'s own does not sync.
//!
//! Bytes are written to a file in a staging folder of the same file system and synced; the file is renamed to its place; then the folder that it is in is
//! synced, and those above it up to the root, whose entry for a new folder would be lost otherwise. A folder that was
//! synced before costs next to nothing. What a process that died left in staging is removed when the folder is opened an hour later; nothing lists it.
//! A folder whose last file is deleted goes too, so that listing costs what there is, not what there ever was.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use super::failure::OpenError;

/// Where files lie until they are whole. No key of the table begins so.
const STAGING: &str = ".staging";

/// How old a file in staging is when no writer can still be at work on it.
const STAGED_SECONDS_MAX: u64 = 3_600;

/// How often a folder is made again that somebody removes, as its last file was deleted, before a file is renamed into it.
const RENAMES_MAX: u32 = 16;

/// Deletions that run at once.
const DELETIONS_AT_ONCE: usize = 8;

#[derive(Debug)]
pub(super) struct DurableFolder {
    inner: LocalFileSystem,
    root: Arc<Path>,
}

impl std::fmt::Display for DurableFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "folder {}", self.root.display())
    }
}

impl DurableFolder {
    pub(super) fn open(path: &Path) -> std::result::Result<Self, OpenError> {
        let failed = |source| OpenError::Folder {
            path: path.to_owned(),
            source,
        };
        fs::create_dir_all(path).map_err(failed)?;
        let root = path.canonicalize().map_err(failed)?;
        let staging = root.join(STAGING);
        fs::create_dir_all(&staging).map_err(failed)?;
        sync(&root).map_err(failed)?;
        if let Some(above) = root.parent() {
            sync(above).map_err(failed)?;
        }
        forget_abandoned(&staging).map_err(failed)?;
        let inner = LocalFileSystem::new_with_prefix(&root)
            .map_err(|error| failed(io::Error::other(error)))?;
        Ok(Self {
            inner,
            root: root.into(),
        })
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let root = Arc::clone(&self.root);
        tokio::task::spawn_blocking(move || work(&root)).await?
    }
}

/// Removes what writers left that died.
fn forget_abandoned(staging: &Path) -> io::Result<()> {
    for entry in fs::read_dir(staging)? {
        let path = entry?.path();
        let age = fs::metadata(&path).and_then(|file| file.modified());
        let age = age.ok().and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age > Duration::from_secs(STAGED_SECONDS_MAX)) {
            // Another process may do the same.
            let _gone = fs::remove_file(&path);
        }
    }
    Ok(())
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A file in staging, which is removed unless it was renamed.
struct Staged(PathBuf);

impl Drop for Staged {
    fn drop(&mut self) {
        // It is not there any more when all went well.
        let _gone = fs::remove_file(&self.0);
    }
}

impl Staged {
    fn write(root: &Path, payload: &PutPayload) -> io::Result<Self> {
        let name = format!("{:032x}", rand::random::<u128>());
        let path = root.join(STAGING).join(name);
        let create = || {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).open(&path)
        };
        let mut file = match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(root.join(STAGING))?;
                create()?
            }
            file => file?,
        };
        let staged = Self(path.clone());
        for piece in payload {
            file.write_all(piece)?;
        }
        file.sync_all()?;
        Ok(staged)
    }

    /// Gives it its name and makes that durable.
    fn publish(self, root: &Path, target: &Path, mode: &PutMode) -> io::Result<()> {
        let folder = target.parent().unwrap_or(root);
        let mut left = RENAMES_MAX;
        loop {
            fs::create_dir_all(folder)?;
            let placed = match mode {
                PutMode::Create => fs::hard_link(&self.0, target),
                _ => fs::rename(&self.0, target),
            };
            match placed {
                Err(error) if error.kind() == io::ErrorKind::NotFound && left > 0 => left -= 1,
                placed => break placed?,
            }
        }
        let above = folder.ancestors();
        for folder in above.take_while(|folder| folder.starts_with(root)) {
            match sync(folder) {
                // The file was deleted again, and its folder with it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                synced => synced?,
            }
        }
        Ok(())
    }
}

fn put(root: &Path, location: &Key, payload: &PutPayload, mode: &PutMode) -> Result<PutResult> {
    let target = root.join(location.as_ref());
    let placed = Staged::write(root, payload).and_then(|file| file.publish(root, &target, mode));
    match placed {
        Ok(()) => Ok(PutResult {
            e_tag: None,
            version: None,
        }),
        Err(source) if source.kind() == io::ErrorKind::AlreadyExists => {
            Err(object_store::Error::AlreadyExists {
                path: location.to_string(),
                source: Box::new(source),
            })
        }
        Err(source) => Err(failed(location, source)),
    }
}

/// Removes a file, and the folders that it leaves empty, but those of the table.
fn delete(root: &Path, location: &Key) -> Result<()> {
    let target = root.join(location.as_ref());
    fs::remove_file(&target).map_err(|source| failed(location, source))?;
    let above = target.ancestors().skip(1);
    let is_inside = |folder: &&Path| folder.parent().is_some_and(|parent| parent != root);
    let mut above = above.take_while(|folder| *folder != root);
    // Not empty, mostly.
    while above
        .next()
        .filter(is_inside)
        .is_some_and(|folder| fs::remove_dir(folder).is_ok())
    {}
    Ok(())
}

fn failed(location: &Key, source: io::Error) -> object_store::Error {
    if source.kind() == io::ErrorKind::NotFound {
        return object_store::Error::NotFound {
            path: location.to_string(),
            source: Box::new(source),
        };
    }
    object_store::Error::Generic {
        store: "folder",
        source: Box::new(source),
    }
}

fn is_staged(location: &Key) -> bool {
    location.prefix_matches(&Key::from(STAGING))
}

#[async_trait]
impl ObjectStore for DurableFolder {
    async fn put_opts(
        &self,
        location: &Key,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        if matches!(opts.mode, PutMode::Update(_)) {
            return Err(object_store::Error::NotImplemented {
                operation: "an update on condition".to_owned(),
                implementer: self.to_string(),
            });
        }
        let location = location.clone();
        self.blocking(move |root| put(root, &location, &payload, &opts.mode))
            .await
    }

    /// Is not durable: only the export writes so, which can be made again.
    async fn put_multipart_opts(
        &self,
        location: &Key,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Key, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Key, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Key>>,
    ) -> BoxStream<'static, Result<Key>> {
        let root = Arc::clone(&self.root);
        let deleting = locations.map(move |location| {
            let root = Arc::clone(&root);
            async move {
                let location = location?;
                tokio::task::spawn_blocking(move || delete(&root, &location).map(|()| location))
                    .await?
            }
        });
        deleting.buffered(DELETIONS_AT_ONCE).boxed()
    }

    fn list(&self, prefix: Option<&Key>) -> BoxStream<'static, Result<ObjectMeta>> {
        in_order(self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Key>,
        offset: &Key,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        in_order(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Key>) -> Result<ListResult> {
        let mut listed = self.inner.list_with_delimiter(prefix).await?;
        listed.common_prefixes.retain(|folder| !is_staged(folder));
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Key, to: &Key, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Key, to: &Key, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

/// What is listed in the order of keys, as a bucket lists it, without what is staged.
fn in_order(
    listing: BoxStream<'static, Result<ObjectMeta>>,
) -> BoxStream<'static, Result<ObjectMeta>> {
    let sorted = async move {
        let mut all: Vec<ObjectMeta> = listing.try_collect().await?;
        all.retain(|meta| !is_staged(&meta.location));
        all.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        Ok::<_, object_store::Error>(stream::iter(all).map(Ok))
    };
    stream::once(sorted).try_flatten().boxed()
}
