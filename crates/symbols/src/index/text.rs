//! Text as it comes out of an index: an arena that names are decoded into, and FSST itself.
//!
//! FSST (Boncz, Neumann, Leis, "FSST: Fast Random Access String Compression") replaces up to eight
//! bytes by one code, so that any string can be decoded alone, without a block around it. Only the
//! decoder is here: it is twenty lines, and total; the `fsst` crate is used for writing alone.

use super::bits::Bytes;
use super::error::IndexError;
use super::layout::Section;

/// The code after which a byte stands for itself.
pub(super) const ESCAPE: u8 = 255;

/// Where a string lies in an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TextRange {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// An arena that strings are appended to; cleared, it keeps its memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    /// Longer than what is used, so that the decoder can write whole symbols.
    bytes: Vec<u8>,
    used: usize,
}

impl Text {
    /// Forgets the strings and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    /// Bytes in use.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// The range from `start` to what was appended last.
    #[inline]
    pub(super) fn since(&self, start: usize) -> TextRange {
        let clamp = |at| u32::try_from(at).unwrap_or(u32::MAX);
        TextRange {
            start: clamp(start),
            end: clamp(self.used),
        }
    }

    /// The string at `range`; empty where that is no text.
    #[inline]
    pub(super) fn str_at(&self, range: TextRange) -> &str {
        let bytes = self.bytes_at(range);
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// The bytes at `range`.
    #[inline]
    pub(super) fn bytes_at(&self, range: TextRange) -> &[u8] {
        let used = self.bytes.get(..self.used).unwrap_or_default();
        used.get(range.start as usize..range.end as usize)
            .unwrap_or_default()
    }

    /// Appends `bytes`.
    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if let Some(room) = self.room(bytes.len()).get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.used += bytes.len();
    }

    /// Takes what was used as one string and leaves the arena empty; the ranges stay good.
    pub(super) fn take_string(&mut self) -> Result<String, Vec<u8>> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.truncate(self.used);
        self.used = 0;
        String::from_utf8(bytes).map_err(std::string::FromUtf8Error::into_bytes)
    }

    /// Makes the memory of `string` the arena's.
    pub(super) fn reuse(&mut self, string: String) {
        self.bytes = string.into_bytes();
        self.used = 0;
    }

    /// At least `length` bytes behind what is used.
    #[inline]
    fn room(&mut self, length: usize) -> &mut [u8] {
        let needed = self.used + length;
        if self.bytes.len() < needed {
            self.grow(needed);
        }
        self.bytes.get_mut(self.used..).unwrap_or_default()
    }

    #[cold]
    fn grow(&mut self, needed: usize) {
        let doubled = needed.max(self.bytes.capacity()).max(4096);
        let length = if doubled == needed {
            needed * 2
        } else {
            doubled
        };
        self.bytes.resize(length, 0);
    }
}

/// What each FSST code stands for.
#[derive(Clone, Debug)]
pub(super) struct SymbolTable {
    symbols: [[u8; 8]; 256],
    /// Zero for the escape and for codes that stand for nothing.
    lengths: [SymbolLength; 256],
}

impl SymbolTable {
    /// Reads a table: number of symbols, their lengths, their bytes behind each other.
    pub(super) fn parse(bytes: &mut Bytes<'_>) -> Result<Box<Self>, IndexError> {
        let start = bytes.position() as u64;
        let damaged = |what| IndexError::Damaged {
            section: Section::SymbolTables,
            offset: start,
            what,
        };
        let mut table = Box::new(Self {
            symbols: [[0; 8]; 256],
            lengths: [SymbolLength::L0; 256],
        });
        let count = bytes.byte();
        let lengths = bytes
            .take(u64::from(count))
            .ok_or_else(|| damaged("table cut short"))?;
        let slots = table.symbols.iter_mut().zip(&mut table.lengths);
        for ((symbol, slot), &length) in slots.zip(lengths) {
            let (Some(place), Some(known), Some(taken)) = (
                symbol.get_mut(..usize::from(length)),
                SymbolLength::ALL.get(usize::from(length)),
                bytes.take(u64::from(length)),
            ) else {
                return Err(damaged("a symbol longer than eight bytes or cut short"));
            };
            place.copy_from_slice(taken);
            *slot = *known;
        }
        Ok(table)
    }

    /// Appends the first `limit` bytes of the decoded string.
    ///
    /// Eight codes at a time as long as there are so many and no escape, which few names have; the
    /// others one by one.
    #[inline]
    pub(super) fn decode(&self, compressed: &[u8], limit: usize, text: &mut Text) {
        let room = compressed.len().saturating_mul(8).min(limit) + EIGHT_SYMBOLS_BYTES;
        let out = text.room(room);
        let mut at = 0;
        let mut rest = compressed;
        while at < limit
            && let Some((codes, behind)) = rest.split_first_chunk()
            && let Some(window) = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut)
            && !has_escape(*codes)
        {
            at += self.write_eight(*codes, window);
            rest = behind;
        }
        let mut codes = rest.iter();
        while at < limit
            && let Some(&code) = codes.next()
            && let Some(slot) = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<8>)
        {
            if code == ESCAPE {
                let [first, ..] = slot;
                *first = codes.next().copied().unwrap_or(0);
                at += 1;
            } else {
                let code = usize::from(code);
                *slot = self.symbols.get(code).copied().unwrap_or_default();
                at += self.lengths.get(code).map_or(0, |length| *length as usize);
            }
        }
        text.used += at.min(limit);
    }

    /// Writes eight symbols, each whole and over the end of the one before; the number of bytes.
    #[inline]
    fn write_eight(&self, codes: [u8; 8], window: &mut [u8; EIGHT_SYMBOLS_BYTES]) -> usize {
        let mut at = 0;
        for code in codes {
            let code = usize::from(code);
            let slot = window.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
            if let (Some(slot), Some(symbol)) = (slot, self.symbols.get(code)) {
                *slot = *symbol;
            }
            at += self.lengths.get(code).map_or(0, |length| *length as usize);
        }
        at
    }
}

/// What eight symbols fill at most.
const EIGHT_SYMBOLS_BYTES: usize = 64;

/// Bytes of a symbol. A type that has no other values, so that the compiler knows that eight symbols
/// fit into their window and checks nothing while they are written.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum SymbolLength {
    L0,
    L1,
    L2,
    L3,
    L4,
    L5,
    L6,
    L7,
    L8,
}

impl SymbolLength {
    const ALL: [Self; 9] = [
        Self::L0,
        Self::L1,
        Self::L2,
        Self::L3,
        Self::L4,
        Self::L5,
        Self::L6,
        Self::L7,
        Self::L8,
    ];
}

/// Whether one of eight codes is an escape.
#[inline]
fn has_escape(codes: [u8; 8]) -> bool {
    const LOWEST: u64 = u64::MAX / 255;
    let codes = u64::from_le_bytes(codes);
    (!codes).wrapping_sub(LOWEST) & codes & (LOWEST << 7) != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::index::NAME_BYTES_MAX;

    #[test]
    fn an_arena_gives_back_what_was_pushed_and_keeps_its_memory() {
        let mut text = Text::default();
        text.push(b"ab");
        let start = text.len();
        text.push("\u{e9}c".as_bytes());
        assert_eq!(text.str_at(text.since(start)), "\u{e9}c");
        let range = TextRange { start: 3, end: 4 };
        assert_eq!(text.str_at(range), "", "half a character is no text");
        let string = text.take_string().expect("valid text");
        assert_eq!(string, "ab\u{e9}c");
        text.reuse(string);
        text.push(b"x");
        assert_eq!(text.str_at(text.since(0)), "x");
    }

    #[test]
    fn a_symbol_table_with_an_overlong_symbol_is_damaged() {
        let bytes = [1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let parsed = SymbolTable::parse(&mut Bytes::new(&bytes, 0));
        assert!(
            matches!(parsed, Err(IndexError::Damaged { .. })),
            "{parsed:?}"
        );
    }

    /// Codes 0 to 8 stand for as many bytes, 9 to 254 for nothing.
    fn table_of_all_lengths() -> Box<SymbolTable> {
        let mut bytes = vec![9];
        bytes.extend(0..9);
        bytes.extend((0..9).flat_map(|length| vec![b'a' + length; usize::from(length)]));
        SymbolTable::parse(&mut Bytes::new(&bytes, 0)).expect("a table")
    }

    /// What the codes stand for, read one by one.
    fn plainly(codes: &[u8]) -> Vec<u8> {
        let mut decoded = Vec::new();
        let mut codes = codes.iter().copied();
        while let Some(code) = codes.next() {
            match code {
                ESCAPE => decoded.push(codes.next().unwrap_or(0)),
                0..9 => decoded.extend(vec![b'a' + code; usize::from(code)]),
                _ => {}
            }
        }
        decoded
    }

    proptest! {
        #[test]
        fn any_codes_decode_to_what_they_stand_for_one_by_one(
            codes in prop::collection::vec(prop_oneof![8 => 0u8..9, 1 => any::<u8>(), 1 => Just(ESCAPE)], 0..60),
            limit in prop_oneof![0usize..300, Just(NAME_BYTES_MAX)],
        ) {
            let mut text = Text::default();
            text.push(b"before");
            let start = text.len();
            table_of_all_lengths().decode(&codes, limit, &mut text);
            let mut expected = plainly(&codes);
            expected.truncate(limit);
            prop_assert_eq!(text.bytes_at(text.since(start)), expected);
            prop_assert_eq!(text.bytes_at(TextRange { start: 0, end: 6 }), b"before");
        }
    }

    #[test]
    fn decoding_is_cut_at_the_limit() {
        let bytes = [1, 8, b'a', b'b', b'c', b'd', b'e', b'f', b'g', b'h'];
        let table = SymbolTable::parse(&mut Bytes::new(&bytes, 0)).expect("a table");
        let mut text = Text::default();
        table.decode(&vec![0; NAME_BYTES_MAX], NAME_BYTES_MAX, &mut text);
        assert_eq!(text.len(), NAME_BYTES_MAX);
        table.decode(&[0, 0], 11, &mut text);
        assert_eq!(text.len(), NAME_BYTES_MAX + 11);
    }
}
