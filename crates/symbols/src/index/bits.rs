//! Bits and small numbers in bytes: how the packed blocks are read and written.
//!
//! A read past the end gives 0, which is a legal answer everywhere: damaged input makes wrong
//! numbers, never a panic. Widths are at most 57 bits, so that one unaligned 64-bit load suffices.

/// The low `width` bits set; `width` is at most 63.
#[inline]
pub(super) fn mask(width: u32) -> u64 {
    !(u64::MAX.wrapping_shl(width))
}

/// The low 32 bits.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low bits are what is asked for"
)]
pub(super) fn low32(value: u64) -> u32 {
    value as u32
}

/// The low 8 bits.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low bits are what is asked for"
)]
pub(super) fn low8(value: u64) -> u8 {
    value as u8
}

/// Bits that are needed to write `value`, 0 for 0.
#[inline]
pub(super) fn width_of(value: u64) -> u32 {
    64 - value.leading_zeros()
}

/// `width` bits from bit `position` on; 0 where the eight bytes there are not all present.
#[inline]
pub(super) fn bits_at(data: &[u8], position: usize, width: u32) -> u64 {
    match data.get(position >> 3..).and_then(<[u8]>::first_chunk::<8>) {
        Some(chunk) => (u64::from_le_bytes(*chunk) >> (position & 7)) & mask(width),
        None => 0,
    }
}

/// The same for widths up to 64.
#[inline]
pub(super) fn wide_bits_at(data: &[u8], position: usize, width: u32) -> u64 {
    if width <= 56 {
        return bits_at(data, position, width);
    }
    let low = bits_at(data, position, 32);
    low | bits_at(data, position.saturating_add(32), (width - 32).min(32)) << 32
}

/// The `index`th little-endian u32.
#[inline]
pub(super) fn u32_at(data: &[u8], index: usize) -> Option<u32> {
    data.as_chunks::<4>()
        .0
        .get(index)
        .map(|chunk| u32::from_le_bytes(*chunk))
}

/// Bytes that processors fetch at once; where they are more, some are asked for twice.
const CACHE_LINE_BYTES: usize = 64;
/// What is fetched ahead at most; what lies farther behind is seldom needed.
const FETCH_BYTES_MAX: usize = 1024;

/// Reads a byte of every cache line from `start` to `end`, so that all are on their way at once.
///
/// Decoding would ask for one, wait, and learn from it where the next one is.
#[inline]
pub(super) fn fetch(data: &[u8], start: usize, end: usize) {
    let end = end
        .min(data.len())
        .min(start.saturating_add(FETCH_BYTES_MAX));
    let lines = data.get(start..end).unwrap_or_default();
    let lines = lines.iter().step_by(CACHE_LINE_BYTES);
    std::hint::black_box(lines.fold(0, |read, byte| read | byte));
}

/// Reads numbers from front to back; past the end all are 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a> {
    data: &'a [u8],
    position: usize,
}

impl<'a> Bytes<'a> {
    /// A reader that stands at `position`.
    #[inline]
    pub(super) fn new(data: &'a [u8], position: usize) -> Self {
        Self { data, position }
    }

    /// Where it stands.
    #[inline]
    pub(super) fn position(self) -> usize {
        self.position
    }

    /// One byte.
    #[inline]
    pub(super) fn byte(&mut self) -> u8 {
        let Some(byte) = self.data.get(self.position) else {
            return 0;
        };
        self.position += 1;
        *byte
    }

    /// A fixed number of bytes, or zeros.
    #[inline]
    pub(super) fn chunk<const N: usize>(&mut self) -> [u8; N] {
        let rest = self.data.get(self.position..).unwrap_or_default();
        let Some(chunk) = rest.first_chunk::<N>() else {
            self.position = self.data.len();
            return [0; N];
        };
        self.position += N;
        *chunk
    }

    /// A LEB128 number; bits beyond the 64th are dropped.
    #[inline]
    pub(super) fn varint(&mut self) -> u64 {
        let first = self.byte();
        if first < 0x80 {
            return u64::from(first);
        }
        let low = u64::from(first & 0x7f);
        let second = self.byte();
        if second < 0x80 {
            return low | u64::from(second) << 7;
        }
        self.long_varint(low | u64::from(second & 0x7f) << 7)
    }

    #[inline(never)]
    fn long_varint(&mut self, mut value: u64) -> u64 {
        for shift in (14..70).step_by(7) {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    /// A number that never goes beyond 32 bits in a sound file.
    #[inline]
    pub(super) fn varint32(&mut self) -> u32 {
        low32(self.varint())
    }

    /// The next `length` bytes, or `None` when there are not so many.
    #[inline]
    pub(super) fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let length = usize::try_from(length).ok()?;
        let end = self.position.checked_add(length)?;
        let taken = self.data.get(self.position..end)?;
        self.position = end;
        Some(taken)
    }

    /// Goes over `length` bytes.
    #[inline]
    pub(super) fn skip(&mut self, length: u64) {
        let left = self.data.len().saturating_sub(self.position);
        self.position += usize::try_from(length).map_or(left, |length| length.min(left));
    }
}

/// Appends a LEB128 number.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low8(value) | 0x80);
        value >>= 7;
    }
    out.push(low8(value));
}

/// Packs numbers of any width behind each other, lowest bit first.
#[derive(Debug)]
pub(super) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: u64,
    /// Fewer than 64.
    pending_bits: u32,
}

impl<'a> BitWriter<'a> {
    /// Appends to `out`.
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            pending: 0,
            pending_bits: 0,
        }
    }

    /// The low `width` bits of `value`, which has no others set; `width` is at most 64.
    #[inline]
    pub(super) fn put(&mut self, value: u64, width: u32) {
        self.pending |= value << self.pending_bits;
        let free = 64 - self.pending_bits;
        if width < free {
            self.pending_bits += width;
            return;
        }
        self.out.extend_from_slice(&self.pending.to_le_bytes());
        self.pending = value.checked_shr(free).unwrap_or(0);
        self.pending_bits = width - free;
    }

    /// Fills the last byte with zeros.
    pub(super) fn finish(self) {
        let bytes = self.pending.to_le_bytes().into_iter();
        self.out
            .extend(bytes.take(self.pending_bits.div_ceil(8) as usize));
    }
}

/// The position of the set bit number `rank` (from 0), or 64 when there are not so many.
///
/// Broadword selection (Vigna, "Broadword Implementation of Rank/Select Queries"): prefix sums of
/// the bytes' counts in one multiplication, then at most seven steps inside one byte. The x86-64
/// baseline has no population count instruction, so counting halves would cost more.
#[inline]
pub(super) fn select(word: u64, rank: u32) -> u32 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    if rank > 63 {
        return 64;
    }
    let pairs = word - ((word >> 1) & 0x5555_5555_5555_5555);
    let nibbles = (pairs & 0x3333_3333_3333_3333) + ((pairs >> 2) & 0x3333_3333_3333_3333);
    let bytes = (nibbles + (nibbles >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    let sums = bytes.wrapping_mul(ONES);
    // A byte of `below` is 1 where the sum up to and with that byte is at most the rank.
    let below = (((u64::from(rank).wrapping_mul(ONES) | HIGH) - sums) & HIGH) >> 7;
    let place = low32(below.wrapping_mul(ONES) >> 56) * 8;
    if place > 56 {
        return 64;
    }
    let before = if place == 0 {
        0
    } else {
        low32(sums >> (place - 8)) & 0xff
    };
    let mut byte = (word >> place) & 0xff;
    for _ in before..rank {
        byte &= byte.wrapping_sub(1);
    }
    place + byte.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn selected_bits_are_those_that_counting_finds(word: u64, rank in 0u32..70) {
            let expected = (0..64).filter(|bit| word >> bit & 1 == 1).nth(rank as usize);
            prop_assert_eq!(select(word, rank), expected.unwrap_or(64));
        }

        #[test]
        fn packed_numbers_come_back(numbers in prop::collection::vec((any::<u64>(), 0u32..=64), 0..40)) {
            let mut out = Vec::new();
            let mut writer = BitWriter::new(&mut out);
            for &(value, width) in &numbers {
                writer.put(if width == 64 { value } else { value & mask(width) }, width);
            }
            writer.finish();
            out.extend([0; 8]);
            let mut position = 0;
            for &(value, width) in &numbers {
                let expected = if width == 64 { value } else { value & mask(width) };
                prop_assert_eq!(wide_bits_at(&out, position, width), expected);
                position += width as usize;
            }
        }

        #[test]
        fn varints_come_back(value: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut bytes = Bytes::new(&out, 0);
            prop_assert_eq!(bytes.varint(), value);
            prop_assert_eq!(bytes.position(), out.len());
        }
    }

    #[test]
    fn reads_past_the_end_are_zero_and_terminate() {
        let mut bytes = Bytes::new(&[0xff; 3], 1);
        bytes.varint();
        assert!(bytes.position() >= 3);
        assert_eq!(
            (bytes.byte(), bytes.chunk::<4>(), bytes.take(1)),
            (0, [0; 4], None)
        );
        assert_eq!(bits_at(&[1, 2, 3], usize::MAX, 57), 0);
    }
}
