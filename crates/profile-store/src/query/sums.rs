//! Sums over rows, by whatever a query keeps apart: labels, series, steps of time, stacks. Exact, whatever the rows' order and however they are split.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use unhex_pprof::StackHash;

use crate::view::Weight;

/// Service, version and deployment.
pub(super) type LabelSet = [Arc<str>; 3];

/// What rows of one sum share; what a query does not keep apart is the same for all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// Service, version and deployment.
    pub labels: Option<[Arc<str>; 3]>,
    /// The series.
    pub series: Option<i64>,
    /// The start of the step, in microseconds since 1970.
    pub step: Option<i64>,
}

/// Sums by group and stack.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    groups: Interned<Group>,
    sums: FxHashMap<(u32, StackHash), Weight>,
}

/// Things with numbers, each once.
#[derive(Clone, Debug)]
pub(super) struct Interned<T> {
    items: Vec<T>,
    numbers: FxHashMap<T, u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            numbers: FxHashMap::default(),
        }
    }
}

impl<T: Clone + Eq + Hash> Interned<T> {
    /// The number of a thing, a new one if it has none.
    pub(super) fn number(&mut self, item: &T) -> u32 {
        if let Some(number) = self.numbers.get(item) {
            return *number;
        }
        // Memory ends long before numbers do.
        let number = u32::try_from(self.items.len()).unwrap_or(u32::MAX);
        self.items.push(item.clone());
        self.numbers.insert(item.clone(), number);
        number
    }

    pub(super) fn items(&self) -> &[T] {
        &self.items
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.items.get(usize::try_from(number).ok()?)
    }
}

impl Sums {
    /// The number of a group here.
    pub(super) fn group(&mut self, group: &Group) -> u32 {
        self.groups.number(group)
    }

    /// Adds to the sum of a stack in a group of this.
    pub(super) fn add(&mut self, group: u32, stack: StackHash, weight: Weight) {
        *self.sums.entry((group, stack)).or_default() += weight;
    }

    /// Adds all of another's.
    pub(super) fn merge(&mut self, other: Self) {
        if self.sums.is_empty() {
            *self = other;
            return;
        }
        let numbers = other.groups.items.iter();
        let numbers: Vec<u32> = numbers.map(|group| self.groups.number(group)).collect();
        for ((group, stack), weight) in other.sums {
            let group = usize::try_from(group).ok().and_then(|at| numbers.get(at));
            if let Some(group) = group {
                self.add(*group, stack, weight);
            }
        }
    }

    /// The memory that they have, about.
    pub(super) fn bytes(&self) -> usize {
        let entry = size_of::<((u32, StackHash), Weight)>() + 1;
        let group = 2 * size_of::<Group>() + size_of::<u32>() + 1;
        self.sums.capacity() * entry * 8 / 7 + self.groups.items.capacity() * group
    }

    /// Each sum with what it is of.
    pub fn iter(&self) -> impl Iterator<Item = (&Group, StackHash, Weight)> {
        self.sums.iter().filter_map(|((group, stack), weight)| {
            Some((self.groups.get(*group)?, *stack, *weight))
        })
    }

    /// The distinct stacks.
    pub fn stacks(&self) -> impl Iterator<Item = StackHash> {
        let all: rustc_hash::FxHashSet<StackHash> =
            self.sums.keys().map(|(_, stack)| *stack).collect();
        all.into_iter()
    }

    /// The sum of all.
    pub fn total(&self) -> Weight {
        let mut total = Weight::default();
        for weight in self.sums.values() {
            total += *weight;
        }
        total
    }
}
