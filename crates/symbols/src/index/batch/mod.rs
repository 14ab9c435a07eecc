//! Many addresses at once: sorted, swept once over the index, answered in the order of the request.
//!
//! Addresses in one row share their frames, nodes seen lately are copied instead of decoded, and
//! every distinct name and path is decoded once, at the end. The answer is one table each of
//! frames, functions and files, and one string, so nothing is allocated for a frame.

mod chains;
mod sweep;
mod tables;
mod work;

use std::ops::Deref;

use super::error::IndexError;
use super::reader::{NameRecord, SymbolIndex};
use super::text::{Text, TextRange};
use super::{FunctionRecord, NameSet, SourceFileId};
use crate::address::LinkAddress;

/// Frames in one answer: a million addresses of the largest real files have three million.
const FRAMES_MAX: usize = 8 << 20;
/// Bytes of names and paths in one answer; real ones have ten million.
const TEXT_BYTES_MAX: usize = 256 << 20;

/// What is wanted of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResolveOptions {
    /// Which names are decoded. Paths always are.
    pub names: NameSet,
}

/// The memory and the answer of a batch: kept from one request to the next, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    work: work::Work,
    frames: Vec<BatchFrame>,
    spans: Vec<Span>,
    functions: Vec<FunctionEntry>,
    files: Vec<FileEntry>,
    text: String,
    building: Text,
    /// Numbers of functions in the index, above their places in the answer.
    order: Vec<u64>,
    damage: Option<IndexError>,
}

/// One frame of the answer to a batch; several addresses may share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchFrame {
    /// For [`Batch::function`].
    pub function: u32,
    /// For [`Batch::path`], or [`NONE`](crate::model::NONE) when the file is not known.
    pub file: u32,
    /// Line, from 1; 0 when unknown. Of the outer frames: the line of the call.
    pub line: u32,
    /// Column, from 1; 0 when unknown.
    pub column: u32,
    entry: u64,
}

/// The entry of a frame that was inlined: no function begins at the last address.
const INLINED: u64 = u64::MAX;

impl BatchFrame {
    /// Whether the call was inlined into the next frame's function.
    #[inline]
    pub fn is_inlined(&self) -> bool {
        self.entry == INLINED
    }

    /// The entry point of a function that was really called.
    #[inline]
    pub fn entry(&self) -> Option<LinkAddress> {
        (self.entry != INLINED).then_some(LinkAddress(self.entry))
    }

    /// How far `address` lies behind the entry point; `None` for inlined calls and for code that
    /// lies before it, as the cold part of a function may.
    #[inline]
    pub fn offset_of(&self, address: LinkAddress) -> Option<u64> {
        address.0.checked_sub(self.entry()?.0)
    }
}

/// The frames of one address: a part of [`Batch::frames`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The innermost frame.
    pub start: u32,
    /// How many frames; 0 when no function covers the address.
    pub length: u32,
}

#[derive(Clone, Copy, Debug)]
struct FunctionEntry {
    id: u32,
    names: NameRecord,
    declaration_file: Option<SourceFileId>,
}

#[derive(Clone, Copy, Debug)]
struct FileEntry {
    id: u32,
    path: TextRange,
}

impl Batch {
    /// An empty batch with the working memory of this one, which keeps its answer: for requests of
    /// many indexes, whose answers are all kept.
    #[must_use]
    pub fn take_work(&mut self) -> Self {
        Self {
            work: std::mem::take(&mut self.work),
            ..Self::default()
        }
    }

    /// The frames of each address, in the order of the request.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// All frames of the answer.
    pub fn frames(&self) -> &[BatchFrame] {
        &self.frames
    }

    /// The frames of the address at `place` in the request, innermost first; empty when no
    /// function covers it.
    #[inline]
    pub fn frames_of(&self, place: usize) -> &[BatchFrame] {
        let span = self.spans.get(place).copied().unwrap_or_default();
        let start = span.start as usize;
        self.frames
            .get(start..start + span.length as usize)
            .unwrap_or_default()
    }

    /// The functions of the answer; [`BatchFrame::function`] counts through them.
    pub fn functions(&self) -> impl ExactSizeIterator<Item = FunctionRecord<'_>> {
        self.functions.iter().map(|entry| self.record_of(entry))
    }

    /// A function of the answer, by [`BatchFrame::function`].
    #[inline]
    pub fn function(&self, function: u32) -> Option<FunctionRecord<'_>> {
        let entry = self.functions.get(function as usize)?;
        Some(self.record_of(entry))
    }

    #[inline]
    fn record_of(&self, entry: &FunctionEntry) -> FunctionRecord<'_> {
        let names = &entry.names;
        FunctionRecord {
            linkage_name: self.str_at(names.linkage),
            full_name: self.str_at(names.full),
            short_name: self.str_at(names.short),
            declaration_file: entry.declaration_file,
            declaration_line: names.declaration_line,
            language: names.language,
            provenance: names.provenance,
        }
    }

    /// The paths of the answer; [`BatchFrame::file`] counts through them.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = &str> {
        self.files.iter().map(|entry| self.str_at(entry.path))
    }

    /// A path of the answer, by [`BatchFrame::file`]; `None` for [`NONE`](crate::model::NONE).
    #[inline]
    pub fn path(&self, file: u32) -> Option<&str> {
        self.files
            .get(file as usize)
            .map(|entry| self.str_at(entry.path))
    }

    /// The first damage that was met; the addresses it hit have no frames, or functions no name.
    pub fn damage(&self) -> Option<&IndexError> {
        self.damage.as_ref()
    }

    #[inline]
    fn str_at(&self, range: TextRange) -> &str {
        self.text
            .get(range.start as usize..range.end as usize)
            .unwrap_or_default()
    }

    fn note_damage(&mut self, error: IndexError) {
        self.damage.get_or_insert(error);
    }
}

impl<D: Deref<Target = [u8]>> SymbolIndex<D> {
    /// Answers many addresses, in any order and with repetitions, into `batch`.
    ///
    /// An address outside every function has no frames. A damaged block leaves the addresses in it
    /// without frames, the others are answered; [`Batch::damage`] says so.
    ///
    /// # Errors
    /// If the answer would have more than eight million frames or 256 MiB of text, which no real
    /// file makes of a million addresses, or if there are more than 2^32 addresses.
    pub fn resolve(
        &self,
        addresses: &[LinkAddress],
        options: ResolveOptions,
        batch: &mut Batch,
    ) -> Result<(), IndexError> {
        batch.begin(addresses.len())?;
        let swept = sweep::sweep(self, addresses, batch);
        let decoded = swept.and_then(|()| tables::decode(self, options, batch));
        batch.work.clear_slots(&batch.functions, &batch.files);
        decoded
    }
}

impl Batch {
    fn begin(&mut self, addresses: usize) -> Result<(), IndexError> {
        if u32::try_from(addresses).is_err() {
            return Err(IndexError::TooLarge {
                what: "addresses",
                limit: u32::MAX as usize,
            });
        }
        self.frames.clear();
        self.functions.clear();
        self.files.clear();
        self.spans.clear();
        self.spans.resize(addresses, Span::default());
        self.building.reuse(std::mem::take(&mut self.text));
        self.damage = None;
        Ok(())
    }
}

impl FunctionEntry {
    fn new(id: u32) -> Self {
        Self {
            id,
            names: NameRecord::default(),
            declaration_file: None,
        }
    }
}

impl FileEntry {
    fn new(id: u32) -> Self {
        Self {
            id,
            path: TextRange::default(),
        }
    }
}

/// Place of a thing in the answer's tables, or [`NONE`](crate::model::NONE).
type Slot = u32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::tests::large_index;

    fn capacities(batch: &Batch) -> [usize; 6] {
        [
            batch.frames.capacity(),
            batch.spans.capacity(),
            batch.functions.capacity(),
            batch.files.capacity(),
            batch.text.capacity(),
            batch.order.capacity(),
        ]
    }

    #[test]
    fn a_batch_that_is_kept_allocates_nothing_for_the_next_request() {
        let (index, addresses) = large_index();
        let mut batch = Batch::default();
        let resolve = |batch: &mut Batch| {
            let answered = index.resolve(&addresses, ResolveOptions::default(), batch);
            answered.expect("a small batch");
            capacities(batch)
        };
        let first = resolve(&mut batch);
        assert_eq!(resolve(&mut batch), first);
    }
}
