//! What a profile counts, as rows count it: a type, and for each observation a count and a period whose product is the value.

use std::sync::Arc;

use unhex_pprof::{Profile, Profiles, Sample, ValueType};

use super::batch::RefusedError;
use super::text::cleaned;

/// The type of CPU time, in nanoseconds whatever the profiler's unit is. No other type has a name without a colon.
pub const CPU: &str = "cpu";

/// Bytes of the name and of the unit of a type: those of the formats have 20.
const TYPE_WORD_BYTES_MAX: usize = 64;

/// One of the types of a profile.
#[derive(Debug)]
pub(super) struct Measure {
    pub(super) profile_type: Arc<str>,
    /// Where its value is among those of an observation.
    place: usize,
    /// What one unit of the value is in units of the type.
    factor: u64,
    counted: Counted,
}

/// What the count of a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// The value itself.
    Itself,
    /// The value at another place.
    Beside(usize),
    /// 1: one observation.
    Once,
}

/// So many samples that stand for so much each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Portion {
    pub(super) count: i64,
    pub(super) period: i64,
}

/// The types of a profile. Where one value counts the samples of another, as in Go's `samples/count` and `cpu/nanoseconds`,
/// both are one type.
pub(super) fn measures(model: &Profiles<'_>, profile: &Profile) -> Vec<Measure> {
    let count_place = model.sample_count_type(profile);
    let is_cpu = |place: &usize| {
        Some(*place) != count_place && model.cpu_nanos_per_value(profile, *place).is_some()
    };
    let places = 0..profile.value_types.len();
    let cpu = places.clone().find(is_cpu).or(count_place);
    let counted = count_place.and_then(|count| counted_by(model, profile, count));
    let measure = |place: usize| {
        let counted = match (counted, count_place) {
            (Some(_), Some(count)) if count == place => return None,
            (Some(counted), Some(count)) if counted == place => Counted::Beside(count),
            (None, Some(count)) if count == place => Counted::Itself,
            _ => Counted::Once,
        };
        let nanos = model.cpu_nanos_per_value(profile, place);
        let nanos = nanos.filter(|_| cpu == Some(place));
        let value_type = profile.value_types.get(place).copied().unwrap_or_default();
        Some(Measure {
            profile_type: nanos.map_or_else(|| name(model, value_type), |_| CPU.into()),
            place,
            factor: nanos.unwrap_or(1),
            counted,
        })
    };
    places.filter_map(measure).collect()
}

/// The place of the type whose samples are counted at `count`: that of the period, or the only other one. None if it has values where no
/// sample was counted.
fn counted_by(model: &Profiles<'_>, profile: &Profile, count: usize) -> Option<usize> {
    let words = |of: &ValueType| (model.text(of.name), model.text(of.unit));
    let types = profile.value_types.iter().enumerate();
    let others: Vec<(usize, &ValueType)> = types.filter(|(place, _)| *place != count).collect();
    let of_period = || {
        let period = words(profile.period_type.as_ref()?);
        let mut others = others.iter();
        others.find(|(_, of)| words(of) == period)
    };
    let only = others.first().filter(|_| others.len() == 1);
    let place = only.or_else(of_period)?.0;
    let mut samples = model.samples(profile);
    let fits = samples.all(|sample| {
        let all = observations(profile, sample);
        (0..all).all(|at| {
            let of = |place| value(profile, sample, at, place);
            of(count) != 0 || of(place) == 0
        })
    });
    fits.then_some(place)
}

fn name(model: &Profiles<'_>, of: ValueType) -> Arc<str> {
    let word = |id| cleaned(model.text(id), TYPE_WORD_BYTES_MAX).0;
    // One colon, so that every name has one reading.
    format!("{}:{}", word(of.name).replace(':', "_"), word(of.unit)).into()
}

/// How many observations of a sample have values.
pub(super) fn observations(profile: &Profile, sample: Sample<'_>) -> usize {
    if sample.values.is_empty() {
        return sample.timestamps.len();
    }
    sample
        .values
        .len()
        .div_ceil(profile.value_types.len().max(1))
}

/// The value of an observation; without values each timestamp counts 1.
fn value(profile: &Profile, sample: Sample<'_>, observation: usize, place: usize) -> i64 {
    if sample.values.is_empty() {
        return 1;
    }
    let at = observation
        .saturating_mul(profile.value_types.len())
        .saturating_add(place);
    sample.values.get(at).copied().unwrap_or_default()
}

impl Measure {
    /// An observation in one or two portions, which add up to its count and to its value. None if it counts nothing.
    pub(super) fn portions(
        &self,
        profile: &Profile,
        sample: Sample<'_>,
        observation: usize,
    ) -> Result<[Option<Portion>; 2], Refused> {
        let at = |place| match value(profile, sample, observation, place) {
            value if value < 0 => Err(Refused::Negative(value)),
            value => Ok(value),
        };
        let value = at(self.place)?;
        let factor = i64::try_from(self.factor).ok();
        let total = factor.and_then(|factor| value.checked_mul(factor));
        let (Some(factor), Some(total)) = (factor, total) else {
            return Err(Refused::TooLarge(value, self.factor));
        };
        let one = |count, period| [Some(Portion { count, period }), None];
        let count = match self.counted {
            Counted::Beside(place) => at(place)?,
            _ if value == 0 => return Ok([None, None]),
            Counted::Itself => return Ok(one(value, factor)),
            Counted::Once => return Ok(one(1, total)),
        };
        // `counted_by` has seen that the total is 0 where the count is.
        let (Some(period), Some(rest)) = (total.checked_div(count), total.checked_rem(count))
        else {
            return Ok([None, None]);
        };
        let [mut less, mut more] = one(count - rest, period);
        if rest > 0 {
            more = Some(Portion {
                count: rest,
                period: period + 1,
            });
        }
        less = less.filter(|portion| portion.count > 0);
        Ok([less, more])
    }
}

/// Why an observation is in no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Negative(i64),
    TooLarge(i64, u64),
}

impl Refused {
    /// With what is to be said to whoever sent it.
    pub(super) fn of(self, sample: usize, profile_type: &Arc<str>) -> RefusedError {
        let profile_type = Arc::clone(profile_type);
        match self {
            Self::Negative(value) => RefusedError::Negative {
                sample,
                profile_type,
                value,
            },
            Self::TooLarge(value, factor) => RefusedError::TooLarge {
                sample,
                profile_type,
                value,
                factor,
            },
        }
    }
}
