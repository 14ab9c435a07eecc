//! The names of functions, each once, wherever in the debug file they stand.
//!
//! Most are met in many units: a header's inline functions in each that includes it. Linkers keep
//! one copy of equal strings, so that where a name stands usually tells which one it is, and its
//! bytes need not be read again.

use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHasher};

use super::{Budget, ConvertError};
use crate::model::NONE;

/// Bytes of a name that are kept.
const NAME_BYTES_MAX: usize = 16 << 10;

/// The number of a name in its pool.
pub(crate) type NameId = u32;

/// No name, which is the empty one.
pub(crate) const NO_NAME: NameId = 0;

/// Names by number.
#[derive(Debug)]
pub(crate) struct NamePool {
    bytes: Vec<u8>,
    names: Vec<Name>,
    /// The name last added of those with that hash.
    by_hash: FxHashMap<u64, NameId>,
    /// By offset in the strings of the debug file.
    by_offset: FxHashMap<usize, NameId>,
}

#[derive(Clone, Copy, Debug)]
struct Name {
    start: usize,
    end: usize,
    /// Another one with the same hash, or [`NONE`].
    same_hash: NameId,
}

impl Default for NamePool {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            names: vec![Name {
                start: 0,
                end: 0,
                same_hash: NONE,
            }],
            by_hash: FxHashMap::default(),
            by_offset: FxHashMap::default(),
        }
    }
}

impl NamePool {
    /// How many names there are.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The bytes of a name.
    pub(crate) fn get(&self, id: NameId) -> &[u8] {
        let place = usize::try_from(id).unwrap_or(usize::MAX);
        let name = self.names.get(place);
        name.and_then(|name| self.bytes.get(name.start..name.end))
            .unwrap_or_default()
    }

    /// The number of a name, which is cut if it is too long.
    pub(crate) fn intern(
        &mut self,
        name: &[u8],
        budget: &Budget<'_>,
    ) -> Result<NameId, ConvertError> {
        let name = name.get(..NAME_BYTES_MAX).unwrap_or(name);
        if name.is_empty() {
            return Ok(NO_NAME);
        }
        let mut hasher = FxHasher::default();
        hasher.write(name);
        let hash = hasher.finish();
        let first = self.by_hash.get(&hash).copied();
        let mut candidate = first.unwrap_or(NONE);
        while let Some(known) = self
            .names
            .get(usize::try_from(candidate).unwrap_or(usize::MAX))
        {
            if self.bytes.get(known.start..known.end) == Some(name) {
                return Ok(candidate);
            }
            budget.spend(1)?;
            candidate = known.same_hash;
        }
        let start = self.bytes.len();
        let end = start.saturating_add(name.len());
        budget.name_pool(end)?;
        self.bytes.extend_from_slice(name);
        let id = NameId::try_from(self.names.len()).unwrap_or(NONE);
        self.names.push(Name {
            start,
            end,
            same_hash: first.unwrap_or(NONE),
        });
        self.by_hash.insert(hash, id);
        Ok(id)
    }

    /// The name at an offset in the strings of the debug file, if it was asked for before.
    pub(crate) fn at(&self, offset: usize) -> Option<NameId> {
        self.by_offset.get(&offset).copied()
    }

    /// Remembers which name stands at an offset.
    pub(crate) fn remember(&mut self, offset: usize, id: NameId) {
        self.by_offset.insert(offset, id);
    }
}
