//! Resources, scopes, profiles and samples; what they refer to goes into the tables on the way.

use super::super::fields;
use super::tables::{Tables, any_value};
use crate::model::{Profile, ProfileOrigin, Profiles, Sample, Span, ValueType};
use crate::wire::{Tag, Writer};

/// A message that grows.
pub(super) struct Encoder<'m, 'a> {
    model: &'m Profiles<'a>,
    tables: Tables<'m, 'a>,
    message: Writer,
    /// A sample, and packed numbers in it; kept for their memory.
    part: Writer,
    inner: Writer,
}

impl<'m, 'a> Encoder<'m, 'a> {
    pub(super) fn new(model: &'m Profiles<'a>) -> Self {
        Self {
            model,
            tables: Tables::of(model),
            message: Writer::default(),
            part: Writer::default(),
            inner: Writer::default(),
        }
    }

    /// The message.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut message = self.message;
        message.message(fields::request::DICTIONARY, &self.tables.finish());
        message.into_bytes()
    }

    pub(super) fn resources(&mut self) {
        let model = self.model;
        let ids = |list: Span| list.of(&model.attribute_lists);
        let is_same = |a: &Profile, b: &Profile| ids(a.resource) == ids(b.resource);
        for profiles in model.profiles().chunk_by(is_same) {
            let Some(first) = profiles.first() else {
                continue;
            };
            let open = self.message.open(fields::request::RESOURCE_PROFILES);
            let resource = self.attributes(fields::resource::ATTRIBUTE, first.resource);
            if !resource.is_empty() {
                self.message.message(fields::group::OWNER, &resource);
            }
            let is_same = |a: &Profile, b: &Profile| {
                let (a, b) = (&a.origin, &b.origin);
                (a.name, a.version) == (b.name, b.version) && ids(a.attributes) == ids(b.attributes)
            };
            for profiles in profiles.chunk_by(is_same) {
                self.scope(profiles);
            }
            self.message.close(open);
        }
    }

    fn scope(&mut self, profiles: &[Profile]) {
        let Some(first) = profiles.first() else {
            return;
        };
        let open = self.message.open(fields::group::MEMBER);
        let scope = self.origin(&first.origin);
        if !scope.is_empty() {
            self.message.message(fields::group::OWNER, &scope);
        }
        for profile in profiles {
            for place in 0..profile.value_types.len().max(1) {
                self.profile(profile, place);
            }
        }
        self.message.close(open);
    }

    fn origin(&mut self, origin: &ProfileOrigin) -> Writer {
        use fields::scope as f;
        let mut scope = Writer::default();
        for (tag, id) in [(f::NAME, origin.name), (f::VERSION, origin.version)] {
            let text = self.model.text(id);
            if !text.is_empty() {
                scope.bytes(tag, text.as_bytes());
            }
        }
        scope.append(&self.attributes(f::ATTRIBUTE, origin.attributes));
        scope
    }

    /// Attributes that are spelled out, a `KeyValue` each.
    fn attributes(&mut self, tag: Tag, list: Span) -> Writer {
        let mut all = Writer::default();
        for attribute in self.model.attributes(list) {
            let mut one = Writer::default();
            let key = self.model.text(attribute.key);
            one.bytes(fields::key_value::KEY, key.as_bytes());
            if let Some(value) = any_value(self.model, attribute.value) {
                one.message(fields::key_value::VALUE, &value);
            }
            all.message(tag, &one);
        }
        all
    }

    /// A profile of the value type at `place`.
    fn profile(&mut self, profile: &Profile, place: usize) {
        use fields::profile as f;
        let open = self.message.open(fields::group::MEMBER);
        if let Some(counted) = profile.value_types.get(place) {
            self.value_type(f::SAMPLE_TYPE, *counted);
        }
        for sample in self.model.samples(profile) {
            self.sample(&sample, (place, profile.value_types.len()));
        }
        self.message.fixed64(f::TIME, profile.time_unix_nanos);
        self.message.varint(f::DURATION, profile.duration_nanos);
        if let Some(period_type) = profile.period_type {
            self.value_type(f::PERIOD_TYPE, period_type);
        }
        self.message.signed(f::PERIOD, profile.period);
        // One ID for several profiles would be none.
        if let Some(id) = profile.id.filter(|_| profile.value_types.len() <= 1) {
            self.message.bytes(f::ID, &id);
        }
        let attributes = self.tables.list(profile.attributes);
        if !attributes.is_empty() {
            self.message.message(f::ATTRIBUTE_INDICES, &attributes);
        }
        self.message.close(open);
    }

    fn value_type(&mut self, tag: Tag, counted: ValueType) {
        use fields::value_type as f;
        self.part.clear();
        let (name, unit) = (
            self.tables.string(counted.name),
            self.tables.string(counted.unit),
        );
        self.part.varint(f::TYPE, name);
        self.part.varint(f::UNIT, unit);
        self.message.message(tag, &self.part);
    }

    fn sample(&mut self, sample: &Sample<'_>, (place, value_types): (usize, usize)) {
        use fields::sample as f;
        self.part.clear();
        self.part.varint(f::STACK, self.tables.stack(sample.stack));
        self.inner.clear();
        for id in sample.attributes {
            let number = self.tables.attribute(*id);
            self.inner.raw_varint(number);
        }
        self.packed(f::ATTRIBUTE_INDICES);
        let link = sample.link.map_or(0, |id| self.tables.link(id));
        self.part.varint(f::LINK, link);
        for row in sample.values.chunks(value_types.max(1)) {
            let value = row.get(place).copied().unwrap_or_default();
            self.inner.raw_varint(value.cast_unsigned());
        }
        self.packed(f::VALUES);
        for time in sample.timestamps {
            self.inner.raw_fixed64(*time);
        }
        self.packed(f::TIMESTAMPS);
        self.message.message(fields::profile::SAMPLE, &self.part);
    }

    /// Puts the packed numbers into the sample, unless there are none.
    fn packed(&mut self, tag: Tag) {
        if !self.inner.is_empty() {
            self.part.message(tag, &self.inner);
            self.inner.clear();
        }
    }
}
