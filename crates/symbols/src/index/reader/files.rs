//! The paths of source files: directories once each, names apart, both by FSST.

use crate::index::NAME_BYTES_MAX;
use crate::index::bits::{Bytes, u32_at};
use crate::index::error::IndexError;
use crate::index::layout::Section;
use crate::index::text::{SymbolTable, Text, TextRange};

/// Files in a group.
pub(in crate::index) const GROUP_FILES: u32 = 8;

/// The sections that hold paths.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct Files<'a> {
    pub(super) count: u32,
    pub(super) directory_offsets: &'a [u8],
    pub(super) directories: &'a [u8],
    pub(super) offsets: &'a [u8],
    pub(super) data: &'a [u8],
    pub(super) symbols: &'a SymbolTable,
}

impl Files<'_> {
    /// How many files there are.
    #[inline]
    pub(in crate::index) fn count(self) -> u32 {
        self.count
    }

    /// Appends the joined path of `file` to `text`.
    pub(in crate::index) fn read(
        self,
        file: u32,
        text: &mut Text,
    ) -> Result<TextRange, IndexError> {
        let damaged = |offset: usize, what| IndexError::Damaged {
            section: Section::Files,
            offset: offset as u64,
            what,
        };
        let from = u32_at(self.offsets, (file / GROUP_FILES) as usize)
            .filter(|_| file < self.count)
            .ok_or_else(|| damaged(file as usize, "no such file"))? as usize;
        let mut bytes = Bytes::new(self.data, from);
        for _ in 0..file % GROUP_FILES {
            bytes.varint();
            let length = bytes.varint();
            bytes.skip(length);
        }
        let offset = bytes.position();
        let directory = bytes.varint32();
        let length = bytes.varint();
        let name = bytes
            .take(length)
            .ok_or_else(|| damaged(offset, "file name cut short"))?;
        let start = text.len();
        self.directory(directory, text)?;
        if !matches!(text.bytes_at(text.since(start)).last(), None | Some(b'/')) {
            text.push(b"/");
        }
        self.symbols.decode(name, NAME_BYTES_MAX, text);
        Ok(text.since(start))
    }

    fn directory(self, directory: u32, text: &mut Text) -> Result<(), IndexError> {
        let damaged = |offset: u32, what| IndexError::Damaged {
            section: Section::Directories,
            offset: u64::from(offset),
            what,
        };
        let from = u32_at(self.directory_offsets, directory as usize)
            .ok_or_else(|| damaged(directory, "no such directory"))?;
        let mut bytes = Bytes::new(self.directories, from as usize);
        let length = bytes.varint();
        let compressed = bytes
            .take(length)
            .ok_or_else(|| damaged(from, "directory cut short"))?;
        self.symbols.decode(compressed, NAME_BYTES_MAX, text);
        Ok(())
    }
}
