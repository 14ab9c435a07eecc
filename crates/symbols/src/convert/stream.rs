//! `.debug_info` unit by unit, out of its compressed form.
//!
//! It is by far the largest section, and nearly all of it is read once, from front to back. Unpacked
//! as a whole it is most of the memory that a conversion takes, and each page of that costs time
//! too; a unit at a time stays in the processor's caches until it was read.

use flate2::{Decompress, FlushDecompress, Status};
use gimli::{EndianSlice, Endianity, Reader as _};

use super::unpack::{Compressed, Unreadable, inflater};
use super::{ConvertError, ConvertLimits, ReleaseInput};
use crate::elf::{ElfFile, ElfSection};

/// Bytes that are unpacked at a time, so that a unit of usual size is still in the second level of
/// the processor's caches when it is read.
const PIECE_BYTES: usize = 512 << 10;

/// Bytes of the compressed form that are told to be done with at a time.
const RELEASE_BYTES: usize = 4 << 20;

/// Bytes of the longest form of a unit's length.
const LENGTH_BYTES_MAX: usize = 12;

/// A compressed `.debug_info`.
#[derive(Clone, Copy)]
pub(crate) struct PackedInfo<'data> {
    name: &'data [u8],
    compressed: Compressed<'data>,
    release: Option<&'data ReleaseInput<'data>>,
}

impl std::fmt::Debug for PackedInfo<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackedInfo")
            .field("compressed", &self.compressed)
            .finish_non_exhaustive()
    }
}

impl<'data> PackedInfo<'data> {
    /// The section of a file, if it is compressed in a way that can be read piece by piece.
    pub(super) fn of(
        file: &ElfFile<'data>,
        section: &ElfSection<'data>,
        limits: &ConvertLimits<'data>,
    ) -> Result<Option<Self>, ConvertError> {
        let compressed = Compressed::of(file, section)?.filter(Compressed::is_zlib);
        Ok(compressed.map(|compressed| Self {
            name: section.name,
            compressed,
            release: limits.release,
        }))
    }

    /// Its bytes, unpacked, as it declares.
    pub(super) fn size(&self) -> u64 {
        self.compressed.size
    }
}

/// The units of a compressed `.debug_info`, one after the other.
pub(crate) struct InfoStream<'data> {
    packed: PackedInfo<'data>,
    decoder: Decompress,
    /// What is not unpacked yet.
    payload: &'data [u8],
    /// Bytes of the payload that are done with and not yet told to be.
    unreleased: usize,
    /// Unpacked bytes: `read` of them were given away.
    buffer: Vec<u8>,
    read: usize,
    /// Where in the section the buffer starts.
    buffer_start: u64,
    has_ended: bool,
}

impl<'data> InfoStream<'data> {
    /// Stands before the first unit.
    pub(crate) fn new(packed: &PackedInfo<'data>) -> Result<Self, ConvertError> {
        let decoder = inflater();
        Ok(Self {
            packed: *packed,
            decoder: decoder.map_err(|error| error.of(packed.name, packed.size()))?,
            payload: packed.compressed.payload,
            unreleased: 0,
            buffer: Vec::new(),
            read: 0,
            buffer_start: 0,
            has_ended: false,
        })
    }

    /// Where the next unit starts, and its bytes; `None` behind the last. Of a unit whose length
    /// cannot be, the bytes are too few, as they are in the section.
    ///
    /// # Errors
    /// If the section is damaged.
    pub(crate) fn next_unit<E: Endianity>(
        &mut self,
        endian: E,
    ) -> Result<Option<(usize, &[u8])>, ConvertError> {
        let start = self.position();
        let left = self.packed.size().saturating_sub(start);
        if left == 0 {
            self.finish()?;
            return Ok(None);
        }
        self.have(LENGTH_BYTES_MAX)?;
        let mut length = EndianSlice::new(self.unread(), endian);
        let before = length.len();
        let size = length.read_initial_length().ok().and_then(|(rest, _)| {
            let length_bytes = before.saturating_sub(length.len());
            rest.checked_add(length_bytes)
        });
        let size = size.filter(|size| *size as u64 <= left);
        let size = size.unwrap_or_else(|| self.unread().len().min(LENGTH_BYTES_MAX));
        self.have(size)?;
        let from = self.read;
        self.read = from.saturating_add(size).min(self.buffer.len());
        let unit = self.buffer.get(from..self.read).unwrap_or_default();
        Ok(Some((usize::try_from(start).unwrap_or(usize::MAX), unit)))
    }

    /// Unpacks what is left, to see whether it is sound.
    pub(crate) fn finish(&mut self) -> Result<(), ConvertError> {
        loop {
            self.read = self.buffer.len();
            let before = self.position();
            self.have(1)?;
            if self.position() == before && self.unread().is_empty() {
                break;
            }
        }
        if self.has_ended && self.position() == self.packed.size() {
            return Ok(());
        }
        Err(self.unsound())
    }

    /// Where in the section the next unit starts.
    fn position(&self) -> u64 {
        self.buffer_start.saturating_add(self.read as u64)
    }

    fn unread(&self) -> &[u8] {
        self.buffer.get(self.read..).unwrap_or_default()
    }

    /// Unpacks until so many bytes are unread, or the section has no more.
    fn have(&mut self, count: usize) -> Result<(), ConvertError> {
        while self.unread().len() < count && !self.has_ended {
            self.make_room(count)?;
            self.unpack()?;
        }
        Ok(())
    }

    /// Makes room for at least one byte more, and all in all `count` of them.
    fn make_room(&mut self, count: usize) -> Result<(), ConvertError> {
        let room = self.buffer.capacity().saturating_sub(self.buffer.len());
        let wanted = count.saturating_sub(self.unread().len());
        if room >= wanted.max(1) {
            return Ok(());
        }
        self.buffer_start = self.position();
        self.buffer.drain(..self.read);
        self.read = 0;
        let additional = wanted.max(PIECE_BYTES);
        if self.buffer.try_reserve_exact(additional).is_err() {
            return Err(Unreadable::OutOfMemory.of(self.packed.name, additional as u64));
        }
        Ok(())
    }

    /// Unpacks into the room that there is.
    fn unpack(&mut self) -> Result<(), ConvertError> {
        let (read, made) = (self.decoder.total_in(), self.buffer.len());
        let status =
            self.decoder
                .decompress_vec(self.payload, &mut self.buffer, FlushDecompress::None);
        let damaged = |detail: String| Unreadable::Damaged(detail).of(self.packed.name, 0);
        let status = status.map_err(|error| damaged(error.to_string()))?;
        let read = self.decoder.total_in().saturating_sub(read);
        let read = usize::try_from(read).unwrap_or(usize::MAX);
        self.payload = self.payload.get(read..).unwrap_or_default();
        self.release(read);
        self.has_ended = status == Status::StreamEnd;
        let is_stuck = read == 0 && self.buffer.len() == made && !self.has_ended;
        if is_stuck || self.decoder.total_out() > self.packed.size() {
            return Err(self.unsound());
        }
        Ok(())
    }

    /// Tells, now and then, which bytes are done with.
    fn release(&mut self, read: usize) {
        self.unreleased = self.unreleased.saturating_add(read);
        if self.unreleased < RELEASE_BYTES && !self.payload.is_empty() {
            return;
        }
        let whole = self.packed.compressed.payload;
        let end = whole.len().saturating_sub(self.payload.len());
        let done = whole.get(end.saturating_sub(self.unreleased)..end);
        self.unreleased = 0;
        if let (Some(done), Some(release)) = (done, self.packed.release) {
            release(done);
        }
    }

    fn unsound(&self) -> ConvertError {
        let size = self.packed.size();
        let detail = format!("more or less than the declared {size} bytes");
        Unreadable::Damaged(detail).of(self.packed.name, size)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use gimli::LittleEndian;

    use super::*;

    /// A unit of so many bytes, of which no two parts are the same.
    fn unit(bytes: u32) -> Vec<u8> {
        let mut unit = (bytes - 4).to_le_bytes().to_vec();
        let mut word = bytes;
        while unit.len() < bytes as usize {
            word = word.wrapping_mul(0x9e37_79b1).rotate_left(7) ^ 0x55;
            unit.extend(word.to_le_bytes());
        }
        unit.truncate(bytes as usize);
        unit
    }

    #[test]
    fn units_come_out_as_they_went_in_however_large_they_are() {
        let piece = u32::try_from(PIECE_BYTES).expect("a size");
        let sizes = [
            11,
            piece - 11,
            12,
            3 * piece,
            4,
            piece / 2,
            piece / 2,
            5 * piece + 1,
            40,
        ];
        let units: Vec<Vec<u8>> = sizes.iter().map(|size| unit(*size)).collect();
        let section = units.concat();
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&section).expect("memory");
        let payload = encoder.finish().expect("memory");
        let released = std::cell::Cell::new(0);
        let release = |bytes: &[u8]| released.set(released.get() + bytes.len());
        let packed = PackedInfo {
            name: b".debug_info",
            compressed: Compressed::zlib(section.len() as u64, &payload),
            release: Some(&release),
        };
        let mut stream = InfoStream::new(&packed).expect("memory");
        let mut position = 0;
        for unit in &units {
            let (start, bytes) = stream
                .next_unit(LittleEndian)
                .expect("sound")
                .expect("a unit");
            assert_eq!((start, bytes.len()), (position, unit.len()));
            assert!(bytes == unit, "the unit at {start}");
            position += unit.len();
        }
        assert!(matches!(stream.next_unit(LittleEndian), Ok(None)));
        assert_eq!(released.get(), payload.len());
    }
}
