//! One regular file of an archive, not read yet.

use std::io::{self, Read, Write as _};

use tempfile::{NamedTempFile, TempPath};

use super::ArchiveError;

/// One regular file of an archive.
pub(in super::super) struct Member<'a> {
    /// As the archive has it; never used as a path.
    pub(in super::super) name: String,
    pub(super) reader: &'a mut dyn Read,
}

/// A member that was unpacked.
#[derive(Debug)]
pub(in super::super) struct Unpacked {
    pub(in super::super) path: TempPath,
    pub(in super::super) size_bytes: u64,
}

impl Member<'_> {
    /// Unpacks the member into a temporary file if it is an ELF file; else reads 4 bytes only.
    ///
    /// # Errors
    /// If it is larger than `bytes_max`, the archive cannot be read or the temporary folder is full.
    pub(in super::super) fn unpack_elf(
        &mut self,
        bytes_max: u64,
    ) -> Result<Option<Unpacked>, ArchiveError> {
        let mut magic = Vec::new();
        (&mut *self.reader).take(4).read_to_end(&mut magic)?;
        if magic != b"\x7fELF" {
            return Ok(None);
        }
        let mut file = NamedTempFile::with_prefix("unhex-")?;
        file.write_all(&magic)?;
        let rest = bytes_max.saturating_sub(3);
        let copied = io::copy(&mut (&mut *self.reader).take(rest), &mut file)?;
        if copied == rest {
            return Err(ArchiveError::MemberTooLarge {
                name: self.name.clone(),
                bytes_max,
            });
        }
        Ok(Some(Unpacked {
            path: file.into_temp_path(),
            size_bytes: copied.saturating_add(4),
        }))
    }
}
