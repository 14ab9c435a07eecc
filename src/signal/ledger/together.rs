//! What is kept of the parts of replicas that are gone, so that restarts do not add up.
//!
//! Parts stay apart, since a replica that was only idle may come back and write a newer one. Over all of
//! them as much is kept as one ledger has: those build IDs that were seen last.

use super::fold::latest;
use super::segment::{Listed, Part, Segment};
use crate::signal::labels::LabelSet;
use crate::signal::lately::Lately;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub(in crate::signal) struct KeptBounds {
    /// What was seen last before this is dropped, in milliseconds since 1970.
    pub(in crate::signal) forgotten_before: u64,
    /// Build IDs, each counted once per part.
    pub(in crate::signal) entries_max: usize,
    /// Rows of what label sets sent, over all parts.
    pub(in crate::signal) sent_max: usize,
}

/// The parts without what is forgotten or beyond the bounds, those without anything left out.
pub(in crate::signal) fn kept<'a>(
    parts: impl IntoIterator<Item = &'a Part>,
    bounds: &KeptBounds,
) -> Vec<Part> {
    let parts: Vec<&Part> = latest(parts).into_values().collect();
    let mut kept: Vec<Part> = parts
        .iter()
        .map(|part| Part {
            replica: part.replica,
            sequence: part.sequence,
            entries: Vec::new(),
            sent: Vec::new(),
        })
        .collect();
    for (number, listed) in latest_entries(&parts, bounds) {
        if let Some(part) = kept.get_mut(number) {
            part.entries.push(listed.clone());
        }
    }
    for (number, (labels, lately)) in latest_sent(&parts, bounds) {
        if let Some(part) = kept.get_mut(number) {
            part.sent.push((labels.clone(), *lately));
        }
    }
    kept.retain(|part| !part.entries.is_empty() || !part.sent.is_empty());
    kept
}

/// Whether everything in a segment is forgotten.
pub(in crate::signal) fn has_run_out(segment: &Segment, forgotten_before: u64) -> bool {
    segment.parts.iter().all(|part| {
        let mut entries = part.entries.iter();
        let mut sent = part.sent.iter();
        entries.all(|listed| listed.entry.last_seen < forgotten_before)
            && sent.all(|(_, lately)| lately.last() < forgotten_before)
    })
}

fn latest_entries<'a>(parts: &[&'a Part], bounds: &KeptBounds) -> Vec<(usize, &'a Listed)> {
    let numbered = parts.iter().enumerate();
    let rows =
        numbered.flat_map(|(number, part)| part.entries.iter().map(move |row| (number, row)));
    let mut rows: Vec<_> = rows
        .filter(|(_, listed)| listed.entry.last_seen >= bounds.forgotten_before)
        .collect();
    rows.sort_unstable_by(|(one_part, one), (two_part, two)| {
        let seen = two.entry.last_seen.cmp(&one.entry.last_seen);
        seen.then_with(|| one.identity.cmp(&two.identity))
            .then_with(|| one_part.cmp(two_part))
    });
    rows.truncate(bounds.entries_max);
    rows
}

fn latest_sent<'a>(
    parts: &[&'a Part],
    bounds: &KeptBounds,
) -> Vec<(usize, &'a (LabelSet, Lately))> {
    let numbered = parts.iter().enumerate();
    let rows = numbered.flat_map(|(number, part)| part.sent.iter().map(move |row| (number, row)));
    let mut rows: Vec<_> = rows
        .filter(|(_, (_, lately))| lately.last() >= bounds.forgotten_before)
        .collect();
    rows.sort_unstable_by(|(one_part, one), (two_part, two)| {
        let sent = two.1.last().cmp(&one.1.last());
        sent.then_with(|| one.0.cmp(&two.0))
            .then_with(|| one_part.cmp(two_part))
    });
    rows.truncate(bounds.sent_max);
    rows
}
