//! One message of profiles in memory: tables that all its profiles share, and the profiles.
//!
//! Everything is a number into a table, and lists are ranges of one pool each, so that a message of a million
//! samples is a few dozen allocations. Look-ups are total: a number that is not of this model finds
//! an empty value, never a panic.

mod attribute;
mod binary;
mod builder;
mod frame;
mod ids;
mod profile;
mod sample;

use std::borrow::Cow;

pub use attribute::{Attribute, Link, Value};
pub use binary::{Binary, BinaryRole, Extent};
pub use builder::{Builder, NewSample};
pub use frame::{CodeAddress, Frame, FrameKind, Function, Line};
pub use ids::{AttributeId, BinaryId, FrameId, FunctionId, LinkId, Span, StackId, StringId};
pub use profile::{Profile, ProfileOrigin, ValueType};
pub use sample::Sample;
pub(crate) use sample::SampleRecord;

/// What one message held. Strings are borrowed from it where they can be.
#[derive(Clone, Debug, Default)]
pub struct Profiles<'a> {
    pub(crate) strings: Vec<Cow<'a, str>>,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) attribute_lists: Vec<AttributeId>,
    pub(crate) links: Vec<Link>,
    pub(crate) binaries: Vec<Binary>,
    pub(crate) functions: Vec<Function>,
    pub(crate) lines: Vec<Line>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) stacks: Vec<Span>,
    pub(crate) stack_frames: Vec<FrameId>,
    pub(crate) all: Vec<Profile>,
    pub(crate) samples: Vec<SampleRecord>,
    pub(crate) values: Vec<i64>,
    pub(crate) timestamps: Vec<u64>,
}

impl<'a> Profiles<'a> {
    /// The profiles, in the order of the message.
    pub fn profiles(&self) -> &[Profile] {
        &self.all
    }

    /// A string; `""` is number 0.
    pub fn text(&self, id: StringId) -> &str {
        self.strings.get(id.index()).map_or("", |text| text)
    }

    /// An attribute.
    pub fn attribute(&self, id: AttributeId) -> Option<&Attribute> {
        self.attributes.get(id.index())
    }

    /// The attributes of a list, those that are nothing left out.
    pub fn attributes(&self, list: Span) -> impl Iterator<Item = &Attribute> {
        let ids = list.of(&self.attribute_lists).iter();
        ids.filter_map(|id| self.attribute(*id))
    }

    /// The value of the attribute with this key in a list, the first if there are several.
    pub fn find_attribute(&self, list: Span, key: &str) -> Option<&Value> {
        let mut all = self.attributes(list);
        all.find(|attribute| self.text(attribute.key) == key)
            .map(|found| &found.value)
    }

    /// A link to a span.
    pub fn link(&self, id: LinkId) -> Option<&Link> {
        self.links.get(id.index())
    }

    /// What code was loaded from.
    pub fn binary(&self, id: BinaryId) -> Option<&Binary> {
        self.binaries.get(id.index())
    }

    /// All binaries; one may be there several times, once for each of its mappings.
    pub fn binaries(&self) -> &[Binary] {
        &self.binaries
    }

    /// A function that the profiler named.
    pub fn function(&self, id: FunctionId) -> Option<&Function> {
        self.functions.get(id.index())
    }

    /// A frame.
    pub fn frame(&self, id: FrameId) -> Option<&Frame> {
        self.frames.get(id.index())
    }

    /// All frames, by their numbers.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The names that the profiler gave a frame, innermost first: inlined calls, then the function that was really
    /// called. Empty for frames that are to be symbolized.
    pub fn lines(&self, frame: &Frame) -> &[Line] {
        frame.lines.of(&self.lines)
    }

    /// The frames of a stack, leaf first.
    pub fn stack(&self, id: StackId) -> &[FrameId] {
        let span = self.stacks.get(id.index()).copied().unwrap_or_default();
        span.of(&self.stack_frames)
    }

    /// How many stacks there are; their numbers start at 0.
    pub fn stack_count(&self) -> usize {
        self.stacks.len()
    }

    /// The samples of a profile, in the order of the message.
    pub fn samples(&self, profile: &Profile) -> impl Iterator<Item = Sample<'_>> {
        let records = profile.samples.of(&self.samples).iter();
        records.map(|record| record.view(self))
    }

    /// The sum of a profile's values, one for each of its value types.
    ///
    /// Exact: 2^32 values of 64 bits cannot leave 128.
    pub fn totals(&self, profile: &Profile) -> Vec<i128> {
        let mut totals = vec![0_i128; profile.value_types.len()];
        for sample in self.samples(profile) {
            for (place, total) in totals.iter_mut().enumerate() {
                *total += sample.total(place);
            }
        }
        totals
    }

    /// A string for the end of the table.
    pub(crate) fn push_text(&mut self, text: Cow<'a, str>) -> StringId {
        if text.is_empty() && !self.strings.is_empty() {
            return StringId::EMPTY;
        }
        let id = StringId::at(self.strings.len());
        self.strings.push(text);
        id
    }
}
