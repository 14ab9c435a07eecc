//! The tables of an answer: every distinct function and file decoded once, in the order of the index.

use std::ops::Deref;

use super::{Batch, ResolveOptions, TEXT_BYTES_MAX};
use crate::index::NameSet;
use crate::index::error::IndexError;
use crate::index::radix;
use crate::index::reader::{GROUP_FUNCTIONS, SymbolIndex};
use crate::index::text::TextRange;
use crate::model::NONE;

/// Functions whose records are fetched before the first of them is decoded: a dozen cache lines can be
/// on their way at once, and few must wait for long enough to be thrown out again.
const FETCHED_AHEAD: usize = 8;

/// Decodes names and paths into the batch's text.
pub(super) fn decode<D: Deref<Target = [u8]>>(
    index: &SymbolIndex<D>,
    options: ResolveOptions,
    batch: &mut Batch,
) -> Result<(), IndexError> {
    if options.names != NameSet::None {
        decode_names(index, options.names, batch)?;
    }
    decode_paths(index, batch)?;
    match batch.building.take_string() {
        Ok(text) => batch.text = text,
        Err(bytes) => blank_what_is_no_text(&bytes, batch),
    }
    Ok(())
}

fn decode_names<D: Deref<Target = [u8]>>(
    index: &SymbolIndex<D>,
    wanted: NameSet,
    batch: &mut Batch,
) -> Result<(), IndexError> {
    const SCAN_SHARE: usize = 16;
    let names = index.names();
    let mut order = std::mem::take(&mut batch.order);
    order.clear();
    if batch.functions.len() > names.count() as usize / SCAN_SHARE {
        let functions = batch.work.functions_in_order();
        order.extend(functions.map(|(id, slot)| radix::key(id, slot)));
    } else {
        let functions = batch.functions.iter().zip(0..);
        order.extend(functions.map(|(entry, slot)| radix::key(entry.id, slot)));
        order.sort_unstable();
    }
    let mut decoded = Ok(());
    let mut fetched = NONE;
    for ahead in order.chunks(FETCHED_AHEAD) {
        for &key in ahead {
            let group = radix::parts(key).0 / GROUP_FUNCTIONS;
            if group != fetched {
                names.fetch(group);
                fetched = group;
            }
        }
        decoded = ahead
            .iter()
            .try_for_each(|&key| decode_name(index, wanted, batch, key));
        if decoded.is_err() {
            break;
        }
    }
    batch.order = order;
    decoded
}

/// Decodes the names of the function of `key`, which is {its number, its place in the answer}.
#[inline]
fn decode_name<D: Deref<Target = [u8]>>(
    index: &SymbolIndex<D>,
    wanted: NameSet,
    batch: &mut Batch,
    key: u64,
) -> Result<(), IndexError> {
    let (id, slot) = radix::parts(key);
    check_text(batch)?;
    match index.names().read(id, wanted, &mut batch.building) {
        Ok(record) => {
            let declaration_file = index.declaration_file(id, &record);
            if let Some(entry) = batch.functions.get_mut(slot as usize) {
                entry.names = record;
                entry.declaration_file = declaration_file;
            }
        }
        Err(error) => batch.note_damage(error),
    }
    Ok(())
}

fn decode_paths<D: Deref<Target = [u8]>>(
    index: &SymbolIndex<D>,
    batch: &mut Batch,
) -> Result<(), IndexError> {
    let files = index.files();
    for slot in 0..batch.files.len() {
        check_text(batch)?;
        let Some(entry) = batch.files.get_mut(slot) else {
            break;
        };
        match files.read(entry.id, &mut batch.building) {
            Ok(path) => entry.path = path,
            Err(error) => batch.note_damage(error),
        }
    }
    Ok(())
}

fn check_text(batch: &Batch) -> Result<(), IndexError> {
    if batch.building.len() > TEXT_BYTES_MAX {
        return Err(IndexError::TooLarge {
            what: "bytes of names and paths",
            limit: TEXT_BYTES_MAX,
        });
    }
    Ok(())
}

/// Damaged names that are no UTF-8 become empty; the others stay as they are.
#[cold]
fn blank_what_is_no_text(bytes: &[u8], batch: &mut Batch) {
    let mut text = String::with_capacity(bytes.len());
    let mut keep = |range: &mut TextRange| {
        let taken = bytes
            .get(range.start as usize..range.end as usize)
            .unwrap_or_default();
        let start = text.len();
        text.push_str(std::str::from_utf8(taken).unwrap_or_default());
        let clamp = |at| u32::try_from(at).unwrap_or(u32::MAX);
        *range = TextRange {
            start: clamp(start),
            end: clamp(text.len()),
        };
    };
    for entry in &mut batch.functions {
        let names = &mut entry.names;
        [&mut names.linkage, &mut names.full, &mut names.short]
            .into_iter()
            .for_each(&mut keep);
    }
    for entry in &mut batch.files {
        keep(&mut entry.path);
    }
    batch.text = text;
}
