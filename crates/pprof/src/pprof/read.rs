//! pprof bytes to the model.

use super::fields;
use super::tables::{Ids, Tables, string};
use crate::error::DecodeError;
use crate::limits::{Limits, within};
use crate::model::{
    Attribute, AttributeId, Builder, FrameId, NewSample, Profile, Profiles, StringId, Value,
    ValueType,
};
use crate::wire::Reader;

/// The profile in a pprof message, which is unpacked already: [`crate::unpacked`] does that.
///
/// The model has one profile. Strings that are not UTF-8, as old writers make them, are mended with U+FFFD.
///
/// # Errors
/// If it is none, refers to what is not in it, or exceeds a limit.
pub fn decode<'a>(message: &'a [u8], limits: &Limits) -> Result<Profiles<'a>, DecodeError> {
    limits.message(message.len())?;
    let mut tables = Tables::default();
    let mut header = Header::default();
    let mut reader = Reader::new(message);
    // Samples refer to what may come behind them, so that they are left for a second pass.
    while let Some(tag) = reader.tag()? {
        match tag {
            fields::profile::SAMPLE => drop(reader.message()?),
            fields::profile::STRING_TABLE
            | fields::profile::MAPPING
            | fields::profile::LOCATION
            | fields::profile::FUNCTION => tables.take(tag, reader.message()?, limits)?,
            other => header.take(other, &mut reader)?,
        }
    }
    let (model, locations) = tables.resolve()?;
    let strings = model.strings.len();
    let mut builder = Builder::of(model);
    builder.profile(header.profile(strings)?);
    let value_types = header.value_types.len();
    let mut samples = Samples {
        builder,
        locations,
        strings,
        value_types,
        limits,
        scratch: Scratch::default(),
    };
    let mut reader = Reader::new(message);
    while let Some(tag) = reader.tag()? {
        match tag {
            fields::profile::SAMPLE => samples.take(reader.message()?)?,
            other => reader.skip(other)?,
        }
    }
    Ok(samples.builder.finish())
}

/// Everything of the profile that is neither a table nor a sample, with the numbers of the message.
#[derive(Debug, Default)]
struct Header {
    value_types: Vec<(u64, u64)>,
    period_type: Option<(u64, u64)>,
    period: i64,
    time: u64,
    duration: u64,
    comments: Vec<u64>,
    default_type: u64,
    dropped_frames: u64,
    kept_frames: u64,
}

impl Header {
    fn take(&mut self, tag: crate::wire::Tag, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        use fields::profile as f;
        match tag {
            f::SAMPLE_TYPE => self.value_types.push(value_type(reader.message()?)?),
            f::PERIOD_TYPE => self.period_type = Some(value_type(reader.message()?)?),
            f::PERIOD => self.period = reader.varint()?.cast_signed(),
            f::TIME_NANOS => self.time = reader.varint()?,
            f::DURATION_NANOS => self.duration = reader.varint()?,
            f::COMMENT => self.comments.push(reader.varint()?),
            f::COMMENTS => reader.packed_varints(|comment| {
                self.comments.push(comment);
                Ok(())
            })?,
            f::DEFAULT_SAMPLE_TYPE => self.default_type = reader.varint()?,
            f::DROP_FRAMES => self.dropped_frames = reader.varint()?,
            f::KEEP_FRAMES => self.kept_frames = reader.varint()?,
            other => reader.skip(other)?,
        }
        within("types of value", self.value_types.len(), VALUE_TYPES_MAX)
    }

    fn profile(&self, strings: usize) -> Result<Profile, DecodeError> {
        let text = |index| string(index, strings, "profile");
        let typed = |&(name, unit): &(u64, u64)| {
            Ok::<_, DecodeError>(ValueType {
                name: text(name)?,
                unit: text(unit)?,
            })
        };
        let comments = self.comments.iter().map(|comment| text(*comment));
        Ok(Profile {
            value_types: self
                .value_types
                .iter()
                .map(typed)
                .collect::<Result<_, _>>()?,
            period_type: self.period_type.as_ref().map(typed).transpose()?,
            period: self.period,
            time_unix_nanos: self.time,
            duration_nanos: self.duration,
            comments: comments.collect::<Result<_, _>>()?,
            default_type: text(self.default_type)?,
            dropped_frames: text(self.dropped_frames)?,
            kept_frames: text(self.kept_frames)?,
            ..Profile::default()
        })
    }
}

/// Types of value in one pprof: perf writes one for each kind of event, some tens at most.
const VALUE_TYPES_MAX: usize = 256;

fn value_type(mut reader: Reader<'_>) -> Result<(u64, u64), DecodeError> {
    let (mut name, mut unit) = (0, 0);
    while let Some(tag) = reader.tag()? {
        match tag {
            fields::value_type::TYPE => name = reader.varint()?,
            fields::value_type::UNIT => unit = reader.varint()?,
            other => reader.skip(other)?,
        }
    }
    Ok((name, unit))
}

/// The samples of a message whose tables are known.
struct Samples<'a, 'l> {
    builder: Builder<'a>,
    locations: Ids,
    strings: usize,
    value_types: usize,
    limits: &'l Limits,
    scratch: Scratch,
}

/// The parts of one sample; kept from one to the next, so that a sample allocates nothing.
#[derive(Debug, Default)]
struct Scratch {
    frames: Vec<FrameId>,
    values: Vec<i64>,
    attributes: Vec<AttributeId>,
}

impl Samples<'_, '_> {
    fn take(&mut self, mut reader: Reader<'_>) -> Result<(), DecodeError> {
        let Scratch {
            mut frames,
            mut values,
            mut attributes,
        } = std::mem::take(&mut self.scratch);
        let locations = &self.locations;
        let depth = self.limits.stack_depth;
        let mut push_frame = |id: u64| {
            frames.push(FrameId(locations.place(id, "sample")?));
            within("frames of a stack", frames.len(), depth)
        };
        while let Some(tag) = reader.tag()? {
            match tag {
                fields::sample::LOCATION_ID => push_frame(reader.varint()?)?,
                fields::sample::LOCATION_IDS => reader.packed_varints(&mut push_frame)?,
                fields::sample::VALUE => values.push(reader.varint()?.cast_signed()),
                fields::sample::VALUES => reader.packed_varints(|value| {
                    values.push(value.cast_signed());
                    Ok(())
                })?,
                fields::sample::LABEL => {
                    let attribute = label(reader.message()?, self.strings)?;
                    attributes.push(self.builder.attribute(attribute));
                }
                other => reader.skip(other)?,
            }
        }
        if values.len() != self.value_types {
            return Err(DecodeError::ValueCount {
                found: values.len(),
                expected: self.value_types,
                rule: "one for each sample_type of the profile",
            });
        }
        let stack = self.builder.stack(&frames);
        let sample = NewSample {
            stack,
            values: &values,
            attributes: &attributes,
            ..NewSample::default()
        };
        self.builder.sample(sample);
        let model = self.builder.model();
        within("samples", model.samples.len(), self.limits.samples)?;
        within("stacks", model.stacks.len(), self.limits.stacks)?;
        within("attributes", model.attributes.len(), self.limits.attributes)?;
        let of_stacks = model.stack_frames.len();
        within("frames of all stacks", of_stacks, self.limits.stack_frames)?;
        frames.clear();
        values.clear();
        attributes.clear();
        self.scratch = Scratch {
            frames,
            values,
            attributes,
        };
        Ok(())
    }
}

fn label(mut reader: Reader<'_>, strings: usize) -> Result<Attribute, DecodeError> {
    let (mut key, mut text, mut number, mut unit) = (0, 0, 0, 0);
    while let Some(tag) = reader.tag()? {
        match tag {
            fields::label::KEY => key = reader.varint()?,
            fields::label::STR => text = reader.varint()?,
            fields::label::NUM => number = reader.varint()?,
            fields::label::NUM_UNIT => unit = reader.varint()?,
            other => reader.skip(other)?,
        }
    }
    // profile.proto: at most one of str and num is there; which one is said by the number of the string, not by
    // its text, so that a second empty string is a text and the first is none.
    let value = match string(text, strings, "label")? {
        StringId::EMPTY => Value::Integer(number.cast_signed()),
        text => Value::Text(text),
    };
    let (key, unit) = (
        string(key, strings, "label")?,
        string(unit, strings, "label")?,
    );
    Ok(Attribute { key, value, unit })
}
