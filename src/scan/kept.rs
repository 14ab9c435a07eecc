//! What scans found, in a file of the data folder, so that a restart looks at nothing again that did
//! not change.
//!
//! One JSON value a line, compressed with a checksum; replaced as a whole. A file that is damaged, of
//! another format or of other settings is as good as none: everything is looked at again.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::catalogue::Catalogue;
use super::entry::{Content, ScannedFile, Stamp};
use crate::config::ScanConfig;

/// The version of the format; another one is not read.
const FORMAT: u32 = 1;
/// Numbers in one line.
const NUMBERS_A_LINE: usize = 1_024;
/// How strongly it is compressed: it is written after each scan that found something.
const ZSTD_LEVEL: i32 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Front {
    format: u32,
    /// What decides whether a file has something to serve.
    settings: String,
}

/// Every other line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    File {
        #[serde(flatten)]
        path: KeptPath,
        stamp: Stamp,
        content: Content,
    },
    Dull(Vec<u64>),
    /// The last one.
    End {
        /// Whether all files were looked at.
        complete: bool,
    },
}

/// A path, which need not be text.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeptPath {
    Path(String),
    PathBytes(Vec<u8>),
}

impl From<&Path> for KeptPath {
    fn from(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Path(text.to_owned()),
            None => Self::PathBytes(path.as_os_str().as_bytes().to_vec()),
        }
    }
}

impl From<KeptPath> for PathBuf {
    fn from(path: KeptPath) -> Self {
        match path {
            KeptPath::Path(text) => text.into(),
            KeptPath::PathBytes(bytes) => OsString::from_vec(bytes).into(),
        }
    }
}

fn front(config: &ScanConfig) -> Front {
    Front {
        format: FORMAT,
        settings: format!("{:?} {:?}", config.kinds, config.archives),
    }
}

/// What earlier scans found.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) catalogue: Catalogue,
    /// Whether they have looked at all files.
    pub(super) is_complete: bool,
}

/// Writes what is known, in the place of what was there.
///
/// # Errors
/// If the folder cannot be written; the old file stays then.
pub(super) fn save(
    path: &Path,
    config: &ScanConfig,
    (catalogue, complete): (&Catalogue, bool),
) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(folder)?;
    let mut encoder = zstd::Encoder::new(BufWriter::new(file), ZSTD_LEVEL)?;
    encoder.include_checksum(true)?;
    let mut lines = BufWriter::new(encoder);
    write(&mut lines, &front(config))?;
    for file in catalogue.files() {
        let line = Line::File {
            path: KeptPath::from(&*file.path),
            stamp: file.stamp,
            content: file.content.clone(),
        };
        write(&mut lines, &line)?;
    }
    for numbers in catalogue.dull().chunks(NUMBERS_A_LINE) {
        write(&mut lines, &Line::Dull(numbers.to_vec()))?;
    }
    write(&mut lines, &Line::End { complete })?;
    let encoder = lines.into_inner().map_err(io::IntoInnerError::into_error)?;
    let file = encoder.finish()?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(folder)?.sync_all()
}

fn write(to: &mut impl io::Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, line)?;
    to.write_all(b"\n")
}

/// What was written under these settings, if something was.
///
/// # Errors
/// If the file is there and cannot be read, or is not whole; nothing is known then.
pub(super) fn load(path: &Path, config: &ScanConfig) -> io::Result<Option<Kept>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut lines = BufReader::new(zstd::Decoder::new(file)?);
    let (mut text, catalogue) = (Vec::new(), Catalogue::default());
    lines.read_until(b'\n', &mut text)?;
    if serde_json::from_slice::<Front>(&text)? != front(config) {
        return Ok(None);
    }
    let mut end = None;
    loop {
        text.clear();
        if lines.read_until(b'\n', &mut text)? == 0 {
            break;
        }
        match serde_json::from_slice(&text)? {
            Line::File {
                path,
                stamp,
                content,
            } => {
                let file = ScannedFile::new(path.into(), stamp, content);
                catalogue.insert(Arc::new(file));
            }
            Line::Dull(numbers) => numbers
                .into_iter()
                .for_each(|hash| catalogue.note_dull(hash)),
            Line::End { complete } => end = Some(complete),
        }
    }
    let is_complete = end.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(Some(Kept {
        catalogue,
        is_complete,
    }))
}
