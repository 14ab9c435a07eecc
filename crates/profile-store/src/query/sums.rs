//! Sums over rows, by whatever a query keeps apart: labels, series, steps of time, stacks. Exact, whatever the rows' order and however they are split.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
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
    /// Each once, in the order in which they were met.
    all: Vec<Sum>,
    places: FxHashMap<(u32, StackHash), u32>,
    /// Behind the sum that was added to last. Files are sorted alike, so that it is mostly the next one, and nothing has to be looked up.
    next: usize,
    /// Stacks that were met and not added up, since nobody knows yet whether they count.
    noted: FxHashSet<StackHash>,
}

/// What is counted of a stack in a group.
#[derive(Clone, Copy, Debug)]
struct Sum {
    weight: Weight,
    group: u32,
    stack: StackHash,
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
        let is_of = |sum: &Sum| (sum.group, sum.stack) == (group, stack);
        let at = match self.all.get(self.next) {
            Some(sum) if is_of(sum) => self.next,
            _ => self.place(group, stack),
        };
        if let Some(sum) = self.all.get_mut(at) {
            sum.weight += weight;
        }
        self.next = at.saturating_add(1);
    }

    fn place(&mut self, group: u32, stack: StackHash) -> usize {
        let new = self.all.len();
        // Memory ends long before numbers do.
        let number = u32::try_from(new).unwrap_or(u32::MAX);
        let place = *self.places.entry((group, stack)).or_insert(number);
        if place == number {
            self.all.push(Sum {
                weight: Weight::default(),
                group,
                stack,
            });
        }
        usize::try_from(place).unwrap_or(new)
    }

    /// Adds all of another's.
    pub(super) fn merge(&mut self, other: Self) {
        if self.all.is_empty() && self.noted.is_empty() {
            *self = other;
            return;
        }
        self.noted.extend(other.noted);
        let numbers = other.groups.items.iter();
        let numbers: Vec<u32> = numbers.map(|group| self.groups.number(group)).collect();
        for sum in other.all {
            let group = usize::try_from(sum.group).ok();
            if let Some(group) = group.and_then(|at| numbers.get(at)) {
                self.add(*group, sum.stack, sum.weight);
            }
        }
    }

    /// The same by other stacks: what is of one stack then is added up.
    pub(super) fn by(self, stack_of: impl Fn(StackHash) -> StackHash) -> Self {
        let mut sums = Self {
            groups: self.groups,
            noted: self.noted,
            ..Self::default()
        };
        for sum in self.all {
            sums.add(sum.group, stack_of(sum.stack), sum.weight);
        }
        sums
    }

    /// The memory that they have, about.
    pub(super) fn bytes(&self) -> usize {
        let place = size_of::<((u32, StackHash), u32)>() + 1;
        let group = 2 * size_of::<Group>() + size_of::<u32>() + 1;
        self.all.capacity() * size_of::<Sum>()
            + self.places.capacity() * place * 8 / 7
            + self.groups.items.capacity() * group
            + self.noted.capacity() * (size_of::<StackHash>() + 1) * 8 / 7
    }

    /// Notes a stack.
    pub(super) fn note(&mut self, stack: StackHash) {
        self.noted.insert(stack);
    }

    /// Takes what was noted out.
    pub(super) fn take_noted(&mut self) -> FxHashSet<StackHash> {
        std::mem::take(&mut self.noted)
    }

    /// Each sum with what it is of.
    pub fn iter(&self) -> impl Iterator<Item = (&Group, StackHash, Weight)> {
        let all = self.all.iter();
        all.filter_map(|sum| Some((self.groups.get(sum.group)?, sum.stack, sum.weight)))
    }

    /// The distinct stacks.
    pub fn stacks(&self) -> impl Iterator<Item = StackHash> {
        let all: FxHashSet<StackHash> = self.all.iter().map(|sum| sum.stack).collect();
        all.into_iter()
    }

    /// The sum of all.
    pub fn total(&self) -> Weight {
        let mut total = Weight::default();
        for sum in &self.all {
            total += sum.weight;
        }
        total
    }
}
