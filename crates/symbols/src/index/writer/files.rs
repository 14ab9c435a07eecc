//! Packs paths: directories once each, names behind them, both by FSST.

use super::offset_in;
use super::symbols::Symbols;
use crate::index::bits::put_varint;
use crate::index::error::WriteError;
use crate::index::reader::GROUP_FILES;
use crate::model::SourcePath;

/// The sections that hold paths.
pub(super) struct PackedFiles {
    pub(super) directory_offsets: Vec<u8>,
    pub(super) directories: Vec<u8>,
    pub(super) offsets: Vec<u8>,
    pub(super) data: Vec<u8>,
    pub(super) symbols: Vec<u8>,
}

/// Packs `files`, which are sorted by directory.
pub(super) fn pack(files: &[SourcePath]) -> Result<PackedFiles, WriteError> {
    let mut directories: Vec<&str> = files.iter().map(|file| file.directory.as_str()).collect();
    directories.dedup();
    let names = files.iter().map(|file| file.name.as_bytes());
    let strings = directories
        .iter()
        .map(|directory| directory.as_bytes())
        .chain(names);
    let symbols = Symbols::train(&strings.collect());
    let mut packed = PackedFiles {
        directory_offsets: Vec::new(),
        directories: Vec::new(),
        offsets: Vec::new(),
        data: Vec::new(),
        symbols: symbols.to_bytes(),
    };
    for directory in &directories {
        let offset = offset_in("bytes of directories", &packed.directories)?;
        packed.directory_offsets.extend(offset);
        let compressed = symbols.compress(directory.as_bytes());
        put_varint(&mut packed.directories, compressed.len() as u64);
        packed.directories.extend(compressed);
    }
    let mut directory = 0;
    let mut last: Option<&str> = None;
    for (number, file) in files.iter().enumerate() {
        if number % GROUP_FILES as usize == 0 {
            packed
                .offsets
                .extend(offset_in("bytes of file names", &packed.data)?);
        }
        directory += u64::from(last.is_some_and(|last| last != file.directory));
        last = Some(&file.directory);
        let compressed = symbols.compress(file.name.as_bytes());
        put_varint(&mut packed.data, directory);
        put_varint(&mut packed.data, compressed.len() as u64);
        packed.data.extend(compressed);
    }
    Ok(packed)
}
