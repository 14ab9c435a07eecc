//! Which profiles counted already, so that a profile in several parts counts once.
//!
//! Memory is bounded: two generations of hashes, and the older one goes when the younger is full. A
//! part that comes after a hundred thousand others counts again, which is the lesser harm.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, Hash, RandomState};

/// Hashes in one generation; both together take some 4 MB.
const GENERATION_ENTRIES_MAX: usize = 1 << 16;

/// Hashes of what counted lately, under a key that nobody outside knows.
#[derive(Debug, Default)]
pub(super) struct RecentProfiles {
    key: RandomState,
    young: HashSet<u64>,
    old: HashSet<u64>,
}

impl RecentProfiles {
    /// Whether `what` was not here lately; from now on it was.
    pub(super) fn is_first(&mut self, what: impl Hash) -> bool {
        let hash = self.key.hash_one(what);
        if self.old.contains(&hash) || !self.young.insert(hash) {
            return false;
        }
        if self.young.len() >= GENERATION_ENTRIES_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_counts_once_and_memory_is_bounded() {
        let mut recent = RecentProfiles::default();
        assert!(recent.is_first("a"));
        assert!(!recent.is_first("a"));
        for number in 0..(3 * GENERATION_ENTRIES_MAX) {
            recent.is_first(number);
        }
        assert!(recent.is_first("a"));
        assert!(recent.young.len() + recent.old.len() <= 2 * GENERATION_ENTRIES_MAX);
    }
}
