//! The rows of live files as one `DataFrame`: files that the same rows are deleted of are scanned together.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::logical_expr::{Expr, ident};
use datafusion::prelude::DataFrame;

use super::deleted::kept;
use super::file_table::{FileTable, HOUR, ScanFile};
use super::{Engine, EngineError};
use crate::files;
use crate::table::fold::{File, LiveFile};
use crate::table::names::Hour;
use crate::table::record::RowSelector;

/// Files of one schema, of which the same rows are deleted.
#[derive(Debug)]
struct Group<'a> {
    deleted: Vec<&'a RowSelector>,
    files: Vec<ScanFile>,
}

/// The columns of [`Engine::samples`], in order.
pub fn sample_columns() -> SchemaRef {
    views(&files::sample_schema())
}

/// The columns of [`Engine::totals`], in order, without the hour, which is the last.
pub fn total_columns() -> SchemaRef {
    views(&files::total_schema())
}

/// Texts and hashes as views, of which the reader copies nothing and which are compared by their first bytes.
fn views(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let kind = match field.data_type() {
            DataType::Utf8 => DataType::Utf8View,
            DataType::Binary => DataType::BinaryView,
            other => other.clone(),
        };
        Field::new(field.name(), kind, field.is_nullable())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Rows of samples, of segments and outputs.
pub(super) fn samples<'a>(
    engine: &Engine,
    live: impl IntoIterator<Item = (Hour, &'a LiveFile)>,
) -> Result<DataFrame, EngineError> {
    let groups = grouped(live, |_| true);
    let columns = names(&sample_columns());
    let scanned = scanned(engine, &sample_columns(), groups)?;
    Ok(scanned.select(columns)?)
}

/// Rows of totals: of outputs, and of segments, each row of which is a total of its own.
pub(super) fn totals<'a>(
    engine: &Engine,
    live: impl IntoIterator<Item = (Hour, &'a LiveFile)>,
) -> Result<DataFrame, EngineError> {
    let live: Vec<_> = live.into_iter().collect();
    let outputs = grouped(live.iter().copied(), |file| matches!(file, File::Output(_)));
    let segments = grouped(live, |file| matches!(file, File::Segment(_)));
    let mut columns = names(&total_columns());
    columns.push(ident(HOUR));
    let mut valued = names(&total_columns());
    valued.retain(|column| *column != ident("value"));
    valued.push((ident("count") * ident("period")).alias("value"));
    valued.push(ident(HOUR));
    let is_compacted = segments.is_empty();
    let outputs = scanned(engine, &total_columns(), outputs)?.select(columns.clone())?;
    if is_compacted {
        return Ok(outputs);
    }
    let segments = scanned(engine, &sample_columns(), segments)?
        .select(valued)?
        .select(columns)?;
    Ok(outputs.union(segments)?)
}

fn names(schema: &Schema) -> Vec<Expr> {
    let fields = schema.fields().iter();
    fields.map(|field| ident(field.name())).collect()
}

fn grouped<'a>(
    live: impl IntoIterator<Item = (Hour, &'a LiveFile)>,
    is_wanted: impl Fn(&File) -> bool,
) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (hour, live) in live.into_iter().filter(|(_, live)| is_wanted(&live.file)) {
        let file = ScanFile {
            key: live.file.to_string(),
            bytes: live.bytes,
            rows: live.file.rows(),
            hour,
        };
        let deleted: Vec<&RowSelector> = live.deleted().collect();
        // Neighbours mostly have the same; retention makes a few sets.
        let group = groups.iter_mut().rev().find(|g| g.deleted == deleted);
        match group {
            Some(group) => group.files.push(file),
            None => groups.push(Group {
                deleted,
                files: vec![file],
            }),
        }
    }
    groups
}

fn scanned(
    engine: &Engine,
    schema: &SchemaRef,
    groups: Vec<Group<'_>>,
) -> Result<DataFrame, EngineError> {
    let table = |files| {
        let table = FileTable::new(engine, Arc::clone(schema), files);
        engine.context().read_table(Arc::new(table))
    };
    let mut all: Option<DataFrame> = None;
    for group in groups {
        let mut frame = table(group.files)?;
        for deleted in group.deleted {
            frame = frame.filter(kept(deleted))?;
        }
        all = Some(match all {
            None => frame,
            Some(all) => all.union(frame)?,
        });
    }
    match all {
        Some(all) => Ok(all),
        None => Ok(table(Vec::new())?),
    }
}
