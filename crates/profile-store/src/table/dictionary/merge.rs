//! The record of a merge: which files it wrote, and which these replace.

use serde::{Deserialize, Serialize};

use super::name::{DictionaryFile, DictionaryName, DictionaryObject, MergeName};
use crate::table::names::{Hour, ParseNameError, PublishId};
use crate::table::record::{
    RECORD_BYTES_MAX, RECORD_VERSION, ReadRecordError, UnsoundRecordError, WriteRecordError,
    at_most, distinct, parsed, seal, versioned,
};

/// Files that one merge replaces: a hundred replicas that write three a second for ten minutes are 180,000.
pub const REPLACED_MAX: usize = 200_000;

/// Files that one merge writes: one of each table, or some more of an hour with many millions of stacks.
pub const OUTPUTS_MAX: usize = 256;

/// A merge: everything that `replaces` said is in `outputs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// Its publish; the outputs have the same.
    pub id: PublishId,
    /// The hour of all that it names.
    pub hour: Hour,
    /// What it wrote, before this record.
    pub outputs: Vec<DictionaryFile>,
    /// What it read.
    pub replaces: Vec<DictionaryName>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    id: String,
    hour: String,
    outputs: Vec<WrittenOutput>,
    /// [`DictionaryName::stem`] each.
    replaces: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOutput {
    key: String,
    bytes: u64,
}

impl Merge {
    /// Its name, and so its key.
    pub fn name(&self) -> MergeName {
        let (hour, id) = (self.hour, self.id);
        MergeName { hour, id }
    }

    /// The JSON that is stored.
    ///
    /// # Errors
    /// If [`Self::read`] would refuse it.
    pub fn to_json(&self) -> Result<Vec<u8>, WriteRecordError> {
        self.check()?;
        let outputs = self.outputs.iter().map(|output| WrittenOutput {
            key: output.name.to_string(),
            bytes: output.bytes,
        });
        let written = Written {
            version: RECORD_VERSION,
            id: self.id.to_string(),
            hour: self.hour.to_string(),
            outputs: outputs.collect(),
            replaces: self.replaces.iter().map(DictionaryName::stem).collect(),
        };
        let json = seal::seal(serde_json::to_vec(&written)?);
        if json.len() > RECORD_BYTES_MAX {
            return Err(WriteRecordError::TooLong(json.len()));
        }
        Ok(json)
    }

    /// The record in `json`, which has to be the one that its key names.
    ///
    /// # Errors
    /// If it is damaged, of another version, another record, or says what cannot be.
    pub fn read(json: &[u8], name: MergeName) -> Result<Self, ReadRecordError> {
        versioned(json)?;
        let written: Written = parsed(&seal::open(json)?)?;
        let merge = written.into_merge()?;
        for (field, found, expected) in [
            ("hour", merge.hour.to_string(), name.hour.to_string()),
            ("ID", merge.id.to_string(), name.id.to_string()),
        ] {
            if found != expected {
                return Err(ReadRecordError::OtherKey {
                    field,
                    found,
                    expected,
                });
            }
        }
        Ok(merge)
    }

    fn check(&self) -> Result<(), UnsoundRecordError> {
        at_most("outputs", self.outputs.len(), OUTPUTS_MAX)?;
        at_most("files replaced", self.replaces.len(), REPLACED_MAX)?;
        if self.outputs.is_empty() {
            return Err(UnsoundRecordError::None("outputs"));
        }
        let is_own = |name: &DictionaryName| name.hour == self.hour && name.id == self.id;
        let alien = self.outputs.iter().find(|output| !is_own(&output.name));
        if let Some(alien) = alien {
            return Err(UnsoundRecordError::OtherPublish(alien.name.to_string()));
        }
        // What replaced itself would be gone.
        let own = self.replaces.iter();
        let own = own
            .into_iter()
            .find(|name| name.hour != self.hour || name.id == self.id);
        if let Some(own) = own {
            return Err(UnsoundRecordError::OtherPublish(own.to_string()));
        }
        distinct(self.outputs.iter().map(|output| output.name))?;
        distinct(self.replaces.iter().copied())?;
        Ok(())
    }
}

impl Written {
    fn into_merge(self) -> Result<Merge, UnsoundRecordError> {
        let hour: Hour = self.hour.parse().map_err(ParseNameError::Hour)?;
        let outputs = self.outputs.iter().map(|output| match output.key.parse()? {
            DictionaryObject::File(name) => Ok(DictionaryFile {
                name,
                bytes: output.bytes,
            }),
            DictionaryObject::Merge(_) => Err(UnsoundRecordError::OtherPublish(output.key.clone())),
        });
        let replaces = self.replaces.iter();
        let replaces = replaces.map(|stem| DictionaryName::of_stem(hour, stem));
        let merge = Merge {
            id: self.id.parse().map_err(ParseNameError::PublishId)?,
            hour,
            outputs: outputs.collect::<Result<_, UnsoundRecordError>>()?,
            replaces: replaces.collect::<Result<_, ParseNameError>>()?,
        };
        merge.check()?;
        Ok(merge)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The name and the JSON of the example in the document.
    fn example() -> (MergeName, Value) {
        let document = include_str!("../../../../../docs/profile-table.md");
        let mut parts = document.split("```json\n");
        let mut before = parts.next().unwrap();
        for part in parts {
            let key = before.trim_end().rsplit('`').nth(1).unwrap();
            if let Ok(DictionaryObject::Merge(name)) = key.parse() {
                let json = part.split_once("```").unwrap().0;
                return (name, serde_json::from_str(json).unwrap());
            }
            before = part;
        }
        panic!("no example of a merge");
    }

    fn read(value: &Value, name: MergeName) -> Result<Merge, ReadRecordError> {
        Merge::read(&seal::seal(serde_json::to_vec(value).unwrap()), name)
    }

    #[test]
    fn the_example_of_the_document_is_read_and_written_back() {
        let (name, value) = example();
        let merge = read(&value, name).unwrap();
        assert_eq!((merge.name(), merge.replaces.len()), (name, 2));
        let json = merge.to_json().unwrap();
        assert_eq!(Merge::read(&json, name), Ok(merge));
        let mut written: Value = serde_json::from_slice(&json).unwrap();
        written.as_object_mut().unwrap().remove("checksum").unwrap();
        assert_eq!(written, value);
    }

    #[test]
    fn what_is_not_a_sound_merge_of_this_version_and_name_is_refused() {
        let (name, value) = example();
        let with = |pointer: &str, other: Value| {
            let mut value = value.clone();
            *value.pointer_mut(pointer).expect(pointer) = other;
            read(&value, name).expect_err(pointer)
        };
        let newer = with("/version", 2.into());
        assert_eq!(newer, ReadRecordError::UnknownVersion(2));
        let other = with("/id", "01a22d16e3607a1b2c3d4e5f60718294".into());
        assert!(matches!(other, ReadRecordError::Unsound(_)), "{other}");
        with("/hour", "2026-12-01/14".into());
        with("/outputs", Value::Array(Vec::new()));
        let replaced = value["replaces"][0].clone();
        with("/replaces/1", replaced);
        let own = value["outputs"][0]["key"].as_str().unwrap();
        let own = own.rsplit('/').next().unwrap().trim_end_matches(".parquet");
        with("/replaces/1", own.into());
        let mut more = value.clone();
        more["more"] = 1.into();
        assert!(read(&more, name).is_err());
        let mut changed = seal::seal(serde_json::to_vec(&value).unwrap());
        let at = changed.iter().position(|&byte| byte == b'1').unwrap();
        changed[at] = b'2';
        assert!(Merge::read(&changed, name).is_err());
    }
}
