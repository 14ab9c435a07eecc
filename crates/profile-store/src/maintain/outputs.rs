//! The outputs of one kind: sorted rows into files of a bounded size, each put as soon as it is full.

use datafusion::prelude::DataFrame;
use futures_util::TryStreamExt as _;

use super::MaintainError;
use super::adding::Adding;
use super::rows::merged;
use super::sums::{self, TableSums};
use crate::clock::Clock;
use crate::files::{Packing, Table, TableWriter};
use crate::objects::Objects;
use crate::table::names::{ContentHash, FileKind, Hour, Output, OutputName, PublishId};

/// Writes the outputs of one kind of a compaction.
#[derive(Debug)]
pub(super) struct Outputs {
    pub(super) objects: Objects,
    pub(super) clock: Clock,
    pub(super) hour: Hour,
    pub(super) id: PublishId,
    pub(super) kind: FileKind,
    pub(super) bytes_max: usize,
}

/// What was put.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) outputs: Vec<Output>,
    pub(super) sums: TableSums,
}

impl Outputs {
    /// The rows of a frame that has these sums, merged and put.
    pub(super) async fn of(self, frame: DataFrame, sums: TableSums) -> Result<Made, MaintainError> {
        let table = table(self.kind);
        let merged = merged(frame, table, sums)?;
        let mut rows = merged
            .frame
            .execute_stream()
            .await
            .map_err(super::EngineError::from)?;
        let mut adding = (!merged.is_added_up).then(|| Adding::new(table));
        let mut made = Made::default();
        let mut writer = None;
        while let Some(batch) = rows.try_next().await.map_err(super::EngineError::from)? {
            let batch = match &mut adding {
                None => Some(batch),
                Some(adding) => adding.push(&batch)?,
            };
            let Some(batch) = batch else { continue };
            let mut open = match writer.take() {
                Some(open) => open,
                None => TableWriter::new(table, Packing::Compacted)?,
            };
            open.write(&batch)?;
            if open.bytes() < self.bytes_max {
                writer = Some(open);
            } else {
                self.put(open, &mut made).await?;
            }
        }
        if let Some(batch) = adding.and_then(Adding::finish) {
            let mut open = match writer.take() {
                Some(open) => open,
                None => TableWriter::new(table, Packing::Compacted)?,
            };
            open.write(&batch)?;
            writer = Some(open);
        }
        if let Some(open) = writer {
            self.put(open, &mut made).await?;
        }
        Ok(made)
    }

    async fn put(&self, writer: TableWriter, made: &mut Made) -> Result<(), MaintainError> {
        let written = writer.finish()?;
        if written.rows == 0 {
            return Ok(());
        }
        made.sums
            .add(sums::of_file(&written.bytes, table(self.kind))?);
        let name = OutputName {
            hour: self.hour,
            id: self.id,
            kind: self.kind,
            sha256: ContentHash::of(&written.bytes),
            rows: written.rows,
        };
        let bytes = written.bytes.len() as u64;
        self.id.check_publish(self.clock.now())?;
        self.objects.put(&name.to_string(), written.bytes).await?;
        made.outputs.push(Output { name, bytes });
        Ok(())
    }
}

/// The schema of a kind of file.
pub(super) fn table(kind: FileKind) -> Table {
    match kind {
        FileKind::Samples => Table::Samples,
        FileKind::Totals => Table::Totals,
    }
}
