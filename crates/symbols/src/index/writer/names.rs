//! Packs function records: names against the head of their group, then FSST.

use super::offset_in;
use super::symbols::Symbols;
use crate::index::bits::{low8, put_varint};
use crate::index::error::WriteError;
use crate::index::reader::{
    GROUP_FUNCTIONS, TAG_ATTRIBUTE, TAG_DECLARED_USUAL, TAG_FULL_DIFFERS, TAG_SHORT_OWN,
    TAG_SHORT_SUBSTRING, byte_of_attributes,
};
use crate::model::{Function, NONE};

/// The sections that hold functions' names.
pub(super) struct PackedNames {
    pub(super) offsets: Vec<u8>,
    pub(super) data: Vec<u8>,
    pub(super) linkage_symbols: Vec<u8>,
    pub(super) full_symbols: Vec<u8>,
    /// Language and provenance of most functions.
    pub(super) attribute: u8,
}

/// Packs `functions`, which are sorted by linkage name; `usual` are their usual files.
pub(super) fn pack(functions: &[Function], usual: &[u32]) -> Result<PackedNames, WriteError> {
    let mut packer = Packer::train(functions);
    let mut offsets = Vec::new();
    let mut data = Vec::new();
    for (group, usual) in groups(functions).zip(usual.chunks(GROUP_FUNCTIONS as usize)) {
        offsets.extend(offset_in("bytes of names", &data)?);
        let head = group.first();
        for (position, (function, usual)) in group.iter().zip(usual).enumerate() {
            let head = head.filter(|_| position > 0);
            packer.record(function, head, *usual);
            data.push(packer.tag);
            put_varint(&mut data, packer.body.len() as u64);
            data.extend_from_slice(&packer.body);
        }
    }
    Ok(PackedNames {
        offsets,
        data,
        linkage_symbols: packer.linkage.to_bytes(),
        full_symbols: packer.full.to_bytes(),
        attribute: packer.attribute,
    })
}

fn groups(functions: &[Function]) -> impl Iterator<Item = &[Function]> {
    functions.chunks(GROUP_FUNCTIONS as usize)
}

/// What is left of `name` behind the prefix that it shares with `head`, and the prefix's length.
fn behind_head<'a>(name: &'a str, head: Option<&str>) -> (usize, &'a [u8]) {
    let head = head.unwrap_or_default().bytes();
    let shared = name.bytes().zip(head).take_while(|(a, b)| a == b).count();
    (shared, name.as_bytes().get(shared..).unwrap_or_default())
}

struct Packer {
    linkage: Symbols,
    full: Symbols,
    attribute: u8,
    tag: u8,
    body: Vec<u8>,
}

impl Packer {
    fn train(functions: &[Function]) -> Self {
        let mut linkage = Vec::new();
        let mut full = Vec::new();
        let mut attributes = [0u32; 256];
        for group in groups(functions) {
            for (position, function) in group.iter().enumerate() {
                let head = group.first().filter(|_| position > 0);
                let name =
                    |name: fn(&Function) -> &str| behind_head(name(function), head.map(name)).1;
                linkage.push(name(|function| &function.linkage_name));
                if function.full_name != function.linkage_name {
                    full.push(name(|function| &function.full_name));
                }
                let attribute = byte_of_attributes(function.language, function.provenance);
                if let Some(count) = attributes.get_mut(usize::from(attribute)) {
                    *count += 1;
                }
            }
        }
        let most = attributes
            .iter()
            .zip(0u64..)
            .max_by_key(|(count, byte)| (**count, !*byte));
        Self {
            linkage: Symbols::train(&linkage),
            full: Symbols::train(&full),
            attribute: most.map_or(0, |(_, byte)| low8(byte)),
            tag: 0,
            body: Vec::new(),
        }
    }

    /// Packs one record into `tag` and `body`.
    fn record(&mut self, function: &Function, head: Option<&Function>, usual: u32) {
        let Function {
            linkage_name,
            full_name,
            short_name,
            ..
        } = function;
        self.tag = 0;
        self.body.clear();
        let head_linkage = head.map(|head| head.linkage_name.as_str());
        put_name(
            &mut self.body,
            &self.linkage,
            behind_head(linkage_name, head_linkage),
        );
        if full_name != linkage_name {
            self.tag |= TAG_FULL_DIFFERS;
            let head_full = head.map(|head| head.full_name.as_str());
            put_name(
                &mut self.body,
                &self.full,
                behind_head(full_name, head_full),
            );
        }
        if short_name != full_name {
            if let Some(start) = full_name.find(short_name.as_str()) {
                self.tag |= TAG_SHORT_SUBSTRING;
                put_varint(&mut self.body, start as u64);
                put_varint(&mut self.body, short_name.len() as u64);
            } else {
                self.tag |= TAG_SHORT_OWN;
                let compressed = self.full.compress(short_name.as_bytes());
                put_varint(&mut self.body, compressed.len() as u64);
                self.body.extend(compressed);
            }
        }
        if function.declaration_file == usual {
            self.tag |= TAG_DECLARED_USUAL;
        } else {
            let file = function.declaration_file;
            let file = if file == NONE { 0 } else { u64::from(file) + 1 };
            put_varint(&mut self.body, file);
        }
        put_varint(&mut self.body, u64::from(function.declaration_line));
        let attribute = byte_of_attributes(function.language, function.provenance);
        if attribute != self.attribute {
            self.tag |= TAG_ATTRIBUTE;
            self.body.push(attribute);
        }
    }
}

fn put_name(out: &mut Vec<u8>, symbols: &Symbols, (shared, rest): (usize, &[u8])) {
    let compressed = symbols.compress(rest);
    put_varint(out, shared as u64);
    put_varint(out, compressed.len() as u64);
    out.extend(compressed);
}
