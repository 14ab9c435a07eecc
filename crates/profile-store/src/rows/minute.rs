//! Rows of one minute as one: what compaction does to samples.

use std::cmp::Ordering;

use super::batch::SampleRow;

/// With some 20 samples a second and CPU a minute has about three samples a row, and rows are what costs room.
const MINUTE_SECONDS: i64 = 60;

/// The rows with their times rounded down to the minute, those that differ in their count alone as one; sorted by service,
/// version, type, stack and time, then deployment, series and period.
///
/// Counts and values add up to the same sums. A sum beyond 64 bits stays two rows.
pub fn by_minute(mut rows: Vec<SampleRow>) -> Vec<SampleRow> {
    for row in &mut rows {
        let seconds = row.time_unix_seconds;
        row.time_unix_seconds = seconds - seconds.rem_euclid(MINUTE_SECONDS);
    }
    rows.sort_by(|a, b| order(a, b).then(a.count.cmp(&b.count)));
    rows.dedup_by(|row, kept| order(row, kept) == Ordering::Equal && add(kept, row));
    rows
}

/// Whether there was room.
fn add(kept: &mut SampleRow, row: &SampleRow) -> bool {
    let count = kept.count.checked_add(row.count);
    let count = count.filter(|count| count.checked_mul(kept.period).is_some());
    if let Some(count) = count {
        kept.count = count;
    }
    count.is_some()
}

fn order(a: &SampleRow, b: &SampleRow) -> Ordering {
    let labels = a.series.service().cmp(b.series.service());
    let labels = labels.then_with(|| a.series.version().cmp(b.series.version()));
    let rest = |row: &SampleRow| (row.series.id(), row.period);
    labels
        .then_with(|| a.profile_type.cmp(&b.profile_type))
        .then_with(|| (a.stack, a.time_unix_seconds).cmp(&(b.stack, b.time_unix_seconds)))
        .then_with(|| a.series.deployment().cmp(b.series.deployment()))
        .then_with(|| rest(a).cmp(&rest(b)))
}
