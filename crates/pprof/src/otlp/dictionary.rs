//! The dictionary that all profiles of a message share: read first, then made into the model's tables.
//!
//! Entry 0 of each table stands for "none".

use std::borrow::Cow;

use super::fields;
use super::meaning::{self, Classifier};
use super::values::Values;
use crate::error::DecodeError;
use crate::limits::{Limits, within};
use crate::model::{
    AttributeId, Binary, BinaryId, Extent, Frame, FrameId, Function, FunctionId, Line, Link,
    Profiles, Span,
};
use crate::wire::Reader;

/// The tables with the numbers of the message.
#[derive(Debug, Default)]
pub(super) struct Tables<'a> {
    strings: Vec<Cow<'a, str>>,
    /// Left for when all strings are there.
    attributes: Vec<Reader<'a>>,
    links: Vec<Link>,
    mappings: Vec<Mapping>,
    functions: Vec<[u64; 4]>,
    locations: Vec<Location>,
    lines: Vec<RawLine>,
    stacks: Vec<Span>,
    stack_frames: Vec<FrameId>,
    /// The attributes of mappings and locations.
    attribute_indices: Vec<u32>,
}

#[derive(Debug, Default)]
struct Mapping {
    extent: Extent,
    file_name: u64,
    attributes: Span,
}

#[derive(Debug, Default)]
struct Location {
    mapping: u64,
    address: u64,
    lines: Span,
    attributes: Span,
}

#[derive(Debug, Default)]
struct RawLine {
    function: u64,
    line: i64,
    column: i64,
}

/// The model with its tables, and what profiles may refer to.
#[derive(Debug)]
pub(super) struct Dictionary<'a> {
    pub(super) model: Profiles<'a>,
    pub(super) values: Values,
    /// How many attributes are the dictionary's.
    pub(super) attributes: usize,
    pub(super) has_stacks: bool,
}

impl<'a> Tables<'a> {
    /// Takes a dictionary; if there are several they are one, as protobuf merges messages.
    pub(super) fn take(
        &mut self,
        mut reader: Reader<'a>,
        limits: &Limits,
    ) -> Result<(), DecodeError> {
        use fields::dictionary as f;
        while let Some(tag) = reader.tag()? {
            match tag {
                f::STRING => {
                    self.strings.push(reader.string()?.into());
                    within("strings", self.strings.len(), limits.strings)?;
                }
                f::STACK => {
                    self.stack(reader.message()?, limits)?;
                    within("stacks", self.stacks.len(), limits.stacks)?;
                }
                f::LOCATION => {
                    self.location(reader.message()?)?;
                    within("locations", self.locations.len(), limits.locations)?;
                    within("names of locations", self.lines.len(), limits.lines)?;
                }
                f::MAPPING => {
                    self.mapping(reader.message()?)?;
                    within("mappings", self.mappings.len(), limits.mappings)?;
                }
                f::FUNCTION => {
                    self.functions.push(function(reader.message()?)?);
                    within("functions", self.functions.len(), limits.functions)?;
                }
                f::LINK => {
                    self.links.push(link(reader.message()?)?);
                    within("links", self.links.len(), limits.links)?;
                }
                f::ATTRIBUTE => {
                    self.attributes.push(reader.message()?);
                    within("attributes", self.attributes.len(), limits.attributes)?;
                }
                other => reader.skip(other)?,
            }
        }
        Ok(())
    }

    fn stack(&mut self, mut reader: Reader<'a>, limits: &Limits) -> Result<(), DecodeError> {
        let start = self.stack_frames.len();
        let frames = &mut self.stack_frames;
        while let Some(tag) = reader.tag()? {
            match tag {
                fields::stack::LOCATION_INDICES => reader.packed_varints(|index| {
                    frames.push(FrameId(narrow(index)));
                    Ok(())
                })?,
                fields::stack::LOCATION_INDEX => frames.push(FrameId(narrow(reader.varint()?))),
                other => reader.skip(other)?,
            }
        }
        let stack = Span::since(start, frames);
        within("frames of a stack", stack.len(), limits.stack_depth)?;
        within("frames of all stacks", frames.len(), limits.stack_frames)?;
        self.stacks.push(stack);
        Ok(())
    }

    fn mapping(&mut self, mut reader: Reader<'a>) -> Result<(), DecodeError> {
        use fields::mapping as f;
        let mut found = Mapping::default();
        let start = self.attribute_indices.len();
        while let Some(tag) = reader.tag()? {
            match tag {
                f::MEMORY_START => found.extent.start = reader.varint()?,
                f::MEMORY_LIMIT => found.extent.limit = reader.varint()?,
                f::FILE_OFFSET => found.extent.file_offset = reader.varint()?,
                f::FILE_NAME => found.file_name = reader.varint()?,
                f::ATTRIBUTE_INDEX => self.attribute_indices.push(narrow(reader.varint()?)),
                f::ATTRIBUTE_INDICES => push_all(&mut reader, &mut self.attribute_indices)?,
                other => reader.skip(other)?,
            }
        }
        found.attributes = Span::since(start, &self.attribute_indices);
        self.mappings.push(found);
        Ok(())
    }

    fn location(&mut self, mut reader: Reader<'a>) -> Result<(), DecodeError> {
        use fields::location as f;
        let mut found = Location::default();
        let (lines, attributes) = (self.lines.len(), self.attribute_indices.len());
        while let Some(tag) = reader.tag()? {
            match tag {
                f::MAPPING => found.mapping = reader.varint()?,
                f::ADDRESS => found.address = reader.varint()?,
                f::LINE => self.lines.push(line(reader.message()?)?),
                f::ATTRIBUTE_INDEX => self.attribute_indices.push(narrow(reader.varint()?)),
                f::ATTRIBUTE_INDICES => push_all(&mut reader, &mut self.attribute_indices)?,
                other => reader.skip(other)?,
            }
        }
        found.lines = Span::since(lines, &self.lines);
        found.attributes = Span::since(attributes, &self.attribute_indices);
        self.locations.push(found);
        Ok(())
    }

    /// The model's tables.
    pub(super) fn resolve(mut self, limits: &Limits) -> Result<Dictionary<'a>, DecodeError> {
        if self.strings.first().is_some_and(|first| !first.is_empty()) {
            return Err(DecodeError::FirstString);
        }
        let strings = std::mem::take(&mut self.strings);
        let mut values = Values::new(limits, strings.len());
        let mut model = Profiles {
            strings,
            ..Profiles::default()
        };
        if model.strings.is_empty() {
            model.strings.push(Cow::Borrowed(""));
        }
        model.links = std::mem::take(&mut self.links);
        for reader in std::mem::take(&mut self.attributes) {
            let attribute = values.key_value_and_unit(&mut model, reader)?;
            model.attributes.push(attribute);
        }
        let attributes = model.attributes.len();
        let mut dictionary = Dictionary {
            model,
            values,
            attributes,
            has_stacks: !self.stacks.is_empty(),
        };
        self.resolve_binaries(&mut dictionary)?;
        self.resolve_frames(&mut dictionary)?;
        let length = self.locations.len();
        for frame in &self.stack_frames {
            let index = u64::from(frame.0);
            // Location 0 is none; where the table is empty, it is none all the same.
            if frame.index() >= length.max(1) {
                return Err(DecodeError::OutOfRange {
                    place: "stack",
                    what: "location",
                    index,
                    length,
                });
            }
        }
        let model = &mut dictionary.model;
        model.stack_frames = self.stack_frames;
        model.stacks = self.stacks;
        if model.stacks.is_empty() {
            model.stacks.push(Span::default());
        }
        Ok(dictionary)
    }

    fn resolve_binaries(&self, dictionary: &mut Dictionary<'a>) -> Result<(), DecodeError> {
        for mapping in &self.mappings {
            let file_name = dictionary.values.string(mapping.file_name, "mapping")?;
            let attributes = mapping.attributes.of(&self.attribute_indices);
            let attributes = dictionary.attribute_list(attributes, "mapping")?;
            let mut binary = Binary {
                file_name,
                attributes,
                extent: mapping.extent,
                ..Binary::default()
            };
            meaning::identify(&dictionary.model, &mut binary);
            dictionary.model.binaries.push(binary);
        }
        Ok(())
    }

    fn resolve_frames(&self, dictionary: &mut Dictionary<'a>) -> Result<(), DecodeError> {
        for function in &self.functions {
            let [name, system_name, file_name, start_line] = *function;
            let text = |index| dictionary.values.string(index, "function");
            let function = Function {
                name: text(name)?,
                system_name: text(system_name)?,
                file_name: text(file_name)?,
                start_line: start_line.cast_signed(),
            };
            dictionary.model.functions.push(function);
        }
        let functions = self.functions.len();
        let mut classifier = Classifier::default();
        for location in &self.locations {
            let start = dictionary.model.lines.len();
            for line in location
                .lines
                .of(&self.lines)
                .iter()
                .filter(|line| line.function != 0)
            {
                let place = place(("location", "function"), line.function, functions)?;
                let line = Line {
                    function: FunctionId(place),
                    line: line.line,
                    column: line.column,
                };
                dictionary.model.lines.push(line);
            }
            let binary = match location.mapping {
                0 => None,
                index => Some(BinaryId(place(
                    ("location", "mapping"),
                    index,
                    self.mappings.len(),
                )?)),
            };
            let attributes = location.attributes.of(&self.attribute_indices);
            let frame = Frame {
                binary,
                address: location.address,
                lines: Span::since(start, &dictionary.model.lines),
                attributes: dictionary.attribute_list(attributes, "location")?,
                ..Frame::default()
            };
            let Dictionary { model, values, .. } = &mut *dictionary;
            let frame = classifier.classified((model, values), frame)?;
            dictionary.model.frames.push(frame);
        }
        if dictionary.model.frames.is_empty() {
            dictionary.model.frames.push(Frame::default());
        }
        Ok(())
    }
}

impl Dictionary<'_> {
    /// Keeps a list of attributes of the dictionary; number 0 is none.
    fn attribute_list(&mut self, indices: &[u32], of: &'static str) -> Result<Span, DecodeError> {
        let start = self.model.attribute_lists.len();
        for index in indices.iter().filter(|index| **index != 0) {
            let place = place((of, "attribute"), u64::from(*index), self.attributes)?;
            self.model.attribute_lists.push(AttributeId(place));
        }
        Ok(Span::since(start, &self.model.attribute_lists))
    }
}

/// A place in a table, by number.
#[inline]
pub(super) fn place(
    (place, what): (&'static str, &'static str),
    index: u64,
    length: usize,
) -> Result<u32, DecodeError> {
    match u32::try_from(index) {
        Ok(found) if (found as usize) < length => Ok(found),
        _ => Err(DecodeError::OutOfRange {
            place,
            what,
            index,
            length,
        }),
    }
}

/// Numbers beyond 32 bits lead nowhere in any table, and the largest of 32 bits does not either.
fn narrow(index: u64) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn push_all(reader: &mut Reader<'_>, into: &mut Vec<u32>) -> Result<(), DecodeError> {
    reader.packed_varints(|index| {
        into.push(narrow(index));
        Ok(())
    })
}

fn line(mut reader: Reader<'_>) -> Result<RawLine, DecodeError> {
    use fields::line as f;
    let mut found = RawLine::default();
    while let Some(tag) = reader.tag()? {
        match tag {
            f::FUNCTION => found.function = reader.varint()?,
            f::LINE => found.line = reader.varint()?.cast_signed(),
            f::COLUMN => found.column = reader.varint()?.cast_signed(),
            other => reader.skip(other)?,
        }
    }
    Ok(found)
}

fn function(mut reader: Reader<'_>) -> Result<[u64; 4], DecodeError> {
    use fields::function as f;
    let [mut name, mut system_name, mut file_name, mut start_line] = [0; 4];
    while let Some(tag) = reader.tag()? {
        match tag {
            f::NAME => name = reader.varint()?,
            f::SYSTEM_NAME => system_name = reader.varint()?,
            f::FILE_NAME => file_name = reader.varint()?,
            f::START_LINE => start_line = reader.varint()?,
            other => reader.skip(other)?,
        }
    }
    Ok([name, system_name, file_name, start_line])
}

/// IDs of another length than the specification's are none, which is all zeros.
fn link(mut reader: Reader<'_>) -> Result<Link, DecodeError> {
    use fields::link as f;
    let mut found = Link::default();
    while let Some(tag) = reader.tag()? {
        match tag {
            f::TRACE => found.trace_id = reader.bytes()?.try_into().unwrap_or_default(),
            f::SPAN => found.span_id = reader.bytes()?.try_into().unwrap_or_default(),
            other => reader.skip(other)?,
        }
    }
    Ok(found)
}
