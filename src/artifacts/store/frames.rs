//! Independent zstd frames and the table that says where they are: a blob that is compressed, and of
//! which any part can still be read, in parallel and without the rest.
//!
//! Every frame but the last holds the same number of bytes, and each has a checksum (RFC 8878 §3.1.1).

use std::io::{self, Read, Write};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::artifacts::ContentHash;

/// Bytes in one frame before compression: large enough to compress well, small enough that a
/// dozen of them in memory are nothing.
const FRAME_BYTES: u32 = 4 << 20;

/// The largest frame that is read, so that no table can ask for more memory.
const FRAME_BYTES_MAX: u32 = 16 << 20;

/// zstd's default: 150-300 MB/s, a third to a quarter of a debug file's size.
const LEVEL: i32 = 3;

/// Where the frames of a blob are; part of its record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedTable")]
#[expect(clippy::struct_field_names, reason = "each says its unit")]
pub struct FrameTable {
    /// Bytes in every frame but the last, before compression.
    frame_bytes: u32,
    /// Bytes in all frames before compression.
    size_bytes: u64,
    /// The lengths of the compressed frames, in order.
    packed_bytes: Vec<u32>,
}

/// One frame: where it lies, and which bytes of the blob it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its place in the stored object.
    pub(super) packed: Range<u64>,
    /// How many bytes of the blob it has.
    pub(super) size_bytes: u32,
}

/// What was packed.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) table: FrameTable,
    /// Of the bytes before compression.
    pub(super) sha256: ContentHash,
}

/// A table whose parts do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the table of frames is damaged: {0}")]
pub struct FrameTableError(String);

#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "each says its unit")]
struct UncheckedTable {
    frame_bytes: u32,
    size_bytes: u64,
    packed_bytes: Vec<u32>,
}

impl TryFrom<UncheckedTable> for FrameTable {
    type Error = FrameTableError;

    fn try_from(table: UncheckedTable) -> Result<Self, Self::Error> {
        let UncheckedTable {
            frame_bytes,
            size_bytes,
            packed_bytes,
        } = table;
        let damaged = |detail: String| Err(FrameTableError(detail));
        if !(1..=FRAME_BYTES_MAX).contains(&frame_bytes) {
            return damaged(format!(
                "frames of {frame_bytes} bytes, from 1 to {FRAME_BYTES_MAX} are read"
            ));
        }
        let expected = size_bytes.div_ceil(frame_bytes.into());
        if u64::try_from(packed_bytes.len()) != Ok(expected) {
            return damaged(format!(
                "{} frames for {size_bytes} bytes, not {expected}",
                packed_bytes.len()
            ));
        }
        let most = packed_bytes_max(frame_bytes);
        match packed_bytes
            .iter()
            .find(|&&bytes| bytes == 0 || bytes > most)
        {
            Some(bytes) => damaged(format!("a frame of {bytes} compressed bytes")),
            None => Ok(Self {
                frame_bytes,
                size_bytes,
                packed_bytes,
            }),
        }
    }
}

/// No frame is longer than this: what zstd makes of random bytes, and some reserve.
fn packed_bytes_max(frame_bytes: u32) -> u32 {
    frame_bytes + frame_bytes / 128 + 1024
}

impl FrameTable {
    /// Bytes of the blob before compression.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes of the stored object.
    pub fn packed_size_bytes(&self) -> u64 {
        self.packed_bytes.iter().copied().map(u64::from).sum()
    }

    /// The frames in order.
    pub(super) fn frames(&self) -> impl Iterator<Item = Frame> {
        let lengths = self.packed_bytes.iter().copied();
        let places = lengths.scan(0, |end, length| {
            let start = *end;
            *end += u64::from(length);
            Some(start..*end)
        });
        let mut left = self.size_bytes;
        places.map(move |packed| {
            let size_bytes =
                u32::try_from(left).map_or(self.frame_bytes, |left| left.min(self.frame_bytes));
            left -= u64::from(size_bytes);
            Frame { packed, size_bytes }
        })
    }
}

/// Packs all that a reader has, in constant memory.
pub(super) fn pack(mut reader: impl Read, mut writer: impl Write) -> io::Result<Packed> {
    let mut hash = Sha256::new();
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    compressor.include_checksum(true)?;
    let mut table = FrameTable {
        frame_bytes: FRAME_BYTES,
        size_bytes: 0,
        packed_bytes: Vec::new(),
    };
    let mut bytes = Vec::with_capacity(usize::try_from(FRAME_BYTES).unwrap_or_default());
    loop {
        bytes.clear();
        let frame = reader.by_ref().take(FRAME_BYTES.into());
        let read = { frame }.read_to_end(&mut bytes)?;
        if read == 0 {
            let sha256 = ContentHash(hash.finalize().into());
            return Ok(Packed { table, sha256 });
        }
        hash.update(&bytes);
        let packed = compressor.compress(&bytes)?;
        writer.write_all(&packed)?;
        let length = u32::try_from(packed.len()).map_err(io::Error::other)?;
        table.packed_bytes.push(length);
        table.size_bytes += u64::try_from(read).map_err(io::Error::other)?;
    }
}

/// The bytes of one frame.
pub(super) fn unpack(packed: &[u8], frame: &Frame) -> io::Result<Vec<u8>> {
    let size_bytes = usize::try_from(frame.size_bytes).map_err(io::Error::other)?;
    let bytes = zstd::bulk::decompress(packed, size_bytes)?;
    if bytes.len() == size_bytes {
        return Ok(bytes);
    }
    let found = bytes.len();
    Err(io::Error::other(format!(
        "a frame has {found} bytes, its table says {size_bytes}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that do not repeat, and some that do.
    fn sample(size_bytes: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let noise = std::iter::from_fn(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some(state.to_le_bytes()[3])
        });
        let text = b"the same again and again, ".iter().copied().cycle();
        noise
            .take(size_bytes / 2)
            .chain(text)
            .take(size_bytes)
            .collect()
    }

    fn packed(bytes: &[u8]) -> (Vec<u8>, Packed) {
        let mut object = Vec::new();
        let packed = pack(bytes, &mut object).unwrap();
        (object, packed)
    }

    #[test]
    fn every_frame_alone_gives_its_part_of_the_blob() {
        let frame = usize::try_from(FRAME_BYTES).unwrap();
        for size_bytes in [0, 1, frame - 1, frame, frame + 1, 2 * frame + 5] {
            let blob = sample(size_bytes);
            let (object, Packed { table, sha256 }) = packed(&blob);
            assert_eq!(sha256, ContentHash::of(&blob));
            assert_eq!(table.packed_size_bytes(), object.len() as u64);
            assert_eq!(table.size_bytes(), size_bytes as u64);
            let mut rest = blob.as_slice();
            for frame in table.frames() {
                let place = |at: u64| usize::try_from(at).unwrap();
                let range = place(frame.packed.start)..place(frame.packed.end);
                let bytes = unpack(&object[range], &frame).unwrap();
                assert!(rest.starts_with(&bytes));
                rest = &rest[bytes.len()..];
            }
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn a_damaged_frame_is_an_error() {
        let (mut object, Packed { table, .. }) = packed(&sample(1000));
        let frame = table.frames().next().unwrap();
        for at in 0..object.len() {
            object[at] ^= 0x10;
            let unpacked = unpack(&object, &frame);
            // A bit of the frame's head may mean nothing.
            assert!(
                unpacked.is_err() || unpacked.unwrap() == sample(1000),
                "{at}"
            );
            object[at] ^= 0x10;
        }
        unpack(&object[..object.len() - 1], &frame).unwrap_err();
        let shorter = Frame {
            size_bytes: 999,
            ..frame
        };
        unpack(&object, &shorter).unwrap_err();
    }

    #[test]
    fn a_table_is_read_back_and_one_that_does_not_fit_together_is_refused() {
        let (_, Packed { table, .. }) = packed(&sample(3000));
        let json = serde_json::to_value(&table).unwrap();
        assert_eq!(
            serde_json::from_value::<FrameTable>(json.clone()).unwrap(),
            table
        );
        for (field, value) in [
            ("frame_bytes", 0),
            ("frame_bytes", u64::from(FRAME_BYTES_MAX) + 1),
            ("frame_bytes", 100),
            ("size_bytes", 0),
            ("size_bytes", u64::MAX),
        ] {
            let mut damaged = json.clone();
            damaged[field] = value.into();
            assert!(
                serde_json::from_value::<FrameTable>(damaged).is_err(),
                "{field} {value}"
            );
        }
        for lengths in [vec![], vec![0], vec![u32::MAX], vec![9, 9]] {
            let mut damaged = json.clone();
            damaged["packed_bytes"] = lengths.clone().into();
            assert!(
                serde_json::from_value::<FrameTable>(damaged).is_err(),
                "{lengths:?}"
            );
        }
    }
}
