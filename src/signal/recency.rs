//! Keys in the order in which they were seen last, for bounded tables that let the oldest go.

use std::collections::BTreeMap;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// When a key was seen: in milliseconds since 1970, and a number that tells those of one
/// millisecond apart.
type Tick = (u64, u64);

/// Keys by when they were seen last. All operations cost the logarithm of their number.
#[derive(Clone, Debug)]
pub(super) struct Recency<K> {
    order: BTreeMap<Tick, K>,
    ticks: FxHashMap<K, Tick>,
    touches: u64,
}

impl<K> Default for Recency<K> {
    fn default() -> Self {
        Self {
            order: BTreeMap::new(),
            ticks: FxHashMap::default(),
            touches: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> Recency<K> {
    /// Notes that a key was seen.
    pub(super) fn touch(&mut self, key: &K, at_millis: u64) {
        self.touches = self.touches.wrapping_add(1);
        let tick = (at_millis, self.touches);
        if let Some(known) = self.ticks.get_mut(key) {
            let key = self.order.remove(known);
            *known = tick;
            self.order.extend(key.map(|key| (tick, key)));
        } else {
            self.ticks.insert(key.clone(), tick);
            self.order.insert(tick, key.clone());
        }
    }

    /// Forgets a key, and says whether it was there.
    pub(super) fn remove(&mut self, key: &K) -> bool {
        let tick = self.ticks.remove(key);
        tick.is_some_and(|tick| self.order.remove(&tick).is_some())
    }

    /// The key that was not seen for the longest time, and when it was.
    pub(super) fn oldest(&self) -> Option<(&K, u64)> {
        let ((at_millis, _), key) = self.order.first_key_value()?;
        Some((key, *at_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_the_one_that_was_not_touched() {
        let mut recency = Recency::default();
        for (key, at) in [("a", 1), ("b", 1), ("a", 2)] {
            recency.touch(&key, at);
        }
        assert_eq!(recency.oldest(), Some((&"b", 1)));
        assert!(recency.remove(&"b"));
        assert!(!recency.remove(&"b"));
        assert_eq!(recency.oldest(), Some((&"a", 2)));
    }
}
