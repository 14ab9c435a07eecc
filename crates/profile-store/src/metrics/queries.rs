//! What queries and the Delta log count themselves, shown anew at each scrape.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::declared::Families;
use super::maintenance::{counter, gauge};
use super::{NONE, Scraped};

/// Shows the numbers.
pub(super) fn show(families: &Families, scraped: &Scraped<'_>) {
    gauge(&families.queries_running, NONE, scraped.queries_running);
    gauge(
        &families.query_memory_bytes,
        NONE,
        scraped.query_memory_bytes,
    );
    gauge(&families.name_bytes, NONE, scraped.name_bytes);
    let read = |of: &AtomicU64| of.load(Relaxed);
    if let Some(names) = scraped.names {
        for (outcome, count) in [
            ("answered", &names.answered),
            ("failed", &names.failed),
            ("late", &names.late),
            ("spared", &names.spared),
            ("queued", &names.queued_too_long),
        ] {
            counter(&families.name_requests, &[outcome], read(count));
        }
    }
    if let Some(exports) = scraped.exports {
        for (outcome, count) in [
            ("written", &exports.written),
            ("busy", &exports.busy),
            ("failed", &exports.failed),
        ] {
            counter(&families.exports, &[outcome], read(count));
        }
    }
}
