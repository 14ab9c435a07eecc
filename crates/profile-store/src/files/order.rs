//! The order in which the rows of messages stand in a file, found without comparing texts row by row.
//!
//! Rows of one message share their series and types, so that labels are compared once for each pair of those, and rows by numbers.

use std::cmp::Ordering;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::rows::SampleRow;

/// Rows in order, and the labels that they have in common.
pub(super) struct Sorted<'r> {
    /// In order of their texts.
    pub(super) groups: Vec<Group<'r>>,
    /// In order.
    pub(super) places: Vec<Place>,
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
pub(super) struct Place {
    /// The number of the group and the first 12 bytes of the stack.
    head: u128,
    /// The other 4 bytes.
    tail: u32,
    /// Which row.
    pub(super) row: u32,
    micros: i64,
}

impl Place {
    pub(super) fn group(&self) -> usize {
        usize::try_from(self.head >> STACK_HEAD_BITS).unwrap_or(usize::MAX)
    }
}

const STACK_HEAD_BITS: u32 = 96;

/// The rows in the order of the table of samples; at most 2^32 of them.
pub(super) fn sorted(rows: &[SampleRow]) -> Sorted<'_> {
    let (groups, of_row) = groups(rows);
    let places = rows.iter().zip(of_row).zip(0_u32..);
    let mut places: Vec<Place> = places
        .map(|((row, group), at)| place(row, group, at))
        .collect();
    let less = |a: &Place, b: &Place| (a.head, a.tail, a.micros).cmp(&(b.head, b.tail, b.micros));
    places.sort_unstable_by(|a, b| less(a, b).then_with(|| rest(rows, a, b)));
    Sorted { groups, places }
}

fn place(row: &SampleRow, group: u32, at: u32) -> Place {
    let stack = u128::from_be_bytes(row.stack.0);
    let tail_bits = u128::BITS - STACK_HEAD_BITS;
    let [.., a, b, c, d] = row.stack.0;
    Place {
        head: u128::from(group) << STACK_HEAD_BITS | stack >> tail_bits,
        tail: u32::from_be_bytes([a, b, c, d]),
        row: at,
        micros: row.time_unix_micros,
    }
}

fn rest(rows: &[SampleRow], a: &Place, b: &Place) -> Ordering {
    let of = |place: &Place| {
        let row = usize::try_from(place.row).ok().and_then(|at| rows.get(at));
        row.map(|row| (row.series.id(), row.period, row.count))
    };
    of(a).cmp(&of(b))
}

/// The distinct labels in order, and for each row the number of its own.
fn groups(rows: &[SampleRow]) -> (Vec<Group<'_>>, Vec<u32>) {
    // By where the labels lie in memory; several places may have the same texts.
    let mut seen: FxHashMap<(usize, usize), u32> = FxHashMap::default();
    let mut found: Vec<Group<'_>> = Vec::new();
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
                found.push(Group {
                    service: row.series.service(),
                    version: row.series.version(),
                    deployment: row.series.deployment(),
                    profile_type: &row.profile_type,
                });
                u32::try_from(found.len() - 1).unwrap_or(u32::MAX)
            });
        }
        of_row.push(last_number);
    }
    let mut groups = found.clone();
    groups.sort_unstable();
    groups.dedup();
    let number = |group: &Group<'_>| {
        let at = groups.binary_search(group).unwrap_or_default();
        u32::try_from(at).unwrap_or(u32::MAX)
    };
    let numbers: Vec<u32> = found.iter().map(number).collect();
    for at in &mut of_row {
        let place = usize::try_from(*at).unwrap_or(usize::MAX);
        *at = numbers.get(place).copied().unwrap_or_default();
    }
    (groups, of_row)
}
