//! What to do about an hour, as values: which files to compact into what record, and what has expired.
//!
//! Any replica may plan and do it, also several at once: that costs work and never rows.

mod compaction;
mod retention;

pub use compaction::{
    CompactionPlan, CompactionPolicy, FRESH_SEGMENTS_MAX, SETTLE_MINUTES, compaction,
};
pub use retention::{Retention, SAMPLES_DAYS, TOTALS_DAYS, expired};
