//! Frames as rows: what is kept of each, so that [`FrameContent`] comes back exactly.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, BinaryArray, Int64Array, ListArray, RecordBatch,
    StringArray, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::Int64Type;
use unhex_build_id::Identity;
use unhex_pprof::{CodeAddress, FrameHash};

use super::BATCH_ROWS;
use super::columns::{Columns, text};
use crate::files::schema::{Table, name_element, name_fields};
use crate::files::{FileError, Packing, TableWriter, WrittenTable};
use crate::rows::{FrameContent, FrameName, NativeFrame};

/// A file of frames, each once; of two with one number the lesser.
///
/// # Errors
/// If the encoder fails.
pub fn frames_to_parquet<'f>(
    frames: impl IntoIterator<Item = (FrameHash, &'f FrameContent)>,
    packing: Packing,
) -> Result<WrittenTable, FileError> {
    let mut all: BTreeMap<FrameHash, &FrameContent> = BTreeMap::new();
    for (number, content) in frames {
        match all.entry(number) {
            Entry::Vacant(entry) => {
                entry.insert(content);
            }
            Entry::Occupied(mut entry) if content < *entry.get() => {
                entry.insert(content);
            }
            Entry::Occupied(_) => {}
        }
    }
    let all: Vec<(FrameHash, &FrameContent)> = all.into_iter().collect();
    let mut writer = TableWriter::new(Table::Frames, packing)?;
    for some in all.chunks(BATCH_ROWS) {
        writer.write(&batch(some)?)?;
    }
    writer.finish()
}

/// A frame as the columns have it.
#[derive(Debug, Default)]
struct Flat<'f> {
    kind: &'static str,
    identity: Option<(&'static str, String)>,
    file_name: Option<&'f str>,
    address: Option<(&'static str, u64)>,
    text: Option<&'f str>,
    names: &'f [FrameName],
}

const LINK: &str = "link";
const FILE_OFFSET: &str = "file_offset";

impl<'f> Flat<'f> {
    fn of(content: &'f FrameContent) -> Self {
        match content {
            FrameContent::Native(native) => Self::native("native", native),
            FrameContent::Vdso(native) => Self::native("vdso", native),
            FrameContent::Named { language, names } => Self {
                kind: "named",
                text: Some(language),
                names,
                ..Self::default()
            },
            FrameContent::Kernel { file_name, names } => Self {
                kind: "kernel",
                file_name: Some(file_name),
                names,
                ..Self::default()
            },
            FrameContent::MissingUnwinder { runtime } => Self {
                kind: "missing_unwinder",
                text: Some(runtime),
                ..Self::default()
            },
            FrameContent::Truncated { reason } => Self {
                kind: "truncated",
                text: Some(reason),
                ..Self::default()
            },
            FrameContent::Unplaced { file_name } => Self {
                kind: "unplaced",
                file_name: Some(file_name),
                ..Self::default()
            },
        }
    }

    fn native(kind: &'static str, native: &'f NativeFrame) -> Self {
        let identity = native.identity.as_ref();
        Self {
            kind,
            identity: identity.map(|of| (of.kind().as_str(), of.to_string())),
            file_name: Some(&native.file_name),
            address: Some(match native.address {
                CodeAddress::Link(address) => (LINK, address),
                CodeAddress::FileOffset(offset) => (FILE_OFFSET, offset),
            }),
            ..Self::default()
        }
    }
}

fn batch(frames: &[(FrameHash, &FrameContent)]) -> Result<RecordBatch, FileError> {
    let flat: Vec<Flat<'_>> = frames
        .iter()
        .map(|(_, content)| Flat::of(content))
        .collect();
    let texts = |of: fn(&Flat<'_>) -> Option<String>| -> ArrayRef {
        Arc::new(flat.iter().map(of).collect::<StringArray>())
    };
    let numbers = frames.iter().map(|(number, _)| number.0);
    let addresses = flat.iter().map(|flat| Some(flat.address?.1.cast_signed()));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BinaryArray::from_iter_values(numbers)),
        texts(|flat| Some(flat.kind.to_owned())),
        texts(|flat| flat.identity.as_ref().map(|of| of.0.to_owned())),
        texts(|flat| flat.identity.as_ref().map(|of| of.1.clone())),
        texts(|flat| flat.file_name.map(str::to_owned)),
        texts(|flat| flat.address.map(|of| of.0.to_owned())),
        Arc::new(addresses.collect::<Int64Array>()),
        texts(|flat| flat.text.map(str::to_owned)),
        Arc::new(names(&flat)?),
    ];
    Ok(RecordBatch::try_new(Table::Frames.schema(), columns)?)
}

fn names(flat: &[Flat<'_>]) -> Result<ListArray, FileError> {
    // The encoder wants to know how many there are.
    let all: Vec<&FrameName> = flat.iter().flat_map(|flat| flat.names).collect();
    let functions = StringArray::from_iter_values(all.iter().map(|name| &name.function));
    let files = StringArray::from_iter_values(all.iter().map(|name| &name.file_name));
    let lines = Int64Array::from_iter_values(all.iter().map(|name| name.line));
    let fields: Vec<ArrayRef> = vec![Arc::new(functions), Arc::new(files), Arc::new(lines)];
    let names = StructArray::try_new(name_fields(), fields, None)?;
    let offsets = OffsetBuffer::from_lengths(flat.iter().map(|flat| flat.names.len()));
    Ok(ListArray::try_new(
        name_element(),
        offsets,
        Arc::new(names),
        None,
    )?)
}

/// The frames of a batch.
pub(super) fn read(
    key: &str,
    batch: &RecordBatch,
) -> Result<Vec<(FrameHash, FrameContent)>, FileError> {
    let reader = Reader::of(Columns::of(key, batch))?;
    let rows = 0..reader.columns.rows();
    rows.map(|row| {
        let number = reader.columns.number(reader.numbers, row)?;
        Ok((FrameHash(number), reader.content(row)?))
    })
    .collect()
}

#[derive(Debug)]
struct Reader<'b> {
    columns: Columns<'b>,
    numbers: &'b BinaryArray,
    kinds: &'b StringArray,
    id_kinds: &'b StringArray,
    identities: &'b StringArray,
    file_names: &'b StringArray,
    address_kinds: &'b StringArray,
    addresses: &'b Int64Array,
    texts: &'b StringArray,
    names: &'b ListArray,
}

impl<'b> Reader<'b> {
    fn of(columns: Columns<'b>) -> Result<Self, FileError> {
        let addresses = columns.column("address")?.as_primitive_opt::<Int64Type>();
        let names = columns.column("names")?.as_list_opt::<i32>();
        Ok(Self {
            columns,
            numbers: columns.numbers("frame_id")?,
            kinds: columns.texts("kind")?,
            id_kinds: columns.texts("id_kind")?,
            identities: columns.texts("identity")?,
            file_names: columns.texts("file_name")?,
            address_kinds: columns.texts("address_kind")?,
            addresses: addresses.ok_or_else(|| columns.unsound("column address has no numbers"))?,
            texts: columns.texts("text")?,
            names: names.ok_or_else(|| columns.unsound("column names is no list"))?,
        })
    }

    fn content(&self, row: usize) -> Result<FrameContent, FileError> {
        let text = |column| Arc::<str>::from(text(column, row).unwrap_or_default());
        Ok(match self.kinds.value(row) {
            "native" => FrameContent::Native(self.native(row)?),
            "vdso" => FrameContent::Vdso(self.native(row)?),
            "named" => FrameContent::Named {
                language: text(self.texts),
                names: self.names(row)?,
            },
            "kernel" => FrameContent::Kernel {
                file_name: text(self.file_names),
                names: self.names(row)?,
            },
            "missing_unwinder" => FrameContent::MissingUnwinder {
                runtime: text(self.texts),
            },
            "truncated" => FrameContent::Truncated {
                reason: text(self.texts),
            },
            "unplaced" => FrameContent::Unplaced {
                file_name: text(self.file_names),
            },
            // A newer version's: its names are not known here, and neither is what it means.
            other => {
                return Err(self
                    .columns
                    .unsound(format!("a frame of the kind {other:?}")));
            }
        })
    }

    fn native(&self, row: usize) -> Result<NativeFrame, FileError> {
        let identity = match (text(self.id_kinds, row), text(self.identities, row)) {
            (Some(kind), Some(identity)) => Some(self.identity(kind, identity)?),
            _ => None,
        };
        let address = self.addresses.value(row).cast_unsigned();
        let address = match text(self.address_kinds, row) {
            Some(LINK) => CodeAddress::Link(address),
            Some(FILE_OFFSET) => CodeAddress::FileOffset(address),
            other => {
                return Err(self
                    .columns
                    .unsound(format!("an address of the kind {other:?}")));
            }
        };
        Ok(NativeFrame {
            identity,
            file_name: text(self.file_names, row).unwrap_or_default().into(),
            address,
        })
    }

    fn identity(&self, kind: &str, identity: &str) -> Result<Identity, FileError> {
        let unsound = |error: String| self.columns.unsound(error);
        let kind = kind.parse().map_err(|error| unsound(format!("{error}")));
        let identity = Identity::parse(kind?, identity);
        identity.map_err(|error| unsound(format!("{error}")))
    }

    fn names(&self, row: usize) -> Result<Vec<FrameName>, FileError> {
        let names = self.names.value(row);
        let unsound = || self.columns.unsound("column names has no functions");
        let names = names.as_struct_opt().ok_or_else(unsound)?;
        let column = |name: &str| names.column_by_name(name).ok_or_else(unsound);
        let functions = self.columns.text_of("names", column("function")?)?;
        let files = self.columns.text_of("names", column("file_name")?)?;
        let lines = column("line")?.as_primitive_opt::<Int64Type>();
        let lines = lines.ok_or_else(unsound)?;
        let name = |at| FrameName {
            function: functions.value(at).into(),
            file_name: files.value(at).into(),
            line: lines.value(at),
        };
        Ok((0..names.len()).map(name).collect())
    }
}
