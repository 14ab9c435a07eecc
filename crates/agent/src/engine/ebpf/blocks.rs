//! Who has which piece of a map: nodes one by one, and runs of blocks for the mappings of processes.
//!
//! What is given back is not given out again at once: the kernel program may be reading it on another processor. It
//! runs for microseconds, so that a second is enough.

use std::collections::VecDeque;

/// How long what was given back stays unused.
const REST_NANOS: u64 = 1_000_000_000;

/// Numbers of nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    free: Vec<u32>,
    resting: VecDeque<(u64, Vec<u32>)>,
    /// How many there are by now, and how many there may be.
    made: u32,
    max: u32,
}

impl Nodes {
    pub(super) fn new(max: u32) -> Self {
        Self {
            free: Vec::new(),
            resting: VecDeque::new(),
            made: 0,
            max,
        }
    }

    /// So many nodes; `None` if there are not as many, and then some have to be given back, or more to be made.
    pub(super) fn take(&mut self, count: usize) -> Option<Vec<u32>> {
        let from = self.free.len().checked_sub(count)?;
        Some(self.free.split_off(from))
    }

    pub(super) fn give_back(&mut self, nodes: Vec<u32>, now_nanos: u64) {
        if !nodes.is_empty() {
            self.resting.push_back((now_nanos, nodes));
        }
    }

    /// Nodes that rest may be used again.
    pub(super) fn wake(&mut self, now_nanos: u64) {
        while let Some((since, _)) = self.resting.front()
            && now_nanos.saturating_sub(*since) >= REST_NANOS
            && let Some((_, nodes)) = self.resting.pop_front()
        {
            self.free.extend(nodes);
        }
    }

    /// How many will be free when all that rest are awake.
    pub(super) fn free_or_resting(&self) -> usize {
        self.free.len()
            + self
                .resting
                .iter()
                .map(|(_, nodes)| nodes.len())
                .sum::<usize>()
    }

    /// How many more may be made.
    pub(super) fn left(&self) -> usize {
        usize::try_from(self.max.saturating_sub(self.made)).unwrap_or(0)
    }

    /// More nodes were made, with the numbers that come next.
    pub(super) fn add(&mut self, count: u32) {
        let end = self.made.saturating_add(count).min(self.max);
        self.free.extend(self.made..end);
        self.made = end;
    }
}

/// Some blocks that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) size: RunSize,
}

/// Their number, as a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RunSize(u32);

/// Runs of blocks, of sizes that are powers of two: each is half of a larger one, and they are joined again.
#[derive(Debug)]
pub(super) struct Runs {
    /// By the power.
    free: Vec<Vec<u32>>,
    resting: VecDeque<(u64, Run)>,
}

impl Runs {
    /// All blocks below a power of two.
    pub(super) fn new(power: u32) -> Self {
        let mut free: Vec<Vec<u32>> = (0..=power).map(|_| Vec::new()).collect();
        if let Some(largest) = free.last_mut() {
            largest.push(0);
        }
        Self {
            free,
            resting: VecDeque::new(),
        }
    }

    /// A run of at least so many blocks; `None` if there is none.
    pub(super) fn take(&mut self, blocks: u32) -> Option<Run> {
        let size = RunSize(blocks.max(1).checked_next_power_of_two()?.trailing_zeros());
        let smallest = usize::try_from(size.0).ok()?;
        let of = (smallest..self.free.len())
            .find(|&of| self.free.get(of).is_some_and(|runs| !runs.is_empty()))?;
        let first = self.free.get_mut(of)?.pop()?;
        // The upper halves of what was too large stay free.
        for half in smallest..of {
            let upper = first + (1 << half);
            self.free.get_mut(half)?.push(upper);
        }
        Some(Run { first, size })
    }

    pub(super) fn give_back(&mut self, run: Run, now_nanos: u64) {
        self.resting.push_back((now_nanos, run));
    }

    /// Runs that rest may be used again.
    pub(super) fn wake(&mut self, now_nanos: u64) {
        while let Some((since, run)) = self.resting.front().copied()
            && now_nanos.saturating_sub(since) >= REST_NANOS
        {
            self.resting.pop_front();
            self.join(run);
        }
    }

    fn join(&mut self, Run { mut first, size }: Run) {
        let Ok(mut of) = usize::try_from(size.0) else {
            return;
        };
        while of + 1 < self.free.len()
            && let Some(runs) = self.free.get_mut(of)
            && let Some(place) = runs.iter().position(|&other| other == first ^ (1 << of))
        {
            first &= !(1 << of);
            runs.swap_remove(place);
            of += 1;
        }
        if let Some(runs) = self.free.get_mut(of) {
            runs.push(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nodes_rest_before_they_are_used_again() {
        let mut nodes = Nodes::new(10);
        assert_eq!(nodes.take(1), None);
        nodes.add(8);
        nodes.add(8);
        assert_eq!((nodes.made, nodes.left()), (10, 0));
        let all = nodes.take(10).unwrap();
        nodes.give_back(all, 5);
        nodes.wake(5 + REST_NANOS - 1);
        assert_eq!((nodes.take(1), nodes.free_or_resting()), (None, 10));
        nodes.wake(5 + REST_NANOS);
        assert_eq!(nodes.take(10).unwrap().len(), 10);
    }

    #[test]
    fn runs_are_joined_again_when_all_came_back() {
        let mut runs = Runs::new(4);
        let taken: Vec<Run> = (0..16).map(|_| runs.take(1).unwrap()).collect();
        assert_eq!(runs.take(1), None);
        for run in taken {
            runs.give_back(run, 0);
        }
        assert_eq!(runs.take(16), None);
        runs.wake(REST_NANOS);
        assert_eq!(runs.take(16).map(|run| run.first), Some(0));
    }

    proptest! {
        #[test]
        fn no_block_is_in_two_runs(steps in proptest::collection::vec((1..20_u32, any::<bool>()), 1..200)) {
            let mut runs = Runs::new(7);
            let mut taken: Vec<Run> = Vec::new();
            for (time, (blocks, is_taken)) in (0..).zip(steps) {
                let now = time * REST_NANOS;
                if is_taken {
                    taken.extend(runs.take(blocks));
                } else if !taken.is_empty() {
                    let run = taken.swap_remove(blocks as usize % taken.len());
                    runs.give_back(run, now);
                }
                runs.wake(now);
                let mut used: Vec<u32> = taken.iter().flat_map(|run| run.first..run.first + (1 << run.size.0)).collect();
                let before = used.len();
                used.sort_unstable();
                used.dedup();
                prop_assert_eq!(used.len(), before);
                prop_assert!(used.iter().all(|&block| block < 128));
            }
        }
    }
}
