//! The order in which the rows of messages stand in a file, found without comparing texts row by row.
//!
//! Rows of one message share their series and types, so that labels are compared once for each pair of those, and rows by numbers.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::rows::{SampleRow, SeriesId};

/// Rows in order, those that differ in their count alone as one, and the labels that they have in common.
pub(super) struct Sorted<'r> {
    /// In order of their texts.
    pub(super) groups: Vec<Group<'r>>,
    /// In order.
    pub(super) rows: Vec<SortedRow>,
}

/// One row, or several that are equal but for their counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct SortedRow {
    /// The number of the group.
    pub(super) group: u32,
    /// Which row has everything but the count.
    pub(super) row: u32,
    /// Of all of them.
    pub(super) count: i64,
}

/// Labels that rows have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group<'r> {
    pub(super) service: &'r str,
    pub(super) version: &'r str,
    pub(super) deployment: &'r str,
    pub(super) profile_type: &'r str,
}

/// A row by what mostly decides its place.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The number of the group and the first 12 bytes of the stack.
    head: u128,
    /// The other 4 bytes, and the seconds behind the first row.
    tail: u64,
    /// The number of the series.
    series: u32,
    /// Which row.
    row: u32,
}

impl Place {
    fn key(&self) -> (u128, u64, u32) {
        (self.head, self.tail, self.series)
    }
}

/// What rows share, by numbers that are in order as the texts are.
#[derive(Clone, Copy, Debug, Default)]
struct Shared {
    group: u32,
    series: u32,
}

const STACK_HEAD_BITS: u32 = 96;

/// The rows in the order of the table of samples; at most 2^32 of them.
pub(super) fn sorted(rows: &[SampleRow]) -> Sorted<'_> {
    let (groups, shared) = shared(rows);
    let first = rows.iter().map(|row| row.time_unix_seconds).min();
    let first = first.unwrap_or_default();
    let places = rows.iter().zip(shared).zip(0_u32..);
    let mut places: Vec<Place> = places
        .map(|((row, shared), at)| place(row, shared, first, at))
        .collect();
    let period = |place: &Place| of_place(rows, place).map(|row| (row.period, row.count));
    places.sort_unstable_by(|a, b| {
        let keys = a.key().cmp(&b.key());
        keys.then_with(|| period(a).cmp(&period(b)))
    });
    Sorted {
        groups,
        rows: folded(rows, &places),
    }
}

fn of_place<'r>(rows: &'r [SampleRow], place: &Place) -> Option<&'r SampleRow> {
    rows.get(usize::try_from(place.row).ok()?)
}

fn place(row: &SampleRow, shared: Shared, first: i64, at: u32) -> Place {
    let stack = u128::from_be_bytes(row.stack.0);
    let tail_bits = u128::BITS - STACK_HEAD_BITS;
    let [.., a, b, c, d] = row.stack.0;
    // Rows of a file are of one hour.
    let seconds = row.time_unix_seconds.saturating_sub(first);
    let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
    Place {
        head: u128::from(shared.group) << STACK_HEAD_BITS | stack >> tail_bits,
        tail: u64::from(u32::from_be_bytes([a, b, c, d])) << 32 | u64::from(seconds),
        series: shared.series,
        row: at,
    }
}

/// Neighbours that are equal but for their counts as one, as far as the value fits into 64 bits.
fn folded(rows: &[SampleRow], places: &[Place]) -> Vec<SortedRow> {
    let mut folded: Vec<SortedRow> = Vec::with_capacity(places.len());
    let mut before: Option<(&Place, &SampleRow)> = None;
    for place in places {
        let Some(row) = of_place(rows, place) else {
            continue;
        };
        let is_equal = |(kept, of): (&Place, &SampleRow)| {
            kept.key() == place.key()
                && of.period == row.period
                && of.time_unix_seconds == row.time_unix_seconds
        };
        let kept = folded.last_mut().filter(|_| before.is_some_and(is_equal));
        let sum = kept.and_then(|kept| {
            let count = kept.count.checked_add(row.count)?;
            count.checked_mul(row.period)?;
            kept.count = count;
            Some(())
        });
        if sum.is_none() {
            folded.push(SortedRow {
                group: u32::try_from(place.head >> STACK_HEAD_BITS).unwrap_or(u32::MAX),
                row: place.row,
                count: row.count,
            });
        }
        before = Some((place, row));
    }
    folded
}

/// The distinct labels in order, and what each row shares with others.
fn shared(rows: &[SampleRow]) -> (Vec<Group<'_>>, Vec<Shared>) {
    // By where the labels lie in memory; several places may have the same texts.
    let mut seen: FxHashMap<(usize, usize), usize> = FxHashMap::default();
    let mut found: Vec<(Group<'_>, SeriesId)> = Vec::new();
    let mut of_row = Vec::with_capacity(rows.len());
    let (mut last, mut last_number) = ((0, 0), 0);
    for row in rows {
        let place = (
            Arc::as_ptr(&row.series).addr(),
            Arc::as_ptr(&row.profile_type).addr(),
        );
        if place != last {
            last = place;
            last_number = *seen.entry(place).or_insert_with(|| {
                let group = Group {
                    service: row.series.service(),
                    version: row.series.version(),
                    deployment: row.series.deployment(),
                    profile_type: &row.profile_type,
                };
                found.push((group, row.series.id()));
                found.len() - 1
            });
        }
        of_row.push(last_number);
    }
    let mut groups: Vec<Group<'_>> = found.iter().map(|(group, _)| *group).collect();
    groups.sort_unstable();
    groups.dedup();
    let mut series: Vec<SeriesId> = found.iter().map(|(_, id)| *id).collect();
    series.sort_unstable();
    series.dedup();
    let number =
        |at: Result<usize, usize>| u32::try_from(at.unwrap_or_default()).unwrap_or(u32::MAX);
    let numbers = found.iter().map(|(group, id)| Shared {
        group: number(groups.binary_search(group)),
        series: number(series.binary_search(id)),
    });
    let numbers: Vec<Shared> = numbers.collect();
    let shared = of_row.into_iter();
    let shared = shared.map(|at: usize| numbers.get(at).copied().unwrap_or_default());
    (groups, shared.collect())
}
