//! Everything that one message puts into the table: rows, and what their numbers stand for.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use unhex_pprof::{FrameHash, StackHash};

use super::bounds::TimeError;
use super::frames::FrameContent;
use super::labels::LabelsLeftOut;
use super::series::{Series, SeriesId};

/// A row of samples: one stack of one series at one time. Its value is `count * period`, which always fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleRow {
    /// Whose it is.
    pub series: Arc<Series>,
    /// What was counted, as `cpu` or `alloc_space:bytes`.
    pub profile_type: Arc<str>,
    /// The stack; once it is to be written, the writer's number of it.
    pub stack: StackHash,
    /// When, in whole seconds since 1970.
    pub time_unix_seconds: i64,
    /// How many samples; at least 1.
    pub count: i64,
    /// What each stands for, in units of the type; at least 0.
    pub period: i64,
}

impl SampleRow {
    /// The value, exactly.
    pub fn value(&self) -> i128 {
        i128::from(self.count) * i128::from(self.period)
    }
}

/// Sums over the rows of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeTotals {
    /// The sum of counts.
    pub count: i128,
    /// The sum of values.
    pub value: i128,
}

/// The sums of rows, by type.
pub fn totals<'r>(rows: impl IntoIterator<Item = &'r SampleRow>) -> BTreeMap<Arc<str>, TypeTotals> {
    let mut totals: BTreeMap<Arc<str>, TypeTotals> = BTreeMap::new();
    for row in rows {
        let of = totals.entry(Arc::clone(&row.profile_type)).or_default();
        of.count += i128::from(row.count);
        of.value += row.value();
    }
    totals
}

/// What a message puts into the table, and what of it did not get there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// In the order of the message.
    pub rows: Vec<SampleRow>,
    /// The label sets of the rows.
    pub series: BTreeMap<SeriesId, Arc<Series>>,
    /// The stacks of the rows, leaf first.
    pub stacks: FxHashMap<StackHash, Arc<[FrameHash]>>,
    /// The frames of the stacks.
    pub frames: FxHashMap<FrameHash, FrameContent>,
    /// Labels that were too many or too long.
    pub left_out: LabelsLeftOut,
    /// Profiles of which nothing was kept.
    pub rejected: Vec<Rejected>,
}

/// A profile of which nothing was kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("profile {profile}: {reason}")]
pub struct Rejected {
    /// Its place among the profiles of the model, from 0.
    pub profile: usize,
    /// Why.
    #[source]
    pub reason: RefusedError,
}

/// Why a profile cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusedError {
    /// A difference of two profiles, or none at all.
    #[error(
        "sample {sample} has {value} for {profile_type}: only profiles without negative values are kept; of a difference send both profiles"
    )]
    Negative {
        /// Its place in the profile, from 0.
        sample: usize,
        /// The type.
        profile_type: Arc<str>,
        /// The value.
        value: i64,
    },
    /// Rows have values of 64 bits.
    #[error("sample {sample} has {value} times {factor} for {profile_type}, beyond 64 bits")]
    TooLarge {
        /// Its place in the profile, from 0.
        sample: usize,
        /// The type.
        profile_type: Arc<str>,
        /// The value.
        value: i64,
        /// What one of it stands for.
        factor: u64,
    },
    /// With it the message would have more rows than fit.
    #[error("with it the message has more than {max} observations: send less at a time")]
    TooManyRows {
        /// The limit.
        max: usize,
    },
    /// A time that no row may have.
    #[error(transparent)]
    Time(#[from] TimeError),
}

/// Rejected profiles that are described to whoever sent them: the others mostly have the same reason.
const REJECTIONS_SHOWN_MAX: usize = 10;

impl Batch {
    /// What to answer whoever sent the profiles: which were rejected, and why. None if none was.
    pub fn rejections(&self) -> Option<String> {
        let shown = self.rejected.iter().take(REJECTIONS_SHOWN_MAX);
        let mut lines: Vec<String> = shown.map(Rejected::to_string).collect();
        let more = self.rejected.len().saturating_sub(lines.len());
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}
