//! Keys of the dictionaries: `dic/<hour>/<publish>.<table>.<sha256>.<rows>.parquet` and `dic/<hour>/<publish>.merged.json`.

use std::fmt;
use std::str::FromStr;

use crate::table::names::{
    ContentHash, Hour, KEY_BYTES_MAX, ParseNameError, PublishId, parse_rows, shape, split,
};

/// The folder of all dictionaries.
pub const DICTIONARIES: &str = "dic/";

const FILE_SUFFIX: &str = ".parquet";
const MERGE_SUFFIX: &str = ".merged.json";
const SHAPE: &str = "dic/<date>/<hour>/<publish>.<table>.<sha256>.<rows>.parquet or dic/<date>/<hour>/<publish>.merged.json";
const STEM_SHAPE: &str = "<publish>.<table>.<sha256>.<rows>";

/// What numbers a file explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DictionaryTable {
    /// Label sets.
    Series,
    /// Stacks of frames.
    Stacks,
    /// Frames.
    Frames,
    /// Stacks, by the numbers that writers gave them.
    Numbers,
}

/// The name of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DictionaryName {
    /// The hour whose rows need it.
    pub hour: Hour,
    /// Its publish: that of an append, or of a merge.
    pub id: PublishId,
    /// What it explains.
    pub table: DictionaryTable,
    /// The SHA-256 of its bytes.
    pub sha256: ContentHash,
    /// Its rows, at least 1.
    pub rows: u64,
}

/// A file that is there, or that a record says is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DictionaryFile {
    /// Its name.
    pub name: DictionaryName,
    /// Its length.
    pub bytes: u64,
}

/// The name of the record of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MergeName {
    /// The hour whose files were merged.
    pub hour: Hour,
    /// Its publish.
    pub id: PublishId,
}

/// Anything below [`DICTIONARIES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DictionaryObject {
    /// A file.
    File(DictionaryName),
    /// The record of a merge.
    Merge(MergeName),
}

impl DictionaryTable {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Series, Self::Stacks, Self::Frames, Self::Numbers];

    /// The word in names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Series => "series",
            Self::Stacks => "stacks",
            Self::Frames => "frames",
            Self::Numbers => "numbers",
        }
    }
}

impl DictionaryName {
    /// `<publish>.<table>.<sha256>.<rows>`: the name within an hour, as records write it.
    pub fn stem(&self) -> String {
        let (id, table, sha256) = (self.id, self.table.as_str(), self.sha256);
        format!("{id}.{table}.{sha256}.{}", self.rows)
    }

    /// The name that a [`Self::stem`] stands for.
    ///
    /// # Errors
    /// If it is none.
    pub fn of_stem(hour: Hour, stem: &str) -> Result<Self, ParseNameError> {
        let mut parts = stem.splitn(4, '.');
        let (Some(id), Some(word), Some(sha256), Some(rows)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(shape(stem, STEM_SHAPE));
        };
        let mut tables = DictionaryTable::ALL.into_iter();
        let table = tables.find(|table| table.as_str() == word);
        Ok(Self {
            hour,
            id: id.parse()?,
            table: table.ok_or_else(|| shape(stem, STEM_SHAPE))?,
            sha256: sha256.parse()?,
            rows: parse_rows(rows)?,
        })
    }
}

impl FromStr for DictionaryObject {
    type Err = ParseNameError;

    fn from_str(key: &str) -> Result<Self, Self::Err> {
        if key.len() > KEY_BYTES_MAX {
            return Err(ParseNameError::TooLong(key.len()));
        }
        let rest = key.strip_prefix(DICTIONARIES);
        let rest = rest.ok_or_else(|| ParseNameError::OtherFolder(key.to_owned()))?;
        let (hour, name) = split(key, rest, SHAPE)?;
        if let Some(id) = name.strip_suffix(MERGE_SUFFIX) {
            let id = id.parse()?;
            return Ok(Self::Merge(MergeName { hour, id }));
        }
        let stem = name.strip_suffix(FILE_SUFFIX);
        let stem = stem.ok_or_else(|| shape(key, SHAPE))?;
        Ok(Self::File(DictionaryName::of_stem(hour, stem)?))
    }
}

impl fmt::Display for DictionaryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{DICTIONARIES}{}/{}{FILE_SUFFIX}",
            self.hour,
            self.stem()
        )
    }
}

impl fmt::Display for MergeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{DICTIONARIES}{}/{}{MERGE_SUFFIX}", self.hour, self.id)
    }
}

impl fmt::Display for DictionaryObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(name) => name.fmt(f),
            Self::Merge(name) => name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_as_written_and_nothing_else_is_one() {
        let hash = "5a9b9a3de2f37ff61337dc1c679a617258272ff8f48680f90fcc8dc82ab368bf";
        let id = "01a22cdf8cb5f6f38a8aee1bf2033d36";
        for key in [
            format!("dic/2026-12-01/13/{id}.stacks.{hash}.7.parquet"),
            format!("dic/2026-12-01/13/{id}.merged.json"),
        ] {
            let name: DictionaryObject = key.parse().unwrap();
            assert_eq!(name.to_string(), key);
        }
        for key in [
            format!("seg/2026-12-01/13/{id}.stacks.{hash}.7.parquet"),
            format!("dic/2026-12-01/24/{id}.stacks.{hash}.7.parquet"),
            format!("dic/2026-12-01/13/{id}.samples.{hash}.7.parquet"),
            format!("dic/2026-12-01/13/{id}.stacks.{hash}.07.parquet"),
            format!("dic/2026-12-01/13/{id}.stacks.{hash}.0.parquet"),
            format!("dic/2026-12-01/13/{id}.stacks.{hash}.parquet"),
            format!("dic/2026-12-01/13/{id}.json"),
            format!("dic/2026-12-01/13/{}.merged.json", id.to_uppercase()),
            "dic/".repeat(200),
        ] {
            assert!(key.parse::<DictionaryObject>().is_err(), "{key}");
        }
    }
}
