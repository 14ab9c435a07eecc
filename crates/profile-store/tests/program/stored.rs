//! What a table has, read from its files past the program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row};

/// Sums over rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) count: i128,
    pub(crate) value: i128,
}

/// All files of the table under a folder of it, as `seg`.
pub(crate) fn files(table: &Path, folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![table.join(folder)];
    while let Some(next) = waiting.pop() {
        let Ok(entries) = std::fs::read_dir(&next) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn rows(path: &Path) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(path).expect("a file")).expect("Parquet");
    let rows = reader.get_row_iter(None).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

fn field<'r>(row: &'r Row, name: &str) -> &'r Field {
    let mut columns = row.get_column_iter();
    let found = columns.find(|(column, _)| *column == name);
    found.unwrap_or_else(|| panic!("{row:?} has no {name}")).1
}

fn number(row: &Row, name: &str) -> i128 {
    match field(row, name) {
        Field::Long(number) => (*number).into(),
        other => panic!("{name} is {other:?}"),
    }
}

fn text(row: &Row, name: &str) -> String {
    match field(row, name) {
        Field::Str(text) => text.clone(),
        other => panic!("{name} is {other:?}"),
    }
}

fn bytes(row: &Row, name: &str) -> Vec<u8> {
    match field(row, name) {
        Field::Bytes(bytes) => bytes.data().to_vec(),
        other => panic!("{name} is {other:?}"),
    }
}

/// The sums of all segments, by service and type.
pub(crate) fn sums(table: &Path) -> BTreeMap<(String, String), Sums> {
    let mut sums: BTreeMap<(String, String), Sums> = BTreeMap::new();
    for path in files(table, "seg") {
        for row in rows(&path) {
            let of = sums.entry((text(&row, "service"), text(&row, "type")));
            let of = of.or_default();
            let count = number(&row, "count");
            of.count += count;
            of.value += count * number(&row, "period");
        }
    }
    sums
}

/// The sums of one service's CPU time.
pub(crate) fn cpu(table: &Path, service: &str) -> Sums {
    let key = (service.to_owned(), "cpu".to_owned());
    sums(table).get(&key).copied().unwrap_or_default()
}

/// Fails if a row refers to a number, or a number to a stack, or a stack to a frame, or a row to a series, that the dictionary of its hour does not have.
pub(crate) fn assert_dictionary_is_whole(table: &Path) {
    let hour = |path: &Path| {
        let folder = path.parent().expect("an hour");
        let within = folder.strip_prefix(table).expect("below the table");
        within.components().skip(1).collect::<PathBuf>()
    };
    let mut has: BTreeMap<PathBuf, [BTreeSet<Vec<u8>>; 3]> = BTreeMap::new();
    let mut stacks: BTreeMap<(PathBuf, Vec<u8>), Vec<u8>> = BTreeMap::new();
    let mut wants: BTreeMap<PathBuf, [BTreeSet<Vec<u8>>; 3]> = BTreeMap::new();
    for path in files(table, "dic") {
        // Records of merges say which files are enough; here all are read.
        if path
            .extension()
            .is_none_or(|extension| extension != "parquet")
        {
            continue;
        }
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let has = has.entry(hour(&path)).or_default();
        let wants = wants.entry(hour(&path)).or_default();
        for row in rows(&path) {
            if name.contains(".series.") {
                has[0].insert(number(&row, "series_id").to_le_bytes().to_vec());
            } else if name.contains(".stacks.") {
                let stack = [text(&row, "service").into_bytes(), bytes(&row, "stack_id")];
                has[1].insert(stack.concat());
                let Field::ListInternal(frames) = field(&row, "frames") else {
                    panic!("{row:?}");
                };
                for frame in frames.elements() {
                    let Field::Bytes(frame) = frame else {
                        panic!("{frame:?}");
                    };
                    wants[2].insert(frame.data().to_vec());
                }
            } else if name.contains(".numbers.") {
                let number = (hour(&path), bytes(&row, "number"));
                let stack = bytes(&row, "stack_id");
                let before = stacks.insert(number, stack.clone());
                assert!(before.is_none_or(|before| before == stack), "{row:?}");
            } else if name.contains(".frames.") {
                has[2].insert(bytes(&row, "frame_id"));
            }
        }
    }
    for path in files(table, "seg") {
        let wants = wants.entry(hour(&path)).or_default();
        for row in rows(&path) {
            wants[0].insert(number(&row, "series_id").to_le_bytes().to_vec());
            let number = bytes(&row, "stack_id");
            assert_eq!(number.len(), 12, "segments have numbers: {row:?}");
            let stack = stacks.get(&(hour(&path), number));
            let stack = stack.unwrap_or_else(|| panic!("its number is not known: {row:?}"));
            wants[1].insert([text(&row, "service").as_bytes(), stack].concat());
        }
    }
    assert!(!wants.is_empty(), "nothing is stored");
    for (hour, wants) in wants {
        let has = has.get(&hour).cloned().unwrap_or_default();
        for (kind, (wants, has)) in wants.iter().zip(&has).enumerate() {
            let missing = wants.difference(has).count();
            let kind = ["series", "stacks", "frames"][kind];
            assert_eq!(missing, 0, "{kind} of {} are missing", hour.display());
        }
    }
}
