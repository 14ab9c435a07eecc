//! FSST on the writing side: a symbol table trained on the strings that it will replace.

use fsst::Compressor;

use crate::index::text::ESCAPE;

/// A trained compressor; training is deterministic.
pub(super) struct Symbols(Compressor);

impl Symbols {
    /// Trains on `strings`.
    pub(super) fn train(strings: &Vec<&[u8]>) -> Self {
        Self(Compressor::train(strings))
    }

    /// The code for `bytes`.
    pub(super) fn compress(&self, bytes: &[u8]) -> Vec<u8> {
        if bytes.is_empty() {
            Vec::new()
        } else {
            self.0.compress(bytes)
        }
    }

    /// The table as it is stored: number of symbols, their lengths, their bytes behind each other.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let symbols = self.0.symbol_table().iter().zip(self.0.symbol_lengths());
        let symbols: Vec<([u8; 8], u8)> = symbols
            .take(usize::from(ESCAPE))
            .map(|(symbol, length)| (symbol.to_u64().to_le_bytes(), (*length).min(8)))
            .collect();
        let mut out = vec![u8::try_from(symbols.len()).unwrap_or(ESCAPE)];
        out.extend(symbols.iter().map(|(_, length)| length));
        for (symbol, length) in &symbols {
            out.extend(symbol.iter().take(usize::from(*length)));
        }
        out
    }
}
