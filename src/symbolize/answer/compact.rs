//! The compact form: every string and every frame once, stacks as indexes.

use std::hash::Hash;
use std::ops::Range;

use rustc_hash::FxHashMap;
use unhex_api::symbolize::FLAG_INLINED;
use unhex_symbols::index::Span;

use super::text::{put_number, put_string};
use super::{Answer, AnsweredBinary, AnsweredModule, FrameView, Place, Stacks, put_reason};

/// Things in the order in which they were met first.
#[derive(Debug)]
struct Table<T> {
    numbers: FxHashMap<T, u32>,
    items: Vec<T>,
}

/// A frame as it is written: numbers of strings, or none; line, column and flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    texts: [Option<u32>; 3],
    numbers: [u32; 3],
}

/// The two tables.
#[derive(Debug, Default)]
struct Tables<'a> {
    strings: Table<&'a str>,
    frames: Table<Row>,
    /// Where the stack of a row was written before, by binary and place of its frames: addresses of
    /// one row share it, and looking all its strings up again would be most of the time.
    written: FxHashMap<(usize, Span), Range<usize>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            numbers: FxHashMap::default(),
            items: Vec::new(),
        }
    }
}

impl<T: Copy + Eq + Hash> Table<T> {
    fn number(&mut self, item: T) -> u32 {
        // Both tables have fewer entries than a batch has frames, far below 2^32.
        let next = u32::try_from(self.items.len()).unwrap_or(u32::MAX);
        let items = &mut self.items;
        *self.numbers.entry(item).or_insert_with(|| {
            items.push(item);
            next
        })
    }
}

impl<'a> Tables<'a> {
    fn frame(&mut self, view: &FrameView<'a>) -> u32 {
        let texts = [view.function, view.linkage_name, view.file];
        let row = Row {
            texts: texts.map(|text| text.map(|text| self.strings.number(text))),
            numbers: [
                view.line,
                view.column,
                if view.is_inlined { FLAG_INLINED } else { 0 },
            ],
        };
        self.frames.number(row)
    }
}

impl Answer {
    /// The whole answer in the compact form.
    pub fn to_compact(&self) -> Vec<u8> {
        let mut tables = Tables::default();
        let mut modules = Vec::new();
        for (number, module) in self.modules.iter().enumerate() {
            if number > 0 {
                modules.push(b',');
            }
            self.put_module(module, &mut tables, &mut modules);
        }
        let mut out = Vec::with_capacity(modules.len().saturating_mul(2));
        out.extend_from_slice(b"{\"strings\":[");
        put_list(&mut out, &tables.strings.items, |out, text| {
            put_string(out, text);
        });
        out.extend_from_slice(b"],\"frames\":[");
        put_list(&mut out, &tables.frames.items, put_row);
        out.extend_from_slice(b"],\"modules\":[");
        out.append(&mut modules);
        out.extend_from_slice(b"]}");
        out
    }

    fn put_module<'a>(
        &'a self,
        module: &'a AnsweredModule,
        tables: &mut Tables<'a>,
        out: &mut Vec<u8>,
    ) {
        module.put_head(out);
        if let Some((stacks, binary)) = self.stacks_of(module) {
            out.extend_from_slice(b",\"stacks\":[");
            put_list(out, &stacks.places, |out, place| {
                let key = (stacks.binary, binary.span_of(*place));
                if let Some(before) = tables.written.get(&key) {
                    out.extend_from_within(before.clone());
                    return;
                }
                let start = out.len();
                self.put_stack(binary, *place, tables, out);
                tables.written.insert(key, start..out.len());
            });
            put_offsets_and_reasons(stacks, binary, out);
        }
        out.push(b'}');
    }

    fn put_stack<'a>(
        &'a self,
        binary: &'a AnsweredBinary,
        place: Place,
        tables: &mut Tables<'a>,
        out: &mut Vec<u8>,
    ) {
        out.push(b'[');
        let views = self.views(binary, binary.frames_of(place));
        for (number, view) in views.enumerate() {
            if number > 0 {
                out.push(b',');
            }
            put_number(out, u64::from(tables.frame(&view)));
        }
        out.push(b']');
    }
}

fn put_offsets_and_reasons(stacks: &Stacks, binary: &AnsweredBinary, out: &mut Vec<u8>) {
    out.extend_from_slice(b"],\"offsets\":[");
    put_list(out, &stacks.places, |out, place| {
        match binary.offset(*place) {
            Some(offset) => put_number(out, offset),
            None => out.extend_from_slice(b"null"),
        }
    });
    out.extend_from_slice(b"],\"reasons\":[");
    put_list(out, &stacks.places, |out, place| {
        put_reason(out, stacks.reason(*place, binary));
    });
    out.push(b']');
}

fn put_row(out: &mut Vec<u8>, row: &Row) {
    out.push(b'[');
    for text in row.texts {
        match text {
            Some(number) => put_number(out, u64::from(number)),
            None => out.extend_from_slice(b"null"),
        }
        out.push(b',');
    }
    put_list(out, &row.numbers, |out, number| {
        put_number(out, u64::from(*number));
    });
    out.push(b']');
}

/// Appends the items with commas between them.
fn put_list<T>(out: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        put(out, item);
    }
}
