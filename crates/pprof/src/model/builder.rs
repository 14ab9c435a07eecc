//! Putting a model together where equal things become one: readers of formats without tables, queries, tests.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{
    Attribute, AttributeId, Binary, BinaryId, Frame, FrameId, Function, FunctionId, Line, Link,
    LinkId, Profile, Profiles, SampleRecord, Span, StackId, StringId, Value,
};

/// A model that grows. Strings, attributes and stacks are kept once; the rest as often as it is given.
#[derive(Debug)]
pub struct Builder<'a> {
    model: Profiles<'a>,
    strings: HashMap<Cow<'a, str>, StringId>,
    attributes: HashMap<(StringId, ValueKey, StringId), AttributeId>,
    stacks: HashMap<Box<[FrameId]>, StackId>,
}

/// A value by which equal ones are found; floats by their bits.
#[derive(Debug, PartialEq, Eq, Hash)]
enum ValueKey {
    Empty,
    Text(StringId),
    Bool(bool),
    Integer(i64),
    Double(u64),
    Structured(StringId),
}

/// A sample to be added, see [`super::Sample`].
#[derive(Clone, Copy, Debug, Default)]
pub struct NewSample<'s> {
    /// The stack.
    pub stack: StackId,
    /// The span in which it was taken.
    pub link: Option<LinkId>,
    /// Thread, CPU and other labels.
    pub attributes: &'s [AttributeId],
    /// One row for each observation.
    pub values: &'s [i64],
    /// One for each observation, or none.
    pub timestamps: &'s [u64],
}

impl Default for Builder<'_> {
    fn default() -> Self {
        Self::of(Profiles::default())
    }
}

impl<'a> Builder<'a> {
    /// Goes on with a model; what is in it already is not looked through for equal things.
    pub(crate) fn of(mut model: Profiles<'a>) -> Self {
        if model.strings.is_empty() {
            model.strings.push(Cow::Borrowed(""));
        }
        if model.links.is_empty() {
            model.links.push(Link::default());
        }
        Self {
            model,
            strings: HashMap::from([(Cow::Borrowed(""), StringId::EMPTY)]),
            attributes: HashMap::new(),
            stacks: HashMap::new(),
        }
    }

    /// What is there so far.
    pub fn model(&self) -> &Profiles<'a> {
        &self.model
    }

    /// The whole.
    pub fn finish(self) -> Profiles<'a> {
        self.model
    }

    /// A string.
    pub fn string(&mut self, text: impl Into<Cow<'a, str>>) -> StringId {
        let text = text.into();
        if let Some(id) = self.strings.get(&text) {
            return *id;
        }
        let id = self.model.push_text(text.clone());
        self.strings.insert(text, id);
        id
    }

    /// An attribute.
    pub fn attribute(&mut self, attribute: Attribute) -> AttributeId {
        let Attribute { key, value, unit } = attribute;
        let value_key = match value {
            Value::Empty => ValueKey::Empty,
            Value::Text(id) => ValueKey::Text(id),
            Value::Bool(is) => ValueKey::Bool(is),
            Value::Integer(number) => ValueKey::Integer(number),
            Value::Double(number) => ValueKey::Double(number.to_bits()),
            Value::Structured(id) => ValueKey::Structured(id),
        };
        let attributes = &mut self.model.attributes;
        *self
            .attributes
            .entry((key, value_key, unit))
            .or_insert_with(|| {
                attributes.push(attribute);
                AttributeId::at(attributes.len() - 1)
            })
    }

    /// A list of attributes, for everything but samples.
    pub fn attribute_list(&mut self, ids: &[AttributeId]) -> Span {
        let start = self.model.attribute_lists.len();
        self.model.attribute_lists.extend_from_slice(ids);
        Span::since(start, &self.model.attribute_lists)
    }

    /// A link to a span.
    pub fn link(&mut self, link: Link) -> LinkId {
        self.model.links.push(link);
        LinkId::at(self.model.links.len() - 1)
    }

    /// A binary.
    pub fn binary(&mut self, binary: Binary) -> BinaryId {
        self.model.binaries.push(binary);
        BinaryId::at(self.model.binaries.len() - 1)
    }

    /// A function.
    pub fn function(&mut self, function: Function) -> FunctionId {
        self.model.functions.push(function);
        FunctionId::at(self.model.functions.len() - 1)
    }

    /// A frame with its names, innermost first; `lines` of the frame itself is not looked at.
    pub fn frame(&mut self, frame: Frame, lines: &[Line]) -> FrameId {
        let start = self.model.lines.len();
        self.model.lines.extend_from_slice(lines);
        let lines = Span::since(start, &self.model.lines);
        self.model.frames.push(Frame { lines, ..frame });
        FrameId::at(self.model.frames.len() - 1)
    }

    /// A stack, leaf first.
    pub fn stack(&mut self, frames: &[FrameId]) -> StackId {
        if let Some(id) = self.stacks.get(frames) {
            return *id;
        }
        let start = self.model.stack_frames.len();
        self.model.stack_frames.extend_from_slice(frames);
        let id = StackId::at(self.model.stacks.len());
        self.model
            .stacks
            .push(Span::since(start, &self.model.stack_frames));
        self.stacks.insert(frames.into(), id);
        id
    }

    /// A profile, without samples yet. Samples go to the last one.
    pub fn profile(&mut self, profile: Profile) {
        let samples = Span::since(self.model.samples.len(), &self.model.samples);
        self.model.all.push(Profile { samples, ..profile });
    }

    /// A sample of the last profile; dropped if there is none.
    pub fn sample(&mut self, sample: NewSample<'_>) {
        let model = &mut self.model;
        let Some(profile) = model.all.last_mut() else {
            return;
        };
        let (attributes, values, timestamps) = (
            model.attribute_lists.len(),
            model.values.len(),
            model.timestamps.len(),
        );
        model.attribute_lists.extend_from_slice(sample.attributes);
        model.values.extend_from_slice(sample.values);
        model.timestamps.extend_from_slice(sample.timestamps);
        model.samples.push(SampleRecord {
            stack: sample.stack,
            link: sample.link.unwrap_or_default(),
            attributes: Span::since(attributes, &model.attribute_lists),
            values: Span::since(values, &model.values),
            timestamps: Span::since(timestamps, &model.timestamps),
            value_types: u32::try_from(profile.value_types.len()).unwrap_or(u32::MAX),
        });
        profile.samples = Span::since(profile.samples.places().start, &model.samples);
    }
}
