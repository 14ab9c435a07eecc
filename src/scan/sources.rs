//! Source files of scanned binaries: a path is served only if the binary names it and it lies under a
//! scanned path, or in an archive there.
//!
//! What a binary names, its symbol index says: DWARF is read by the converter's child alone.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use unhex_build_id::BuildId;
use unhex_symbols::index::{NameBuffer, SourceFileId, SymbolIndex};

use super::Inner;
use super::entry::{ScannedFile, path_hash};
use super::folder::Key;
use super::members::{Wanted, Which};
use super::open::{blocking, whole_seconds};
use super::roots::open_within;
use super::sight::Sight;
use crate::artifacts::{LocateError, Source, canonical_source_path};

/// Numbers of paths that are kept of binaries that were asked about lately, 8 bytes each: the largest
/// programs name 100,000.
const NAMES_KEPT_MAX: u64 = 4 << 20;

/// The source files that binaries name.
#[derive(Debug)]
pub(super) struct SourceNames(moka::sync::Cache<Key, Arc<HashSet<u64>>>);

impl Default for SourceNames {
    fn default() -> Self {
        let weigh = |_: &Key, names: &Arc<HashSet<u64>>| {
            u32::try_from(names.len())
                .unwrap_or(u32::MAX)
                .saturating_add(8)
        };
        Self(
            moka::sync::Cache::builder()
                .weigher(weigh)
                .max_capacity(NAMES_KEPT_MAX)
                .build(),
        )
    }
}

/// Where a source may be.
enum Place {
    Disk(File),
    Archive(Arc<ScannedFile>),
}

impl Inner {
    /// The source file at a canonical path, if the binary of this build ID names it.
    pub(super) async fn source(
        self: &Arc<Self>,
        id: &BuildId,
        path: &str,
    ) -> Result<Option<Source>, LocateError> {
        let sight = self.sight();
        let Some(plan) = self.plan(id) else {
            return self.absent(&sight).await;
        };
        // A path that nothing scanned has need not be looked for by anybody, named or not.
        let is_packed = !self.archives_with(path).is_empty();
        if !is_packed && !sight.roots.have(Path::new(path)) {
            return self.absent(&sight).await;
        }
        if !self.is_named(plan.key, id, path).await? {
            return Ok(None);
        }
        for place in self.places(&sight, path).await? {
            let found = match place {
                Place::Disk(file) => {
                    let modified = file.metadata().and_then(|metadata| metadata.modified());
                    Some((file, modified.unwrap_or(SystemTime::UNIX_EPOCH)))
                }
                Place::Archive(archive) => {
                    let modified = archive.stamp.modified();
                    let member = self.members.unpacked(wanted(&archive, path)).await?;
                    member.map(|(file, _kept)| (file, modified))
                }
            };
            let Some((file, modified)) = found else {
                continue;
            };
            let bytes_max = self.source_bytes_max;
            let bytes = blocking(move || read(file, bytes_max)).await?;
            return Ok(Some(Source {
                bytes: bytes.into(),
                path: path.to_owned(),
                modified: whole_seconds(modified),
            }));
        }
        self.absent(&sight).await
    }

    fn archives_with(&self, path: &str) -> Vec<Arc<ScannedFile>> {
        self.catalogue.archives_with(path_hash(path.as_bytes()))
    }

    /// Where a file of that path may be: on disk first.
    async fn places(&self, sight: &Arc<Sight>, path: &str) -> Result<Vec<Place>, LocateError> {
        let (sight, on_disk) = (Arc::clone(sight), path.to_owned());
        let file = blocking(move || open_within(&sight.roots, Path::new(&on_disk))).await?;
        let archives = self.archives_with(path);
        let on_disk = file.map(Place::Disk).into_iter();
        Ok(on_disk
            .chain(archives.into_iter().map(Place::Archive))
            .collect())
    }

    async fn is_named(
        self: &Arc<Self>,
        key: Key,
        id: &BuildId,
        path: &str,
    ) -> Result<bool, LocateError> {
        let names = if let Some(names) = self.source_names.0.get(&key) {
            names
        } else {
            self.names_now(key, id).await?
        };
        Ok(names.contains(&path_hash(path.as_bytes())))
    }

    /// What a binary names, after a conversion if there was none.
    async fn names_now(
        self: &Arc<Self>,
        key: Key,
        id: &BuildId,
    ) -> Result<Arc<HashSet<u64>>, LocateError> {
        if let Some(names) = self.read_names(key).await? {
            return Ok(names);
        }
        let plan = self.plan(id).filter(|plan| plan.key == key);
        let Some(plan) = plan else {
            // It changed this very moment, and names what it names now.
            return Ok(Arc::default());
        };
        let converted = self.begin_conversion(&plan).await;
        let cut = || LocateError::Converter {
            detail: "the conversion was cut off".to_owned(),
        };
        converted.ok_or_else(cut)??;
        Ok(self.read_names(key).await?.unwrap_or_default())
    }

    /// How many files the index of that name names.
    pub(super) async fn names_of(self: &Arc<Self>, key: Key) -> Result<u64, LocateError> {
        let names = self.read_names(key).await?.unwrap_or_default();
        Ok(u64::try_from(names.len()).unwrap_or(u64::MAX))
    }

    async fn read_names(
        self: &Arc<Self>,
        key: Key,
    ) -> Result<Option<Arc<HashSet<u64>>>, LocateError> {
        if let Some(names) = self.source_names.0.get(&key) {
            return Ok(Some(names));
        }
        let inner = Arc::clone(self);
        let names = blocking(move || {
            let found = inner.indexes.folder.find(&key)?;
            found.map(|(file, _kept)| names_in(file)).transpose()
        });
        let names = names.await?.map(Arc::new);
        if let Some(names) = &names {
            self.source_names.0.insert(key, Arc::clone(names));
        }
        Ok(names)
    }
}

/// The paths that an index names, as numbers.
fn names_in(mut file: File) -> io::Result<HashSet<u64>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let index = SymbolIndex::parse(bytes).map_err(io::Error::other)?;
    let files = index.facts().map_err(io::Error::other)?.files;
    let mut buffer = NameBuffer::default();
    let mut names = HashSet::new();
    for file in 0..files {
        let path = index.path(SourceFileId(file), &mut buffer);
        // One that is damaged is named by nobody.
        let path = path.ok().and_then(canonical_source_path);
        names.extend(path.map(|path| path_hash(path.as_bytes())));
    }
    Ok(names)
}

fn wanted(archive: &Arc<ScannedFile>, path: &str) -> Wanted {
    use sha2::{Digest as _, Sha256};
    let mut hash = Sha256::new();
    for found in archive.found().take(1) {
        hash.update(found.tag());
    }
    hash.update(archive.path.as_os_str().as_encoded_bytes());
    hash.update(format!("{:?}", archive.stamp));
    hash.update([0]);
    hash.update(path);
    Wanted {
        archive: Arc::clone(archive),
        which: Which::At(path.to_owned()),
        key: hash.finalize().into(),
    }
}

fn read(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        let detail = format!("a source of more than {bytes_max} bytes (--sources-file-bytes-max)");
        return Err(io::Error::other(detail));
    }
    Ok(bytes)
}
