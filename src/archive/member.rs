//! One regular file of an archive, not read yet but for its first bytes.

use std::io::{self, Read, Write as _};

use tempfile::{NamedTempFile, TempPath};

use super::ArchiveError;

/// Bytes that tell what a file is: tar has its mark at 257.
const HEAD_BYTES: u64 = 512;

/// One regular file, as the archive has it.
pub(super) struct RawMember<'a> {
    pub(super) name: String,
    /// Seconds since 1970; 0 when the archive does not say.
    pub(super) modified: u64,
    pub(super) reader: &'a mut dyn Read,
}

/// One regular file that is no archive itself.
pub(crate) struct Member<'a> {
    /// As the archive has it; never used as a path.
    pub(crate) name: String,
    /// The same after the names of the archives that it is in, for people.
    pub(crate) label: String,
    /// Seconds since 1970, when it was changed last; 0 when the archive does not say.
    pub(crate) modified: u64,
    pub(super) head: Vec<u8>,
    pub(super) reader: &'a mut dyn Read,
}

/// A member that was unpacked.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub(crate) path: TempPath,
    pub(crate) size_bytes: u64,
}

/// The first bytes, fewer only when there are no more.
pub(super) fn read_head(reader: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    reader.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

impl Member<'_> {
    /// Whether its first bytes are those of an ELF file.
    pub(crate) fn is_elf(&self) -> bool {
        self.head.starts_with(b"\x7fELF")
    }

    /// Its whole content, from the start; good for one reading.
    pub(crate) fn content(&mut self) -> impl Read + '_ {
        self.head.as_slice().chain(&mut *self.reader)
    }

    /// Unpacks the member into a temporary file if it is an ELF file; else reads nothing more.
    ///
    /// # Errors
    /// If it is larger than `bytes_max`, the archive cannot be read or the temporary folder is full.
    pub(crate) fn unpack_elf(&mut self, bytes_max: u64) -> Result<Option<Unpacked>, ArchiveError> {
        if !self.is_elf() {
            return Ok(None);
        }
        let mut file = NamedTempFile::with_prefix("unhex-")?;
        let size_bytes = io::copy(
            &mut self.content().take(bytes_max.saturating_add(1)),
            &mut file,
        )?;
        if size_bytes > bytes_max {
            return Err(ArchiveError::MemberTooLarge {
                name: self.label.clone(),
                bytes_max,
            });
        }
        file.flush()?;
        Ok(Some(Unpacked {
            path: file.into_temp_path(),
            size_bytes,
        }))
    }
}
