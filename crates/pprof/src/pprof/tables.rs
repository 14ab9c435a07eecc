//! The tables of a pprof message: mappings, locations, functions and strings, by their IDs.

use std::borrow::Cow;
use std::collections::HashMap;

use super::fields;
use crate::error::DecodeError;
use crate::limits::{Limits, within};
use crate::model::{
    Binary, BinaryId, Extent, Frame, Function, FunctionId, Line, Profiles, Span, StringId,
};
use crate::normalize::{self, Convention, Seen};
use crate::wire::{Reader, Tag};

/// What was read of the tables, with the numbers of the message; [`Tables::resolve`] makes the model of it.
#[derive(Debug, Default)]
pub(super) struct Tables<'a> {
    strings: Vec<Cow<'a, str>>,
    mappings: Vec<Mapping>,
    locations: Vec<Location>,
    functions: Vec<NumberedFunction>,
    lines: Vec<RawLine>,
}

#[derive(Debug, Default)]
struct Mapping {
    id: u64,
    extent: Extent,
    file_name: u64,
    build_id: u64,
    has_inline_frames: bool,
}

#[derive(Debug, Default)]
struct Location {
    id: u64,
    mapping_id: u64,
    address: u64,
    lines: Span,
    is_folded: bool,
}

#[derive(Debug, Default)]
struct RawLine {
    function_id: u64,
    line: i64,
    column: i64,
}

#[derive(Debug, Default)]
struct NumberedFunction {
    id: u64,
    name: u64,
    system_name: u64,
    file_name: u64,
    start_line: i64,
}

/// Places in a table by the IDs of the message.
#[derive(Debug)]
pub(super) struct Ids {
    what: &'static str,
    length: usize,
    /// None if the IDs are 1, 2, 3 and so on, as most writers have them.
    places: Option<HashMap<u64, u32>>,
}

impl Ids {
    fn of(
        what: &'static str,
        ids: impl ExactSizeIterator<Item = u64> + Clone,
    ) -> Result<Self, DecodeError> {
        let length = ids.len();
        if ids.clone().zip(1..).all(|(id, due)| id == due) {
            return Ok(Self {
                what,
                length,
                places: None,
            });
        }
        let mut places = HashMap::with_capacity(length);
        for (id, place) in ids.zip(0..) {
            if id == 0 {
                return Err(DecodeError::IdZero { what });
            }
            if places.insert(id, place).is_some() {
                return Err(DecodeError::DuplicateId { what, id });
            }
        }
        Ok(Self {
            what,
            length,
            places: Some(places),
        })
    }

    /// The place in the table.
    pub(super) fn place(&self, id: u64, place: &'static str) -> Result<u32, DecodeError> {
        let found = if let Some(places) = &self.places {
            places.get(&id).copied()
        } else {
            let before = id.checked_sub(1).and_then(|at| u32::try_from(at).ok());
            before.filter(|&at| (at as usize) < self.length)
        };
        let missing = DecodeError::OutOfRange {
            place,
            what: self.what,
            index: id,
            length: self.length,
        };
        found.ok_or(missing)
    }
}

impl<'a> Tables<'a> {
    /// Takes one field of the profile, if it is of a table.
    pub(super) fn take(
        &mut self,
        tag: Tag,
        reader: Reader<'a>,
        limits: &Limits,
    ) -> Result<(), DecodeError> {
        match tag {
            fields::profile::STRING_TABLE => {
                self.strings.push(String::from_utf8_lossy(reader.rest()));
                within("strings", self.strings.len(), limits.strings)
            }
            fields::profile::MAPPING => {
                self.mappings.push(mapping(reader)?);
                within("mappings", self.mappings.len(), limits.mappings)
            }
            fields::profile::LOCATION => {
                let location = self.location(reader)?;
                self.locations.push(location);
                within("names of locations", self.lines.len(), limits.lines)?;
                within("locations", self.locations.len(), limits.locations)
            }
            fields::profile::FUNCTION => {
                self.functions.push(function(reader)?);
                within("functions", self.functions.len(), limits.functions)
            }
            _ => Ok(()),
        }
    }

    fn location(&mut self, mut reader: Reader<'a>) -> Result<Location, DecodeError> {
        use fields::location::{ADDRESS, ID, IS_FOLDED, LINE, MAPPING_ID};
        let mut found = Location::default();
        let start = self.lines.len();
        while let Some(tag) = reader.tag()? {
            match tag {
                ID => found.id = reader.varint()?,
                MAPPING_ID => found.mapping_id = reader.varint()?,
                ADDRESS => found.address = reader.varint()?,
                IS_FOLDED => found.is_folded = reader.varint()? != 0,
                LINE => self.lines.push(line(reader.message()?)?),
                other => reader.skip(other)?,
            }
        }
        found.lines = Span::since(start, &self.lines);
        Ok(found)
    }

    /// The model of these tables, and the places of locations by their IDs.
    pub(super) fn resolve(self) -> Result<(Profiles<'a>, Ids), DecodeError> {
        if self.strings.first().is_some_and(|first| !first.is_empty()) {
            return Err(DecodeError::FirstString);
        }
        let mut model = Profiles {
            strings: self.strings,
            ..Profiles::default()
        };
        let strings = model.strings.len();
        let mapping_ids = Ids::of("mapping", self.mappings.iter().map(|mapping| mapping.id))?;
        let function_ids = Ids::of(
            "function",
            self.functions.iter().map(|function| function.id),
        )?;
        let location_ids = Ids::of(
            "location",
            self.locations.iter().map(|location| location.id),
        )?;
        for mapping in &self.mappings {
            let binary = resolved_binary(&model, mapping, strings)?;
            model.binaries.push(binary);
        }
        for function in &self.functions {
            model.functions.push(Function {
                name: string(function.name, strings, "function")?,
                system_name: string(function.system_name, strings, "function")?,
                file_name: string(function.file_name, strings, "function")?,
                start_line: function.start_line,
            });
        }
        for location in &self.locations {
            let binary = match location.mapping_id {
                0 => None,
                id => Some(BinaryId(mapping_ids.place(id, "location")?)),
            };
            let start = model.lines.len();
            // Function 0 is none: google/pprof takes such lines as unnamed, too.
            for line in location
                .lines
                .of(&self.lines)
                .iter()
                .filter(|line| line.function_id != 0)
            {
                let function = FunctionId(function_ids.place(line.function_id, "line")?);
                model.lines.push(Line {
                    function,
                    line: line.line,
                    column: line.column,
                });
            }
            let lines = Span::since(start, &model.lines);
            let frame = resolved_frame(&model, location, (binary, lines));
            model.frames.push(frame);
        }
        Ok((model, location_ids))
    }
}

fn resolved_binary(
    model: &Profiles<'_>,
    mapping: &Mapping,
    strings: usize,
) -> Result<Binary, DecodeError> {
    let file_name = string(mapping.file_name, strings, "mapping")?;
    let id_text = string(mapping.build_id, strings, "mapping")?;
    let identity = normalize::identity(model.text(id_text));
    Ok(Binary {
        role: normalize::role(model.text(file_name), identity.is_some()),
        file_name,
        identity,
        id_text,
        extent: mapping.extent,
        has_inline_frames: mapping.has_inline_frames,
        attributes: Span::default(),
    })
}

fn resolved_frame(
    model: &Profiles<'_>,
    location: &Location,
    (binary, lines): (Option<BinaryId>, Span),
) -> Frame {
    let last = lines.of(&model.lines).last();
    let function = last.and_then(|line| model.function(line.function));
    let mapping = binary.and_then(|id| model.binary(id));
    let kind = normalize::frame_kind(Seen {
        convention: Convention::Process,
        mapping: mapping.map(|binary| (binary.role, binary.extent)),
        address: location.address,
        language: "",
        name: function.map(|function| model.text(function.name)),
    });
    Frame {
        kind,
        binary,
        address: location.address,
        lines,
        language: StringId::EMPTY,
        attributes: Span::default(),
        is_folded: location.is_folded,
    }
}

pub(super) fn string(
    index: u64,
    length: usize,
    place: &'static str,
) -> Result<StringId, DecodeError> {
    let found = u32::try_from(index).ok();
    let found = found.filter(|&index| index == 0 || (index as usize) < length);
    let missing = DecodeError::OutOfRange {
        place,
        what: "string",
        index,
        length,
    };
    found.map(StringId).ok_or(missing)
}

fn mapping(mut reader: Reader<'_>) -> Result<Mapping, DecodeError> {
    use fields::mapping as f;
    let mut found = Mapping::default();
    while let Some(tag) = reader.tag()? {
        match tag {
            f::ID => found.id = reader.varint()?,
            f::MEMORY_START => found.extent.start = reader.varint()?,
            f::MEMORY_LIMIT => found.extent.limit = reader.varint()?,
            f::FILE_OFFSET => {
                found.extent.file_offset = reader.varint()?;
            }
            f::FILENAME => found.file_name = reader.varint()?,
            f::BUILD_ID => found.build_id = reader.varint()?,
            f::HAS_INLINE_FRAMES => {
                found.has_inline_frames = reader.varint()? != 0;
            }
            other => reader.skip(other)?,
        }
    }
    Ok(found)
}

fn line(mut reader: Reader<'_>) -> Result<RawLine, DecodeError> {
    use fields::line as f;
    let mut found = RawLine::default();
    while let Some(tag) = reader.tag()? {
        match tag {
            f::FUNCTION_ID => found.function_id = reader.varint()?,
            f::LINE => found.line = reader.varint()?.cast_signed(),
            f::COLUMN => found.column = reader.varint()?.cast_signed(),
            other => reader.skip(other)?,
        }
    }
    Ok(found)
}

fn function(mut reader: Reader<'_>) -> Result<NumberedFunction, DecodeError> {
    use fields::function as f;
    let mut found = NumberedFunction::default();
    while let Some(tag) = reader.tag()? {
        match tag {
            f::ID => found.id = reader.varint()?,
            f::NAME => found.name = reader.varint()?,
            f::SYSTEM_NAME => found.system_name = reader.varint()?,
            f::FILENAME => found.file_name = reader.varint()?,
            f::START_LINE => {
                found.start_line = reader.varint()?.cast_signed();
            }
            other => reader.skip(other)?,
        }
    }
    Ok(found)
}
