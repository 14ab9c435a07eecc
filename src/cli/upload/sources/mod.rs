//! The source files that a binary's debug information names, as one zip for its build ID.
//!
//! Only what the DWARF names is sent, and only regular files of this machine, within limits. The
//! names in the zip are those of the DWARF, since that is what debuggers ask for, wherever the
//! files lie now. The same files make the same bytes, so that a second upload is not needed.

mod names;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use tempfile::{NamedTempFile, TempPath};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::cli::binaries::Mapped;

/// Where sources are looked for, and bounds on what is sent.
#[derive(Clone, Debug)]
pub(super) struct SourceOptions {
    /// The first that fits is taken.
    pub(super) maps: Vec<SourceMap>,
    /// Real paths; when there are any, sources outside are not sent.
    pub(super) roots: Vec<PathBuf>,
    /// Largest source file: generated ones have tens of megabytes, nobody reads larger ones.
    pub(super) file_bytes_max: u64,
    /// All source files of one binary together: those of a kernel have 1.5 GB.
    pub(super) bundle_bytes_max: u64,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            maps: Vec::new(),
            roots: Vec::new(),
            file_bytes_max: 32 << 20,
            bundle_bytes_max: 2 << 30,
        }
    }
}

/// Sources that were compiled under one folder and lie under another now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceMap {
    old: String,
    new: String,
}

/// A text that is no [`SourceMap`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not OLD=NEW, two folders with = between them")]
pub(super) struct ParseSourceMapError(String);

impl FromStr for SourceMap {
    type Err = ParseSourceMapError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok(Self {
                old: old.trim_end_matches('/').to_owned(),
                new: new.trim_end_matches('/').to_owned(),
            }),
            _ => Err(ParseSourceMapError(text.to_owned())),
        }
    }
}

impl SourceMap {
    /// Where a file of the old folder lies now; `None` for files elsewhere.
    fn apply(&self, path: &str) -> Option<PathBuf> {
        let rest = path.strip_prefix(&self.old)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| format!("{}{rest}", self.new).into())
    }
}

/// The sources of one binary, in a zip that goes away with this.
#[derive(Debug)]
pub(super) struct Sources {
    /// The zip.
    pub(super) zip: TempPath,
    /// Its length.
    pub(super) size_bytes: u64,
    /// Files in it.
    pub(super) files: u64,
    left_out: LeftOut,
}

/// Files that the DWARF names and that are not in the zip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LeftOut {
    missing: u64,
    relative: u64,
    outside: u64,
    too_large: u64,
}

impl Sources {
    /// The sources of the binary at `path`.
    ///
    /// # Errors
    /// If the binary or a source cannot be read, or the temporary folder is full.
    pub(super) async fn bundle(path: &Path, options: &SourceOptions) -> anyhow::Result<Self> {
        let path = path.to_owned();
        let options = options.clone();
        let bundling = tokio::task::spawn_blocking(move || bundle(&path, &options));
        bundling.await.context("bundling was cut short")?
    }

    /// What is in it and what is not, for people.
    pub(super) fn words(&self) -> String {
        let left_out = &self.left_out;
        let mut words = vec![format!("{} source files", self.files)];
        let parts = [
            (left_out.missing, "not on this machine"),
            (
                left_out.relative,
                "named by relative paths, which debuggers cannot ask for",
            ),
            (left_out.outside, "outside the --source-root"),
            (left_out.too_large, "too large"),
        ];
        let left_out = parts.into_iter().filter(|(count, _)| *count > 0);
        words.extend(left_out.map(|(count, why)| format!("{count} {why}")));
        words.join(", ")
    }
}

fn bundle(path: &Path, options: &SourceOptions) -> anyhow::Result<Sources> {
    let names = {
        let binary = Mapped::open(path)?;
        names::source_names(&binary).context("its debug information")?
    };
    let mut left_out = LeftOut {
        relative: names.relative,
        ..LeftOut::default()
    };
    let mut found = BTreeMap::new();
    for name in names.absolute {
        if let Some(file) = place(&name, options, &mut left_out) {
            found.insert(name, file);
        }
    }
    let mut zip = ZipWriter::new(NamedTempFile::with_prefix("unhex-")?);
    let entry = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644);
    let mut files = 0;
    let mut left = options.bundle_bytes_max;
    for (name, file) in found {
        let read = |error: io::Error| anyhow::anyhow!("{}: {error}", file.display());
        let source = File::open(&file).map_err(read)?;
        let size = source.metadata().map_err(read)?.len();
        if size > options.file_bytes_max || size > left {
            left_out.too_large += 1;
            continue;
        }
        zip.start_file(name.trim_start_matches('/'), entry)?;
        let copied = io::copy(&mut source.take(size), &mut zip).map_err(read)?;
        left = left.saturating_sub(copied);
        files += 1;
    }
    let mut zip = zip.finish()?;
    let size_bytes = zip.seek(io::SeekFrom::End(0))?;
    Ok(Sources {
        zip: zip.into_temp_path(),
        size_bytes,
        files,
        left_out,
    })
}

/// The regular file that a name of the DWARF means on this machine.
fn place(name: &str, options: &SourceOptions, left_out: &mut LeftOut) -> Option<PathBuf> {
    let mapped = options.maps.iter().find_map(|map| map.apply(name));
    let real = mapped.unwrap_or_else(|| name.into()).canonicalize();
    let Ok(real) = real.and_then(|real| {
        let is_file = real.metadata()?.is_file();
        Ok(Some(real).filter(|_| is_file))
    }) else {
        left_out.missing += 1;
        return None;
    };
    let Some(real) = real else {
        left_out.missing += 1;
        return None;
    };
    if !options.roots.is_empty() && !options.roots.iter().any(|root| real.starts_with(root)) {
        left_out.outside += 1;
        return None;
    }
    Some(real)
}

#[cfg(test)]
mod tests;
