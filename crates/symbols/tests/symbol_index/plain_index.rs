//! Reads an index by docs/symbol-index.md alone: no shortcuts, no code of the crate.

/// A frame in words: names, path, line, column, entry and size, declaration, attributes.
pub(crate) type PlainFrame = (
    [String; 3],
    String,
    u32,
    u32,
    Option<(u64, u64)>,
    (String, u32),
    (u8, u8),
);

pub(crate) fn little(data: &[u8], offset: usize, bytes: usize) -> u64 {
    (0..bytes)
        .rev()
        .fold(0, |value, at| value << 8 | u64::from(data[offset + at]))
}

pub(crate) fn varint(data: &[u8], at: &mut usize) -> u64 {
    let mut value = 0;
    let mut shift = 0;
    loop {
        let byte = data[*at];
        *at += 1;
        value |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte < 128 {
            return value;
        }
    }
}

pub(crate) fn taken<'a>(data: &'a [u8], at: &mut usize) -> &'a [u8] {
    let length = usize::try_from(varint(data, at)).expect("short");
    *at += length;
    &data[*at - length..*at]
}

/// Packed numbers, one bit after the other.
struct Packed<'a> {
    data: &'a [u8],
    bit: usize,
}

impl Packed<'_> {
    fn number(&mut self, width: u64) -> u64 {
        let mut value = 0;
        for place in 0..width {
            let bit = self.data[self.bit / 8] >> (self.bit % 8) & 1;
            value |= u64::from(bit) << place;
            self.bit += 1;
        }
        value
    }

    fn numbers(&mut self, count: usize, width: u64) -> Vec<u64> {
        (0..count).map(|_| self.number(width)).collect()
    }
}

fn field(word: u64, shift: u32, width: u32) -> u64 {
    word >> shift & ((1 << width) - 1)
}

pub(crate) fn size(value: u64) -> usize {
    usize::try_from(value).expect("small")
}

pub(crate) struct PlainIndex {
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug)]
struct PlainRow {
    node: Option<u64>,
    file: PlainFile,
    line: u64,
    column: u64,
}

/// The file of a row or of a call.
#[derive(Clone, Copy, Debug)]
enum PlainFile {
    /// The own file of the node.
    Own,
    /// Another one, or none.
    Other(Option<u64>),
}

struct PlainNode {
    function: u64,
    own_file: Option<u64>,
    /// Parent, call file if not the parent's own, line, column; or entry and size of a root.
    call: Result<(u64, PlainFile, u64, u64), (u64, u64)>,
}

impl PlainIndex {
    pub(crate) fn section(&self, kind: u64) -> &[u8] {
        let count = size(little(&self.bytes, 16, 4));
        let entry = (0..count)
            .map(|number| 32 + 24 * number)
            .find(|entry| little(&self.bytes, *entry, 4) == kind)
            .expect("the section is in the table");
        let offset = size(little(&self.bytes, entry + 8, 8));
        assert_eq!(offset % 8, 0);
        &self.bytes[offset..offset + size(little(&self.bytes, entry + 16, 8))]
    }

    fn count(&self, offset: usize) -> usize {
        size(little(self.section(1), offset, 4))
    }

    fn row(&self, address: u64) -> Option<PlainRow> {
        let segments = self.section(2);
        let base = |number: usize| little(segments, number * 16, 8);
        let number = (0..segments.len() / 16)
            .rev()
            .find(|number| base(*number) <= address)?;
        let offset = address - base(number);
        if offset > little(segments, number * 16 + 12, 4) {
            return None;
        }
        let starts = self.section(4);
        let first = size(little(segments, number * 16 + 8, 4));
        let end = match segments.get(number * 16 + 16..) {
            Some([]) | None => starts.len() / 4,
            Some(_) => size(little(segments, number * 16 + 24, 4)),
        };
        let block = (first..end)
            .rev()
            .find(|block| little(starts, block * 4, 4) <= offset)?;
        let at = size(little(self.section(5), block * 4, 4));
        let start = little(starts, block * 4, 4);
        row_in_block(self.section(11), at, offset - start)
    }

    fn node(&self, number: u64) -> PlainNode {
        let data = self.section(12);
        let block = size(number / 32);
        let item = size(number % 32);
        let count = (self.count(0) - block * 32).min(32);
        let mut at = size(little(self.section(6), block * 4, 4));
        let roots = little(data, at, 4);
        let widths = little(data, at + 4, 5);
        at += 9;
        let lowest_function = varint(data, &mut at);
        let lowest_line = varint(data, &mut at);
        let lowest_entry = varint(data, &mut at);
        let is_root = |item: usize| roots >> item & 1 == 1;
        let root_count = (0..count).filter(|item| is_root(*item)).count();
        let mut packed = Packed { data, bit: at * 8 };
        let functions = packed.numbers(count, field(widths, 0, 5));
        let parents = packed.numbers(count - root_count, field(widths, 5, 5));
        let lines = packed.numbers(count - root_count, field(widths, 10, 5));
        let columns = packed.numbers(count - root_count, field(widths, 15, 5));
        let entries = packed.numbers(root_count, field(widths, 20, 7));
        let sizes = packed.numbers(root_count, field(widths, 27, 7));
        let mut at = packed.bit.div_ceil(8);
        let function = functions[item] + lowest_function;
        let mut own_file = self.usual_file(function);
        let mut call_file = PlainFile::Own;
        if field(widths, 34, 1) == 1 {
            for _ in 0..varint(data, &mut at) {
                let listed = usize::from(data[at]);
                at += 1;
                let file = varint(data, &mut at).checked_sub(1);
                if listed == item {
                    call_file = PlainFile::Other(file);
                } else if listed == item + 32 {
                    own_file = file;
                }
            }
        }
        let roots_before = (0..item).filter(|item| is_root(*item)).count();
        let nth = item - roots_before;
        let call = if is_root(item) {
            Err((entries[roots_before] + lowest_entry, sizes[roots_before]))
        } else {
            Ok((
                number - parents[nth],
                call_file,
                lines[nth] + lowest_line,
                columns[nth],
            ))
        };
        PlainNode {
            function,
            own_file,
            call,
        }
    }

    fn usual_file(&self, function: u64) -> Option<u64> {
        assert!(self.count(8) < 65_535);
        let file = little(self.section(8), size(function) * 2, 2);
        (file != 0xffff).then_some(file)
    }

    fn symbols(&self, table: usize) -> Vec<Vec<u8>> {
        let data = self.section(3);
        let mut at = 0;
        let mut tables = (0..3).map(|_| {
            let count = usize::from(data[at]);
            let lengths = data[at + 1..at + 1 + count].to_vec();
            at += 1 + count;
            let symbol = |length: &u8| {
                at += usize::from(*length);
                data[at - usize::from(*length)..at].to_vec()
            };
            lengths.iter().map(symbol).collect()
        });
        tables.nth(table).expect("three tables")
    }

    fn text(&self, table: usize, compressed: &[u8]) -> Vec<u8> {
        let symbols = self.symbols(table);
        let mut text = Vec::new();
        let mut codes = compressed.iter();
        while let Some(code) = codes.next() {
            match code {
                255 => text.extend(codes.next()),
                code => text.extend(&symbols[usize::from(*code)]),
            }
        }
        text
    }

    /// Names, declaration file and line, attributes of a function.
    fn function(&self, function: u64) -> ([Vec<u8>; 3], Option<u64>, u64, (u8, u8)) {
        let data = self.section(13);
        let mut at = size(little(self.section(7), size(function / 8) * 4, 4));
        for _ in 0..function % 8 {
            at += 1;
            taken(data, &mut at);
        }
        let head = (!function.is_multiple_of(8)).then(|| self.function(function / 8 * 8).0);
        let [head_linkage, head_full, _] = head.unwrap_or_default();
        let tag = data[at];
        at += 1;
        let end = varint(data, &mut at);
        let end = at + size(end);
        let name = |table: usize, head: &[u8], at: &mut usize| {
            let mut text = head[..size(varint(data, at))].to_vec();
            text.extend(self.text(table, taken(data, at)));
            text
        };
        let linkage = name(0, &head_linkage, &mut at);
        let full = if tag & 1 == 1 {
            name(1, &head_full, &mut at)
        } else {
            linkage.clone()
        };
        let short = if tag & 2 != 0 {
            let start = size(varint(data, &mut at));
            full[start..start + size(varint(data, &mut at))].to_vec()
        } else if tag & 4 != 0 {
            self.text(1, taken(data, &mut at))
        } else {
            full.clone()
        };
        let declared = if tag & 8 != 0 {
            self.usual_file(function)
        } else {
            varint(data, &mut at).checked_sub(1)
        };
        let line = varint(data, &mut at);
        let mut attribute = self.section(1)[15];
        if tag & 16 != 0 {
            attribute = data[at];
            at += 1;
        }
        assert_eq!(at, end, "the record is as long as it says");
        (
            [linkage, full, short],
            declared,
            line,
            (attribute & 15, attribute >> 4),
        )
    }

    fn path(&self, file: Option<u64>) -> String {
        let Some(file) = file else {
            return String::new();
        };
        let data = self.section(15);
        let mut at = size(little(self.section(10), size(file / 8) * 4, 4));
        for _ in 0..file % 8 {
            varint(data, &mut at);
            taken(data, &mut at);
        }
        let directory = size(varint(data, &mut at));
        let name = String::from_utf8(self.text(2, taken(data, &mut at))).expect("text");
        let mut at = size(little(self.section(9), directory * 4, 4));
        let directory = self.text(2, taken(self.section(14), &mut at));
        let directory = String::from_utf8(directory).expect("text");
        let slash = if directory.is_empty() || directory.ends_with('/') {
            ""
        } else {
            "/"
        };
        format!("{directory}{slash}{name}")
    }

    pub(crate) fn frames(&self, address: u64) -> Vec<PlainFrame> {
        let mut frames = Vec::new();
        let Some(PlainRow {
            node: Some(mut number),
            mut file,
            mut line,
            mut column,
        }) = self.row(address)
        else {
            return frames;
        };
        loop {
            let node = self.node(number);
            let (names, declared, declared_line, attributes) = self.function(node.function);
            frames.push((
                names.map(|name| String::from_utf8(name).expect("text")),
                self.path(match file {
                    PlainFile::Own => node.own_file,
                    PlainFile::Other(file) => file,
                }),
                u32::try_from(line).expect("a line"),
                u32::try_from(column).expect("a column"),
                node.call.err(),
                (
                    self.path(declared),
                    u32::try_from(declared_line).expect("a line"),
                ),
                attributes,
            ));
            match node.call {
                Err(_) => return frames,
                Ok(call) => (number, file, line, column) = call,
            }
        }
    }
}

fn row_in_block(data: &[u8], mut at: usize, distance: u64) -> Option<PlainRow> {
    let head = little(data, at, 3);
    at += 3;
    let entries = (field(head, 21, 1) == 1).then(|| {
        at += 1;
        usize::from(data[at - 1]) + 1
    });
    let lowest_node = varint(data, &mut at);
    let lowest_line = varint(data, &mut at);
    let upper = little(data, at, 8);
    let low_width = field(head, 0, 5);
    let ones: Vec<u64> = (0..64).filter(|bit| upper >> bit & 1 == 1).collect();
    let mut packed = Packed {
        data,
        bit: (at + 8) * 8,
    };
    let lows = packed.numbers(ones.len(), low_width);
    let addresses = ones.iter().zip(0..).zip(&lows);
    let addresses: Vec<u64> = addresses
        .map(|((bit, row), low)| (bit - row) << low_width | low)
        .collect();
    let row = addresses.iter().rposition(|address| *address <= distance)?;
    let mut item = row;
    if let Some(entries) = entries {
        let width = u64::from(usize::BITS - (entries - 1).leading_zeros());
        item = size(packed.numbers(ones.len(), width)[row]);
    }
    let items = entries.unwrap_or(ones.len());
    let node = packed.numbers(items, field(head, 5, 5))[item];
    let line = packed.numbers(items, field(head, 10, 5))[item];
    let column = packed.numbers(items, field(head, 15, 5))[item];
    let mut at = packed.bit.div_ceil(8);
    let mut file = PlainFile::Own;
    if field(head, 20, 1) == 1 {
        for _ in 0..varint(data, &mut at) {
            let listed = usize::from(data[at]);
            at += 1;
            let number = varint(data, &mut at);
            if listed == item {
                file = PlainFile::Other(number.checked_sub(2));
            }
        }
    }
    Some(PlainRow {
        node: node.checked_sub(1).map(|node| node + lowest_node),
        file,
        line: line.checked_sub(1).map_or(0, |line| line + lowest_line),
        column,
    })
}
