//! The log itself: opened, made when there is none, read, committed to.

use std::collections::{BTreeMap, HashMap};

use deltalake_core::kernel::transaction::{CommitBuilder, CommitProperties, TransactionError};
use deltalake_core::kernel::{Add, DataType, LogicalFileView, PrimitiveType, StructField};
use deltalake_core::operations::create::CreateBuilder;
use deltalake_core::protocol::{DeltaOperation, SaveMode};
use deltalake_core::table::builder::parse_table_uri;
use deltalake_core::{DeltaTable, DeltaTableBuilder, DeltaTableError};
use object_store::ObjectStoreExt as _;

use super::wanted::NewFile;
use crate::objects::Objects;
use crate::table::fold::File;

/// Where the log believes that the table lies: its paths are relative, and the store is the table's own.
const ROOT: &str = "memory:///";

const PARTITIONS: [&str; 2] = ["date", "hour"];

/// Commits between two checkpoints: readers read at most so many small objects.
const CHECKPOINT_INTERVAL: &str = "100";

/// How long old parts of the log are kept, as superseded files are.
const RETENTION: &str = "interval 1 days";

/// The table of the log, which is made when there is none.
pub(super) async fn open(objects: &Objects) -> Result<DeltaTable, DeltaTableError> {
    let root = parse_table_uri(ROOT)?;
    let builder = DeltaTableBuilder::from_url(root.clone())?;
    let mut table = builder
        .with_storage_backend(objects.store(), root)
        .build()?;
    match table.load().await {
        Ok(()) => return Ok(table),
        Err(error) if !is_absent(objects, &error).await? => return Err(error),
        Err(_) => {}
    }
    let created = CreateBuilder::new()
        .with_log_store(table.log_store())
        .with_table_name("samples")
        .with_comment("Profiles: one row for samples of one stack, of one series, at one time")
        .with_columns(columns())
        .with_partition_columns(PARTITIONS)
        .with_configuration([
            ("delta.checkpointInterval", Some(CHECKPOINT_INTERVAL)),
            ("delta.logRetentionDuration", Some(RETENTION)),
            ("delta.deletedFileRetentionDuration", Some(RETENTION)),
        ])
        .with_commit_properties(CommitProperties::default().with_max_retries(0));
    if let Ok(table) = created.await {
        return Ok(table);
    }
    // Somebody else made it, probably; otherwise this says why not.
    table.load().await?;
    Ok(table)
}

/// Whether there is no log at all: one that cannot be read must not be made anew.
async fn is_absent(objects: &Objects, error: &DeltaTableError) -> Result<bool, DeltaTableError> {
    if !matches!(
        error,
        DeltaTableError::NotATable(_)
            | DeltaTableError::InvalidVersion(_)
            | DeltaTableError::KernelError(_)
            | DeltaTableError::Kernel { .. }
    ) {
        return Ok(false);
    }
    let store = objects.store();
    let first = store
        .head(&"_delta_log/00000000000000000000.json".into())
        .await;
    let last = store.head(&"_delta_log/_last_checkpoint".into()).await;
    for part in [first, last] {
        match part {
            Ok(_) => return Ok(false),
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

fn columns() -> Vec<StructField> {
    let of = |name: &str, of: PrimitiveType| StructField::nullable(name, DataType::Primitive(of));
    vec![
        of("service", PrimitiveType::String),
        of("version", PrimitiveType::String),
        of("deployment", PrimitiveType::String),
        of("type", PrimitiveType::String),
        of("stack_id", PrimitiveType::Binary),
        of("ts", PrimitiveType::Timestamp),
        of("series_id", PrimitiveType::Long),
        of("count", PrimitiveType::Long),
        of("period", PrimitiveType::Long),
        of("date", PrimitiveType::Date),
        of("hour", PrimitiveType::Integer),
    ]
}

/// The files that the log has, by key.
pub(super) fn files(
    table: &DeltaTable,
) -> Result<BTreeMap<String, LogicalFileView>, DeltaTableError> {
    let files = table.snapshot()?.log_data().into_iter();
    Ok(files.map(|file| (file.path().into_owned(), file)).collect())
}

/// What the log says of a file.
pub(super) fn add(new: &NewFile) -> Add {
    let (hour, id) = match &new.file {
        File::Segment(name) => (name.hour, name.id),
        File::Output(name) => (name.hour, name.id),
    };
    let hour = hour.to_string();
    let (date, hour) = hour.split_once('/').unwrap_or_default();
    // `07` is a text, and 7 the number.
    let hour = hour.strip_prefix('0').unwrap_or(hour);
    let partitions = PARTITIONS.into_iter().zip([date, hour]);
    let partitions: HashMap<String, Option<String>> = partitions
        .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
        .collect();
    Add {
        path: new.file.to_string(),
        partition_values: partitions,
        size: i64::try_from(new.bytes).unwrap_or(i64::MAX),
        modification_time: id.began().as_millisecond(),
        data_change: new.is_change,
        stats: Some(format!("{{\"numRecords\":{}}}", new.file.rows())),
        ..Add::default()
    }
}

/// Commits, unless somebody else was first.
pub(super) async fn commit(
    table: &mut DeltaTable,
    actions: Vec<deltalake_core::kernel::Action>,
) -> Result<bool, DeltaTableError> {
    let operation = DeltaOperation::Write {
        mode: SaveMode::Append,
        partition_by: Some(PARTITIONS.map(str::to_owned).to_vec()),
        predicate: None,
    };
    let commit = CommitBuilder::from(CommitProperties::default().with_max_retries(0))
        .with_actions(actions)
        .build(Some(table.snapshot()?), table.log_store(), operation)
        .await;
    match commit {
        Ok(done) => {
            table.state = Some(done.snapshot());
            Ok(true)
        }
        Err(DeltaTableError::Transaction { source }) if is_conflict(&source) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_conflict(error: &TransactionError) -> bool {
    matches!(
        error,
        TransactionError::VersionAlreadyExists(_)
            | TransactionError::MaxCommitAttempts(_)
            | TransactionError::CommitConflict(_)
    )
}
