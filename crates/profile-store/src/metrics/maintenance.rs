//! What keeps the table small, as it counts itself, shown anew at each scrape.

use std::collections::BTreeMap;

use prometheus::{IntCounterVec, IntGaugeVec};

use super::declared::Families;
use crate::maintain::{CountersRead, Usage};

const NONE: &[&str] = &[];
/// The label of segments that are not compacted, whose services nobody has counted.
const FRESH: &str = "_fresh";
/// The label of the smallest services.
const OTHER: &str = "_other";

/// Shows the numbers, with so many services at most.
pub(super) fn show(families: &Families, read: &CountersRead, services_max: usize) {
    counter(&families.compactions, NONE, read.compactions);
    counter(&families.dictionary_merges, NONE, read.merges);
    counter(&families.tombstones, NONE, read.deletions);
    counter(&families.swept, NONE, read.swept);
    counter(&families.maintenance_rounds, NONE, read.rounds);
    counter(&families.compacted_rows, &["in"], read.rows_in);
    counter(&families.compacted_rows, &["out"], read.rows_out);
    counter(&families.compacted_bytes, &["in"], read.bytes_in);
    counter(&families.compacted_bytes, &["out"], read.bytes_out);
    for (reason, failures) in &read.failures {
        counter(
            &families.maintenance_failures,
            &[reason.as_str()],
            *failures,
        );
    }
    families.compaction_seconds.reset();
    let seconds = families.compaction_seconds.with_label_values(NONE);
    seconds.inc_by(read.compaction_time.as_secs_f64());
    gauge(&families.hours, NONE, read.hours);
    gauge(&families.hours_waiting, NONE, read.hours_waiting);
    gauge(&families.foreign_objects, NONE, read.foreign);
    families.service_objects.reset();
    families.service_bytes.reset();
    families.service_rows.reset();
    usage(families, FRESH, read.fresh);
    for (service, of) in largest(&read.by_service, services_max) {
        usage(families, service, of);
    }
}

fn usage(families: &Families, service: &str, of: Usage) {
    gauge(&families.service_objects, &[service], of.objects);
    gauge(&families.service_bytes, &[service], of.bytes);
    gauge(&families.service_rows, &[service], of.rows);
}

pub(super) fn counter(of: &IntCounterVec, labels: &[&str], value: u64) {
    let counter = of.with_label_values(labels);
    counter.reset();
    counter.inc_by(value);
}

pub(super) fn gauge(of: &IntGaugeVec, labels: &[&str], value: u64) {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    of.with_label_values(labels).set(value);
}

/// The largest services, and all others as one.
fn largest(services: &BTreeMap<String, Usage>, max: usize) -> Vec<(&str, Usage)> {
    let mut all: Vec<(&str, Usage)> = services.iter().map(|(name, of)| (&**name, *of)).collect();
    all.sort_by_key(|(_, of)| std::cmp::Reverse(of.bytes));
    let rest = all.split_off(max.min(all.len()));
    let other = rest.into_iter().map(|(_, of)| of).reduce(|sum, of| Usage {
        objects: sum.objects.saturating_add(of.objects),
        rows: sum.rows.saturating_add(of.rows),
        bytes: sum.bytes.saturating_add(of.bytes),
    });
    all.extend(other.map(|of| (OTHER, of)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_services_share_a_series() {
        let usage = |bytes| Usage {
            objects: 1,
            rows: 2,
            bytes,
        };
        let services = [("a", 5), ("b", 9), ("c", 1), ("d", 2)];
        let services = services.map(|(name, bytes)| (name.to_owned(), usage(bytes)));
        let services = services.into();
        let shown: Vec<(&str, u64)> = largest(&services, 2)
            .into_iter()
            .map(|(name, of)| (name, of.bytes))
            .collect();
        assert_eq!(shown, [("b", 9), ("a", 5), (OTHER, 3)]);
        assert_eq!(largest(&services, 9).len(), 4);
    }
}
