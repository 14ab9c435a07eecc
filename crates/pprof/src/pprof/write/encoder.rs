//! The messages of a pprof file, one after another: samples first, then what they turned out to use.

use super::{NameFrame, NamedLine};
use crate::error::EncodeError;
use crate::model::{
    Attribute, AttributeId, BinaryId, Frame, FrameId, Profile, Profiles, Sample, StringId, Value,
    ValueType,
};
use crate::numbering::{FunctionKey, Functions, Numbering, Strings};
use crate::pprof::fields;
use crate::wire::{Tag, Writer};

/// A pprof file that grows.
pub(super) struct Encoder<'m, 'a> {
    model: &'m Profiles<'a>,
    message: Writer,
    /// A message within it, and one within that; kept for their memory.
    part: Writer,
    inner: Writer,
    strings: Strings<'m>,
    frames: Numbering,
    binaries: Numbering,
    /// By the place of the binary.
    lacking: Vec<Lacking>,
    functions: Functions,
}

/// A name of a frame, in numbers of strings.
#[derive(Clone, Copy, Debug)]
struct Call {
    function: FunctionKey,
    line: i64,
    column: i64,
}

/// Who named a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Profiler,
    Caller,
}

/// What some frame of a mapping lacks, as bits.
#[derive(Clone, Copy, Debug, Default)]
struct Lacking(u8);

const FUNCTION: u8 = 1;
const FILE: u8 = 2;
const LINE: u8 = 4;
/// Names by the caller, who gives inlined calls, too.
const OUR_NAMES: u8 = 8;

impl Lacking {
    fn note(&mut self, bit: u8, is_lacking: Option<bool>) {
        if is_lacking.unwrap_or(true) {
            self.0 |= bit;
        }
    }

    fn has(self, bit: u8) -> bool {
        self.0 & bit == 0
    }
}

impl<'m, 'a> Encoder<'m, 'a> {
    pub(super) fn new(model: &'m Profiles<'a>) -> Self {
        Self {
            model,
            message: Writer::default(),
            part: Writer::default(),
            inner: Writer::default(),
            strings: Strings::of(model),
            frames: Numbering::of(model.frames().len()),
            binaries: Numbering::of(model.binaries().len()),
            lacking: vec![Lacking::default(); model.binaries().len()],
            functions: Functions::default(),
        }
    }

    /// The file.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.strings
            .write(fields::profile::STRING_TABLE, &mut self.message);
        self.message.into_bytes()
    }

    fn string(&mut self, id: StringId) -> u64 {
        self.strings.number(self.model, id)
    }

    fn value_type(&mut self, tag: Tag, value_type: ValueType) {
        let (name, unit) = (self.string(value_type.name), self.string(value_type.unit));
        self.part.clear();
        self.part.varint(fields::value_type::TYPE, name);
        self.part.varint(fields::value_type::UNIT, unit);
        self.message.message(tag, &self.part);
    }

    pub(super) fn value_types(&mut self, profile: &Profile) {
        for value_type in &profile.value_types {
            self.value_type(fields::profile::SAMPLE_TYPE, *value_type);
        }
    }

    pub(super) fn sample(
        &mut self,
        profile: &Profile,
        sample: &Sample<'_>,
    ) -> Result<(), EncodeError> {
        self.part.clear();
        self.inner.clear();
        for frame in self.model.stack(sample.stack) {
            self.inner.raw_varint(self.frames.number(frame.0));
        }
        if !self.inner.is_empty() {
            self.part.message(fields::sample::LOCATION_IDS, &self.inner);
        }
        self.inner.clear();
        for place in 0..profile.value_types.len() {
            let total = sample.total(place);
            let value = i64::try_from(total)
                .ok()
                .ok_or(EncodeError::TotalTooLarge { total })?;
            self.inner.raw_varint(value.cast_unsigned());
        }
        if !self.inner.is_empty() {
            self.part.message(fields::sample::VALUES, &self.inner);
        }
        for id in sample.attributes {
            self.label(*id);
        }
        self.message.message(fields::profile::SAMPLE, &self.part);
        Ok(())
    }

    fn label(&mut self, id: AttributeId) {
        let Some(Attribute { key, value, unit }) = self.model.attribute(id).copied() else {
            return;
        };
        let (key, unit) = (self.string(key), self.string(unit));
        let text = match value {
            Value::Text(id) | Value::Structured(id) => self.string(id),
            Value::Bool(is) => self
                .strings
                .number_of_text(if is { "true" } else { "false" }),
            Value::Double(number) => self.strings.number_of_text(number.to_string()),
            Value::Empty => 0,
            Value::Integer(number) => {
                self.inner.clear();
                self.inner.varint(fields::label::KEY, key);
                self.inner.signed(fields::label::NUM, number);
                self.inner.varint(fields::label::NUM_UNIT, unit);
                self.part.message(fields::sample::LABEL, &self.inner);
                return;
            }
        };
        let text = self.strings.label_text(text);
        self.inner.clear();
        self.inner.varint(fields::label::KEY, key);
        self.inner.varint(fields::label::STR, text);
        self.inner.varint(fields::label::NUM_UNIT, unit);
        self.part.message(fields::sample::LABEL, &self.inner);
    }

    /// The frames that samples use, by the names that `name` has for them.
    pub(super) fn locations(&mut self, name: &mut NameFrame<'m, '_>) {
        let (mut named, mut calls) = (Vec::new(), Vec::new());
        let mut index = 0;
        while let Some(place) = self.frames.place(index) {
            index += 1;
            let frame = self
                .model
                .frame(FrameId(place))
                .copied()
                .unwrap_or_default();
            named.clear();
            calls.clear();
            name(FrameId(place), &mut named);
            let source = if named.is_empty() {
                Source::Profiler
            } else {
                Source::Caller
            };
            match source {
                Source::Profiler => self.own_calls(&frame, &mut calls),
                Source::Caller => calls.extend(named.iter().map(|line| self.named_call(line))),
            }
            self.note_names(&frame, calls.last(), source);
            self.location((index as u64, &frame), &calls);
        }
    }

    /// The names that a frame came with.
    fn own_calls(&mut self, frame: &Frame, calls: &mut Vec<Call>) {
        for line in self.model.lines(frame) {
            let function = self
                .model
                .function(line.function)
                .copied()
                .unwrap_or_default();
            let function = FunctionKey {
                name: self.string(function.name),
                system_name: self.string(function.system_name),
                file_name: self.string(function.file_name),
                start_line: function.start_line,
            };
            calls.push(Call {
                function,
                line: line.line,
                column: line.column,
            });
        }
    }

    /// A name that the caller gave.
    fn named_call(&mut self, line: &NamedLine<'m>) -> Call {
        let function = FunctionKey {
            name: self.strings.number_of_text(line.name),
            system_name: self.strings.number_of_text(line.system_name),
            file_name: self.strings.number_of_text(line.file_name),
            start_line: line.start_line,
        };
        Call {
            function,
            line: line.line,
            column: line.column,
        }
    }

    fn note_names(&mut self, frame: &Frame, outermost: Option<&Call>, source: Source) {
        let lacking = frame.binary.and_then(|id| self.lacking.get_mut(id.index()));
        let Some(lacking) = lacking else { return };
        lacking.note(FUNCTION, outermost.map(|call| call.function.name == 0));
        lacking.note(FILE, outermost.map(|call| call.function.file_name == 0));
        lacking.note(LINE, outermost.map(|call| call.line == 0));
        lacking.note(OUR_NAMES, Some(source == Source::Profiler));
    }

    fn location(&mut self, (id, frame): (u64, &Frame), calls: &[Call]) {
        use fields::location as f;
        let mapping = frame
            .binary
            .map_or(0, |binary| self.binaries.number(binary.0));
        self.part.clear();
        self.part.varint(f::ID, id);
        self.part.varint(f::MAPPING_ID, mapping);
        self.part.varint(f::ADDRESS, frame.address);
        for call in calls {
            let function = self.functions.number(call.function);
            self.inner.clear();
            self.inner.varint(fields::line::FUNCTION_ID, function);
            self.inner.signed(fields::line::LINE, call.line);
            self.inner.signed(fields::line::COLUMN, call.column);
            self.part.message(f::LINE, &self.inner);
        }
        self.part.varint(f::IS_FOLDED, u64::from(frame.is_folded));
        self.message.message(fields::profile::LOCATION, &self.part);
    }

    /// The mappings that frames use.
    pub(super) fn mappings(&mut self) {
        use fields::mapping as f;
        let mut index = 0;
        while let Some(place) = self.binaries.place(index) {
            index += 1;
            let Some(binary) = self.model.binary(BinaryId(place)) else {
                continue;
            };
            let file_name = self.string(binary.file_name);
            let build_id = match &binary.identity {
                Some(identity) if binary.id_text.is_none() => {
                    self.strings.number_of_text(identity.to_string())
                }
                _ => self.string(binary.id_text),
            };
            let lacking = self
                .lacking
                .get(place as usize)
                .copied()
                .unwrap_or_default();
            let has_functions = lacking.has(FUNCTION);
            let has_inlines = has_functions && (lacking.has(OUR_NAMES) || binary.has_inline_frames);
            let part = &mut self.part;
            part.clear();
            part.varint(f::ID, index as u64);
            part.varint(f::MEMORY_START, binary.extent.start);
            part.varint(f::MEMORY_LIMIT, binary.extent.limit);
            part.varint(f::FILE_OFFSET, binary.extent.file_offset);
            part.varint(f::FILENAME, file_name);
            part.varint(f::BUILD_ID, build_id);
            part.varint(f::HAS_FUNCTIONS, u64::from(has_functions));
            part.varint(f::HAS_FILENAMES, u64::from(lacking.has(FILE)));
            part.varint(f::HAS_LINE_NUMBERS, u64::from(lacking.has(LINE)));
            part.varint(f::HAS_INLINE_FRAMES, u64::from(has_inlines));
            self.message.message(fields::profile::MAPPING, &self.part);
        }
    }

    /// The functions that names use.
    pub(super) fn functions(&mut self) {
        use fields::function as f;
        for (key, id) in self.functions.in_order().iter().zip(1..) {
            self.part.clear();
            self.part.varint(f::ID, id);
            self.part.varint(f::NAME, key.name);
            self.part.varint(f::SYSTEM_NAME, key.system_name);
            self.part.varint(f::FILENAME, key.file_name);
            self.part.signed(f::START_LINE, key.start_line);
            self.message.message(fields::profile::FUNCTION, &self.part);
        }
    }

    /// What is neither a sample nor a table.
    pub(super) fn header(&mut self, profile: &Profile) {
        use fields::profile as f;
        if let Some(period_type) = profile.period_type {
            self.value_type(f::PERIOD_TYPE, period_type);
        }
        let (dropped, kept) = (
            self.string(profile.dropped_frames),
            self.string(profile.kept_frames),
        );
        let default_type = self.string(profile.default_type);
        self.message.varint(f::DROP_FRAMES, dropped);
        self.message.varint(f::KEEP_FRAMES, kept);
        self.message.varint(f::TIME_NANOS, profile.time_unix_nanos);
        self.message
            .varint(f::DURATION_NANOS, profile.duration_nanos);
        self.message.signed(f::PERIOD, profile.period);
        self.message.varint(f::DEFAULT_SAMPLE_TYPE, default_type);
        self.inner.clear();
        for comment in &profile.comments {
            let number = self.strings.number(self.model, *comment);
            self.inner.raw_varint(number);
        }
        if !self.inner.is_empty() {
            self.message.message(f::COMMENTS, &self.inner);
        }
    }
}
