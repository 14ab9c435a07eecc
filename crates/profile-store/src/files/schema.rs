//! The columns of each table, and which of them it is sorted by.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Rows of samples.
    Samples,
    /// Hourly totals of stacks.
    Totals,
    /// Label sets by number.
    Series,
    /// Stacks by number.
    Stacks,
    /// Frames by number.
    Frames,
    /// Stacks by the numbers that writers gave them.
    Numbers,
}

impl Table {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Totals => "totals",
            Self::Series => "series",
            Self::Stacks => "stacks",
            Self::Frames => "frames",
            Self::Numbers => "numbers",
        }
    }

    /// Its columns.
    pub fn schema(self) -> SchemaRef {
        let schemas = &*SCHEMAS;
        Arc::clone(match self {
            Self::Samples => &schemas.samples,
            Self::Totals => &schemas.totals,
            Self::Series => &schemas.series,
            Self::Stacks => &schemas.stacks,
            Self::Frames => &schemas.frames,
            Self::Numbers => &schemas.numbers,
        })
    }

    /// The columns that its rows are sorted by, the first first.
    pub fn sorted_by(self) -> &'static [&'static str] {
        match self {
            Self::Samples => &[
                "service",
                "version",
                "deployment",
                "type",
                "stack_id",
                "ts",
                "series_id",
                "period",
            ],
            Self::Totals => &["service", "version", "deployment", "type", "stack_id"],
            Self::Series => &["series_id"],
            Self::Stacks => &["service", "stack_id"],
            Self::Frames => &["frame_id"],
            Self::Numbers => &["number"],
        }
    }

    /// The columns whose least and greatest value stand in the footer, so that row groups are passed over.
    pub(super) fn with_statistics(self) -> &'static [&'static str] {
        match self {
            Self::Samples => &["service", "version", "deployment", "type", "stack_id", "ts"],
            totals_or_dictionary => totals_or_dictionary.sorted_by(),
        }
    }
}

/// The columns of samples.
pub fn sample_schema() -> SchemaRef {
    Table::Samples.schema()
}

/// The columns of totals.
pub fn total_schema() -> SchemaRef {
    Table::Totals.schema()
}

/// The type of `ts`.
pub(super) fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// The type of `labels` of a series.
pub(super) fn labels_type() -> DataType {
    DataType::Map(
        Arc::new(Field::new(
            "key_value",
            DataType::Struct(label_fields()),
            false,
        )),
        false,
    )
}

pub(super) fn label_fields() -> Fields {
    vec![of("key", DataType::Utf8), of("value", DataType::Utf8)].into()
}

/// An element of `frames` of a stack.
pub(super) fn frame_element() -> Arc<Field> {
    Arc::new(of("element", DataType::Binary))
}

/// An element of `names` of a frame.
pub(super) fn name_element() -> Arc<Field> {
    Arc::new(of("element", DataType::Struct(name_fields())))
}

pub(super) fn name_fields() -> Fields {
    vec![
        of("function", DataType::Utf8),
        of("file_name", DataType::Utf8),
        of("line", DataType::Int64),
    ]
    .into()
}

struct Schemas {
    samples: SchemaRef,
    totals: SchemaRef,
    series: SchemaRef,
    stacks: SchemaRef,
    frames: SchemaRef,
    numbers: SchemaRef,
}

static SCHEMAS: LazyLock<Schemas> = LazyLock::new(|| Schemas {
    samples: schema(labelled_stacks().chain([
        of("ts", time_type()),
        of("series_id", DataType::Int64),
        of("count", DataType::Int64),
        of("period", DataType::Int64),
    ])),
    totals: schema(
        labelled_stacks().chain([of("count", DataType::Int64), of("value", DataType::Int64)]),
    ),
    series: schema([
        of("series_id", DataType::Int64),
        of("service", DataType::Utf8),
        of("version", DataType::Utf8),
        of("deployment", DataType::Utf8),
        of("labels", labels_type()),
    ]),
    stacks: schema([
        of("service", DataType::Utf8),
        of("stack_id", DataType::Binary),
        of("frames", DataType::List(frame_element())),
    ]),
    frames: schema([
        of("frame_id", DataType::Binary),
        of("kind", DataType::Utf8),
        Field::new("id_kind", DataType::Utf8, true),
        Field::new("identity", DataType::Utf8, true),
        Field::new("file_name", DataType::Utf8, true),
        Field::new("address_kind", DataType::Utf8, true),
        Field::new("address", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
        of("names", DataType::List(name_element())),
    ]),
    numbers: schema([
        of("number", DataType::Binary),
        of("stack_id", DataType::Binary),
    ]),
});

fn labelled_stacks() -> impl Iterator<Item = Field> {
    let labels = ["service", "version", "deployment", "type"];
    let labels = labels.into_iter().map(|label| of(label, DataType::Utf8));
    labels.chain([of("stack_id", DataType::Binary)])
}

fn schema(fields: impl IntoIterator<Item = Field>) -> SchemaRef {
    Arc::new(Schema::new(fields.into_iter().collect::<Vec<Field>>()))
}

fn of(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, false)
}
