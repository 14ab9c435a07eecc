//! One sample: a stack, what was counted there, and under which circumstances.

use super::{AttributeId, LinkId, Profiles, StackId};

/// A sample as it is kept: where its parts end in the pools; they start where those of the sample before end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleRecord {
    pub(crate) stack: StackId,
    /// 0 for none.
    pub(crate) link: LinkId,
    pub(crate) attributes: super::Span,
    pub(crate) values: super::Span,
    pub(crate) timestamps: super::Span,
    pub(crate) value_types: u32,
}

/// A sample: one or more observations of one stack.
///
/// `values` has a row for each observation, and in it a value for each of the profile's value types. OTLP has one type and many
/// observations, with a timestamp each or with none at all; pprof has many types and one observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'p> {
    /// The stack.
    pub stack: StackId,
    /// The span in which it was taken.
    pub link: Option<LinkId>,
    /// Thread, CPU and other labels.
    pub attributes: &'p [AttributeId],
    /// Empty if each timestamp counts 1, opentelemetry-proto's `Sample`.
    pub values: &'p [i64],
    /// When each observation was made, nanoseconds since 1970; empty if the profiler does not say.
    pub timestamps: &'p [u64],
    value_types: usize,
}

impl SampleRecord {
    pub(crate) fn view<'p>(&self, profiles: &'p Profiles<'_>) -> Sample<'p> {
        Sample {
            stack: self.stack,
            link: (self.link.0 != 0).then_some(self.link),
            attributes: self.attributes.of(&profiles.attribute_lists),
            values: self.values.of(&profiles.values),
            timestamps: self.timestamps.of(&profiles.timestamps),
            value_types: self.value_types as usize,
        }
    }
}

impl Sample<'_> {
    /// The sum over all observations, for the value type at this place.
    pub fn total(&self, value_type: usize) -> i128 {
        if self.values.is_empty() {
            // At most 2^32 of them.
            return i128::try_from(self.timestamps.len()).unwrap_or_default();
        }
        let rows = self.values.chunks(self.value_types.max(1));
        rows.filter_map(|row| row.get(value_type))
            .map(|value| i128::from(*value))
            .sum()
    }

    /// How often the stack was observed.
    pub fn observations(&self) -> usize {
        let rows = self
            .values
            .len()
            .checked_div(self.value_types)
            .unwrap_or_default();
        rows.max(self.timestamps.len())
    }
}
