//! From a model to the bytes of an index: the same model always gives the same bytes.
//!
//! First everything is numbered anew (nodes by first use, functions and files by name), then each
//! section is packed and what it was made from is dropped, so that the peak stays near the model's
//! own size.

mod files;
mod names;
mod nodes;
mod numbering;
mod own_files;
mod rows;
mod symbols;

use std::io::Write;

use super::error::WriteError;
use super::facts::Facts;
use super::layout::{
    ENTRY_BYTES, FORMAT_VERSION, FRONT_BYTES, MAGIC, SECTION_ALIGN_BYTES, Section, checksum,
};
use crate::CONVERTER_VERSION;
use crate::model::Model;

/// Lines and columns are cut here: their widths are five bits.
const POSITION_MAX: u32 = (1 << 31) - 2;
/// Nodes, functions and files: their numbers and one fit 31 bits.
const COUNT_MAX: u32 = (1 << 31) - 2;

/// Writes `model` as a symbol index and says what is in it.
///
/// Rows outside every function keep no line, since an address there has no frames. Functions,
/// nodes and files that nothing refers to are left out.
///
/// # Errors
/// If the model refers to what it does not have, its rows are out of order, it is beyond what the
/// format can count (2^31 nodes, 4 GiB in a section), or `out` fails.
pub fn write(mut model: Model, out: &mut impl Write) -> Result<Facts, WriteError> {
    let mut facts = Facts::of_model(std::mem::take(&mut model.header), CONVERTER_VERSION);
    numbering::check(&model)?;
    let numbered = numbering::number(model);
    let numbering::Numbered {
        rows,
        nodes,
        functions,
        files,
    } = numbered;
    let own = own_files::own_files(&rows, &nodes, functions.len());
    facts.nodes = count("nodes", nodes.len())?;
    facts.functions = count("functions", functions.len())?;
    facts.files = count("files", files.len())?;
    facts.lines = rows.iter().filter(|row| row.line != 0).count() as u64;

    let packed_rows = rows::pack(&rows, &own.of_nodes)?;
    facts.rows = packed_rows.rows;
    drop(rows);
    let packed_nodes = nodes::pack(&nodes, &own)?;
    drop(nodes);
    let packed_names = names::pack(&functions, &own.of_functions)?;
    drop(functions);
    let packed_files = files::pack(&files)?;
    drop(files);

    let mut symbol_tables = packed_names.linkage_symbols;
    symbol_tables.extend(packed_names.full_symbols);
    symbol_tables.extend(packed_files.symbols);
    let usual_files = own_files::table(&own.of_functions, facts.files);
    assemble(
        &[
            (Section::Facts, facts.to_bytes(packed_names.attribute)),
            (Section::Segments, packed_rows.segments),
            (Section::SymbolTables, symbol_tables),
            (Section::RowStarts, packed_rows.starts),
            (Section::RowOffsets, packed_rows.offsets),
            (Section::NodeOffsets, packed_nodes.offsets),
            (Section::FunctionOffsets, packed_names.offsets),
            (Section::FunctionFiles, usual_files),
            (Section::DirectoryOffsets, packed_files.directory_offsets),
            (Section::FileOffsets, packed_files.offsets),
            (Section::Rows, packed_rows.data),
            (Section::Nodes, packed_nodes.data),
            (Section::Functions, packed_names.data),
            (Section::Directories, packed_files.directories),
            (Section::Files, packed_files.data),
        ],
        out,
    )?;
    Ok(facts)
}

/// Writes front, section table and sections, each at a multiple of eight.
fn assemble(sections: &[(Section, Vec<u8>)], out: &mut impl Write) -> Result<(), WriteError> {
    let aligned = |length: usize| length.next_multiple_of(SECTION_ALIGN_BYTES);
    let mut table = Vec::new();
    let mut offset = aligned(FRONT_BYTES + sections.len() * ENTRY_BYTES);
    for (section, bytes) in sections {
        table.extend((*section as u32).to_le_bytes());
        table.extend(checksum(bytes).to_le_bytes());
        table.extend((offset as u64).to_le_bytes());
        table.extend((bytes.len() as u64).to_le_bytes());
        offset = aligned(offset + bytes.len());
    }
    let mut covered = (offset as u64).to_le_bytes().to_vec();
    covered.extend(table);

    out.write_all(&MAGIC)?;
    out.write_all(&FORMAT_VERSION.to_le_bytes())?;
    out.write_all(&CONVERTER_VERSION.to_le_bytes())?;
    out.write_all(&count("sections", sections.len())?.to_le_bytes())?;
    out.write_all(&checksum(&covered).to_le_bytes())?;
    out.write_all(&covered)?;
    for (_, bytes) in sections {
        out.write_all(bytes)?;
        let padding = aligned(bytes.len()) - bytes.len();
        out.write_all([0; SECTION_ALIGN_BYTES].get(..padding).unwrap_or_default())?;
    }
    out.flush()?;
    Ok(())
}

fn count(what: &'static str, value: usize) -> Result<u32, WriteError> {
    let narrow = u32::try_from(value)
        .ok()
        .filter(|count| *count <= COUNT_MAX);
    narrow.ok_or(WriteError::TooLarge {
        what,
        limit: u64::from(COUNT_MAX),
    })
}

/// An offset in a section, of which at most 4 GiB can be addressed.
fn offset_in(what: &'static str, data: &[u8]) -> Result<[u8; 4], WriteError> {
    let narrow = u32::try_from(data.len()).map(u32::to_le_bytes);
    narrow.map_err(|_error| WriteError::TooLarge {
        what,
        limit: u64::from(u32::MAX),
    })
}
