//! What one file has to serve.

use std::fs::File;
use std::path::Path;

use super::entry::{Content, Stamp, Traits};
use super::headers::Headers;
use super::packages::{self, PackageLimits};
use super::roots::{is_absence, is_of_system, is_refusal, open_without_links};
use crate::archive::ArchiveError;
use crate::config::{ScanConfig, ScanKind};

/// How scans look at files.
#[derive(Debug)]
pub(super) struct Looking {
    /// What is looked at.
    pub(super) config: ScanConfig,
    /// Bounds on archives.
    pub(super) limits: PackageLimits,
}

/// What was seen.
#[derive(Debug)]
pub(super) enum Seen {
    /// It has something to serve.
    Something(Stamp, Content),
    /// It has not.
    Nothing(Stamp),
    /// It was being written to.
    Changing,
    /// It is no longer there.
    Gone,
    /// This server may not read it, says the system.
    Refused(std::io::Error),
    /// It is damaged, or of a kind that is not supported, and why; as good as nothing.
    Damaged(Stamp, String),
}

impl Looking {
    /// Looks at the file of a path without links.
    ///
    /// # Errors
    /// If it cannot be read now, for a reason that is not its own.
    pub(super) fn look_at(&self, path: &Path) -> std::io::Result<Seen> {
        let file = match open_without_links(path) {
            Err(error) if is_absence(&error) => return Ok(Seen::Gone),
            Err(error) if is_refusal(&error) => return Ok(Seen::Refused(error)),
            opened => opened?,
        };
        let stamp = Stamp::of(&file.metadata()?);
        let seen = self.look_into(path, &file, stamp)?;
        // What was read of two states is of neither.
        if Stamp::of(&file.metadata()?) != stamp {
            return Ok(Seen::Changing);
        }
        Ok(seen)
    }

    fn look_into(&self, path: &Path, file: &File, stamp: Stamp) -> std::io::Result<Seen> {
        let format = packages::format_of(path, &self.config);
        if format.is_none() && !self.config.kinds.contains(&ScanKind::Elf) {
            return Ok(Seen::Nothing(stamp));
        }
        let headers = match Headers::read(file, stamp.size_bytes) {
            Err(error) if !is_of_system(&error) => {
                return Ok(Seen::Damaged(stamp, error.to_string()));
            }
            headers => headers?,
        };
        if let Some(headers) = headers {
            if !self.config.kinds.contains(&ScanKind::Elf) {
                return Ok(Seen::Nothing(stamp));
            }
            return Ok(match headers.summary() {
                Ok(summary) => match Traits::of(summary) {
                    Some(traits) => Seen::Something(stamp, Content::Elf(traits)),
                    None => Seen::Nothing(stamp),
                },
                Err(error) => Seen::Damaged(stamp, error.to_string()),
            });
        }
        let Some(format) = format else {
            return Ok(Seen::Nothing(stamp));
        };
        match packages::contents(file, format, &self.limits) {
            Ok(archived) if archived.is_empty() => Ok(Seen::Nothing(stamp)),
            Ok(archived) => Ok(Seen::Something(stamp, Content::Archive(archived))),
            // The system failed, not the archive.
            Err(ArchiveError::Read(error)) if is_of_system(&error) => Err(error),
            Err(error) => Ok(Seen::Damaged(stamp, error.to_string())),
        }
    }
}
