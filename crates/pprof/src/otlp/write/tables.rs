//! The tables of a dictionary: entries are written when something first refers to them.

use std::collections::HashMap;

use super::super::fields;
use super::super::meaning::{FRAME_TYPE, IDENTITIES};
use crate::model::{
    Attribute, AttributeId, BinaryId, FrameId, FunctionId, Link, LinkId, Profiles, Span, StackId,
    StringId, Value,
};
use crate::numbering::Strings;
use crate::wire::{Tag, Writer};

/// All tables of a message that grows.
pub(super) struct Tables<'m, 'a> {
    model: &'m Profiles<'a>,
    strings: Strings<'m>,
    mappings: Table,
    locations: Table,
    functions: Table,
    links: Table,
    attributes: Table,
    /// Attributes that the model has as something else, by key and by the number of the text.
    implied: HashMap<(&'static str, u64), u64>,
    stacks: Table,
}

/// Entries by number; 0 is the zero value.
#[derive(Debug)]
struct Table {
    tag: Tag,
    /// By the place in the model; 0 for those without a number.
    numbers: Vec<u32>,
    count: u32,
    entries: Writer,
}

impl Table {
    fn of(tag: Tag, length: usize) -> Self {
        let mut entries = Writer::default();
        entries.bytes(tag, &[]);
        Self {
            tag,
            numbers: vec![0; length],
            count: 0,
            entries,
        }
    }

    /// The number of a place that has one.
    fn known(&self, place: usize) -> Option<u64> {
        let number = self.numbers.get(place)?;
        (*number != 0).then(|| u64::from(*number))
    }

    /// Adds an entry, for a place in the model if it has one.
    fn add(&mut self, place: Option<usize>, entry: &Writer) -> u64 {
        self.entries.message(self.tag, entry);
        self.count = self.count.saturating_add(1);
        if let Some(number) = place.and_then(|place| self.numbers.get_mut(place)) {
            *number = self.count;
        }
        u64::from(self.count)
    }
}

impl<'m, 'a> Tables<'m, 'a> {
    pub(super) fn of(model: &'m Profiles<'a>) -> Self {
        use fields::dictionary as f;
        Self {
            model,
            strings: Strings::of(model),
            mappings: Table::of(f::MAPPING, model.binaries.len()),
            locations: Table::of(f::LOCATION, model.frames.len()),
            functions: Table::of(f::FUNCTION, model.functions.len()),
            links: Table::of(f::LINK, model.links.len()),
            attributes: Table::of(f::ATTRIBUTE, model.attributes.len()),
            implied: HashMap::new(),
            stacks: Table::of(f::STACK, model.stacks.len()),
        }
    }

    /// The dictionary.
    pub(super) fn finish(self) -> Writer {
        let mut all = Writer::default();
        let Self {
            mappings,
            locations,
            functions,
            links,
            attributes,
            stacks,
            ..
        } = self;
        for table in [mappings, locations, functions, links] {
            all.append(&table.entries);
        }
        self.strings.write(fields::dictionary::STRING, &mut all);
        for table in [attributes, stacks] {
            all.append(&table.entries);
        }
        all
    }

    pub(super) fn string(&mut self, id: StringId) -> u64 {
        self.strings.number(self.model, id)
    }

    pub(super) fn stack(&mut self, id: StackId) -> u64 {
        let frames = self.model.stack(id);
        if frames.is_empty() {
            return 0;
        }
        if let Some(number) = self.stacks.known(id.index()) {
            return number;
        }
        let mut numbers = Writer::default();
        for frame in frames {
            let number = self.location(*frame);
            numbers.raw_varint(number);
        }
        let mut entry = Writer::default();
        entry.message(fields::stack::LOCATION_INDICES, &numbers);
        self.stacks.add(Some(id.index()), &entry)
    }

    fn location(&mut self, id: FrameId) -> u64 {
        use fields::location as f;
        if let Some(number) = self.locations.known(id.index()) {
            return number;
        }
        let Some(frame) = self.model.frame(id).copied() else {
            return 0;
        };
        let mut entry = Writer::default();
        let mapping = frame.binary.map_or(0, |binary| self.mapping(binary));
        entry.varint(f::MAPPING, mapping);
        entry.varint(f::ADDRESS, frame.address);
        for line in self.model.lines(&frame) {
            let mut part = Writer::default();
            part.varint(fields::line::FUNCTION, self.function(line.function));
            part.signed(fields::line::LINE, line.line);
            part.signed(fields::line::COLUMN, line.column);
            entry.message(f::LINE, &part);
        }
        let mut attributes = self.list(frame.attributes);
        let model = self.model;
        let language = model.text(frame.language);
        if !language.is_empty() && model.find_attribute(frame.attributes, FRAME_TYPE).is_none() {
            let number = self.implied_attribute(FRAME_TYPE, language.to_owned());
            attributes.raw_varint(number);
        }
        if !attributes.is_empty() {
            entry.message(f::ATTRIBUTE_INDICES, &attributes);
        }
        self.locations.add(Some(id.index()), &entry)
    }

    fn function(&mut self, id: FunctionId) -> u64 {
        use fields::function as f;
        if let Some(number) = self.functions.known(id.index()) {
            return number;
        }
        let Some(function) = self.model.function(id).copied() else {
            return 0;
        };
        let mut entry = Writer::default();
        entry.varint(f::NAME, self.string(function.name));
        entry.varint(f::SYSTEM_NAME, self.string(function.system_name));
        entry.varint(f::FILE_NAME, self.string(function.file_name));
        entry.signed(f::START_LINE, function.start_line);
        if entry.is_empty() {
            return 0;
        }
        self.functions.add(Some(id.index()), &entry)
    }

    fn mapping(&mut self, id: BinaryId) -> u64 {
        use fields::mapping as f;
        if let Some(number) = self.mappings.known(id.index()) {
            return number;
        }
        let model = self.model;
        let Some(binary) = model.binary(id) else {
            return 0;
        };
        let mut entry = Writer::default();
        entry.varint(f::MEMORY_START, binary.extent.start);
        entry.varint(f::MEMORY_LIMIT, binary.extent.limit);
        entry.varint(f::FILE_OFFSET, binary.extent.file_offset);
        entry.varint(f::FILE_NAME, self.string(binary.file_name));
        let mut attributes = self.list(binary.attributes);
        if let Some(identity) = &binary.identity {
            let keys = IDENTITIES.iter();
            let mut keys = keys.filter(|(_, kind)| *kind == identity.kind());
            let is_said = keys
                .clone()
                .any(|(key, _)| model.find_attribute(binary.attributes, key).is_some());
            if let Some((key, _)) = keys.next().filter(|_| !is_said) {
                let number = self.implied_attribute(key, identity.to_string());
                attributes.raw_varint(number);
            }
        }
        if !attributes.is_empty() {
            entry.message(f::ATTRIBUTE_INDICES, &attributes);
        }
        self.mappings.add(Some(id.index()), &entry)
    }

    /// Number 0 is no link.
    pub(super) fn link(&mut self, id: LinkId) -> u64 {
        if let Some(number) = self.links.known(id.index()) {
            return number;
        }
        let Some(Link { trace_id, span_id }) = self.model.link(id).copied() else {
            return 0;
        };
        let mut entry = Writer::default();
        entry.bytes(fields::link::TRACE, &trace_id);
        entry.bytes(fields::link::SPAN, &span_id);
        self.links.add(Some(id.index()), &entry)
    }

    /// Numbers of a list of attributes, as the content of a packed field.
    pub(super) fn list(&mut self, list: Span) -> Writer {
        let mut numbers = Writer::default();
        for id in list.of(&self.model.attribute_lists) {
            let number = self.attribute(*id);
            numbers.raw_varint(number);
        }
        numbers
    }

    pub(super) fn attribute(&mut self, id: AttributeId) -> u64 {
        use fields::key_value_and_unit as f;
        if let Some(number) = self.attributes.known(id.index()) {
            return number;
        }
        let Some(Attribute { key, value, unit }) = self.model.attribute(id).copied() else {
            return 0;
        };
        let mut entry = Writer::default();
        entry.varint(f::KEY, self.string(key));
        if let Some(value) = any_value(self.model, value) {
            entry.message(f::VALUE, &value);
        }
        entry.varint(f::UNIT, self.string(unit));
        self.attributes.add(Some(id.index()), &entry)
    }

    fn implied_attribute(&mut self, key: &'static str, text: String) -> u64 {
        use fields::key_value_and_unit as f;
        let mut value = Writer::default();
        value.bytes(fields::any_value::STRING, text.as_bytes());
        let text = self.strings.number_of_text(text);
        if let Some(number) = self.implied.get(&(key, text)) {
            return *number;
        }
        let mut entry = Writer::default();
        entry.varint(f::KEY, self.strings.number_of_text(key));
        entry.message(f::VALUE, &value);
        let number = self.attributes.add(None, &entry);
        self.implied.insert((key, text), number);
        number
    }
}

/// A value as an `AnyValue`, none for one that is empty. The default of each kind is written, too: it is a value.
pub(super) fn any_value(model: &Profiles<'_>, value: Value) -> Option<Writer> {
    use fields::any_value as f;
    let mut out = Writer::default();
    let mut number = |tag, number: u64| {
        out.tag(tag);
        out.raw_varint(number);
    };
    match value {
        Value::Empty => return None,
        Value::Text(id) | Value::Structured(id) => {
            out.bytes(f::STRING, model.text(id).as_bytes());
        }
        Value::Bool(is) => number(f::BOOL, u64::from(is)),
        Value::Integer(value) => number(f::INT, value.cast_unsigned()),
        Value::Double(value) => {
            out.tag(f::DOUBLE);
            out.raw_fixed64(value.to_bits());
        }
    }
    Some(out)
}
