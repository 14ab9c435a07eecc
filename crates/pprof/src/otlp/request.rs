//! Resources, scopes, profiles and samples: the part of a message that grows with the samples.

use super::dictionary::{Dictionary, place};
use super::{Decoded, Rejected, fields};
use crate::error::DecodeError;
use crate::limits::within;
use crate::model::{
    Attribute, AttributeId, LinkId, Profile, ProfileOrigin, Profiles, SampleRecord, Span, StackId,
    ValueType,
};
use crate::wire::Reader;

/// The profiles that were read so far.
pub(super) struct Request<'a> {
    dictionary: Dictionary<'a>,
    rejected: Vec<Rejected>,
    /// How many profiles there were, rejected ones included.
    seen: usize,
}

/// Who a profile is of.
#[derive(Clone, Copy, Default)]
struct Owner {
    resource: Span,
    origin: ProfileOrigin,
}

impl<'a> Request<'a> {
    pub(super) fn new(dictionary: Dictionary<'a>) -> Self {
        Self {
            dictionary,
            rejected: Vec::new(),
            seen: 0,
        }
    }

    pub(super) fn finish(self) -> Decoded<'a> {
        Decoded {
            profiles: self.dictionary.model,
            rejected: self.rejected,
        }
    }

    pub(super) fn resource_profiles(&mut self, reader: Reader<'a>) -> Result<(), DecodeError> {
        let start = self.model().attribute_lists.len();
        // What a resource is may come behind what it has.
        self.each(reader, fields::group::OWNER, |this, mut resource| {
            while let Some(tag) = resource.tag()? {
                match tag {
                    fields::resource::ATTRIBUTE => this.attribute(resource.message()?)?,
                    other => resource.skip(other)?,
                }
            }
            Ok(())
        })?;
        let resource = Span::since(start, &self.model().attribute_lists);
        self.each(reader, fields::group::MEMBER, |this, scope| {
            this.scope_profiles(
                scope,
                Owner {
                    resource,
                    ..Owner::default()
                },
            )
        })
    }

    fn scope_profiles(&mut self, reader: Reader<'a>, mut owner: Owner) -> Result<(), DecodeError> {
        use fields::scope as f;
        let start = self.model().attribute_lists.len();
        let origin = &mut owner.origin;
        self.each(reader, fields::group::OWNER, |this, mut scope| {
            while let Some(tag) = scope.tag()? {
                let Dictionary { model, values, .. } = &mut this.dictionary;
                match tag {
                    f::NAME => origin.name = values.text(model, scope.string()?.into())?,
                    f::VERSION => origin.version = values.text(model, scope.string()?.into())?,
                    f::ATTRIBUTE => this.attribute(scope.message()?)?,
                    other => scope.skip(other)?,
                }
            }
            Ok(())
        })?;
        owner.origin.attributes = Span::since(start, &self.model().attribute_lists);
        self.each(reader, fields::group::MEMBER, |this, profile| {
            this.profile(profile, owner)
        })
    }

    /// Does something with every field of one kind in a message.
    fn each(
        &mut self,
        mut reader: Reader<'a>,
        field: crate::wire::Tag,
        mut take: impl FnMut(&mut Self, Reader<'a>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        while let Some(tag) = reader.tag()? {
            if tag == field {
                take(self, reader.message()?)?;
            } else {
                reader.skip(tag)?;
            }
        }
        Ok(())
    }

    fn model(&mut self) -> &mut Profiles<'a> {
        &mut self.dictionary.model
    }

    /// Keeps an attribute that is spelled out, at the end of the list.
    fn attribute(&mut self, reader: Reader<'a>) -> Result<(), DecodeError> {
        let Dictionary { model, values, .. } = &mut self.dictionary;
        let attribute: Attribute = values.key_value(model, reader)?;
        model.attributes.push(attribute);
        within(
            "attributes",
            model.attributes.len(),
            values.limits.attributes,
        )?;
        let id = AttributeId::at(model.attributes.len() - 1);
        model.attribute_lists.push(id);
        Ok(())
    }

    /// Reads a profile, or leaves no trace of it but the reason.
    fn profile(&mut self, reader: Reader<'a>, owner: Owner) -> Result<(), DecodeError> {
        let index = self.seen;
        self.seen += 1;
        within(
            "profiles",
            self.seen,
            self.dictionary.values.limits.profiles,
        )?;
        let model = self.model();
        let (lists, samples) = (model.attribute_lists.len(), model.samples.len());
        let (values, timestamps) = (model.values.len(), model.timestamps.len());
        match self.good_profile(reader, owner) {
            Ok(profile) => self.model().all.push(profile),
            Err(error) if error.is_of_one_profile() => {
                let model = self.model();
                model.attribute_lists.truncate(lists);
                model.samples.truncate(samples);
                model.values.truncate(values);
                model.timestamps.truncate(timestamps);
                self.rejected.push(Rejected { index, error });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn good_profile(
        &mut self,
        mut reader: Reader<'a>,
        owner: Owner,
    ) -> Result<Profile, DecodeError> {
        use fields::profile as f;
        let mut found = Profile {
            value_types: vec![ValueType::default()],
            resource: owner.resource,
            origin: owner.origin,
            ..Profile::default()
        };
        let samples = self.model().samples.len();
        let mut indices = Vec::new();
        while let Some(tag) = reader.tag()? {
            match tag {
                f::SAMPLE => self.sample(reader.message()?)?,
                f::SAMPLE_TYPE => found.value_types = vec![self.value_type(reader.message()?)?],
                f::PERIOD_TYPE => found.period_type = Some(self.value_type(reader.message()?)?),
                f::PERIOD => found.period = reader.varint()?.cast_signed(),
                f::TIME => found.time_unix_nanos = reader.fixed64()?,
                f::DURATION => found.duration_nanos = reader.varint()?,
                f::ID => found.id = id(reader.bytes()?),
                f::ATTRIBUTE_INDEX => indices.push(reader.varint()?),
                f::ATTRIBUTE_INDICES => reader.packed_varints(|index| {
                    indices.push(index);
                    Ok(())
                })?,
                other => reader.skip(other)?,
            }
        }
        let start = self.model().attribute_lists.len();
        for index in indices {
            self.attribute_index(index)?;
        }
        found.attributes = Span::since(start, &self.model().attribute_lists);
        found.samples = Span::since(samples, &self.model().samples);
        Ok(found)
    }

    fn value_type(&self, mut reader: Reader<'a>) -> Result<ValueType, DecodeError> {
        let mut found = ValueType::default();
        let text = |index| self.dictionary.values.string(index, "value type");
        while let Some(tag) = reader.tag()? {
            match tag {
                fields::value_type::TYPE => found.name = text(reader.varint()?)?,
                fields::value_type::UNIT => found.unit = text(reader.varint()?)?,
                other => reader.skip(other)?,
            }
        }
        Ok(found)
    }

    #[inline]
    fn attribute_index(&mut self, index: u64) -> Result<(), DecodeError> {
        if index != 0 {
            let place = place(("sample", "attribute"), index, self.dictionary.attributes)?;
            self.dictionary
                .model
                .attribute_lists
                .push(AttributeId(place));
        }
        Ok(())
    }

    fn sample(&mut self, mut reader: Reader<'a>) -> Result<(), DecodeError> {
        use fields::sample as f;
        let model = &self.dictionary.model;
        let (attributes, values, timestamps) = (
            model.attribute_lists.len(),
            model.values.len(),
            model.timestamps.len(),
        );
        let (mut stack, mut link) = (0, 0);
        while let Some(tag) = reader.tag()? {
            match tag {
                f::STACK => stack = reader.varint()?,
                f::TIMESTAMPS => {
                    let all = reader.packed_fixed64()?;
                    self.dictionary.model.timestamps.extend(all);
                }
                f::VALUES => {
                    let values = &mut self.dictionary.model.values;
                    reader.packed_varints(|value| {
                        values.push(value.cast_signed());
                        Ok(())
                    })?;
                }
                f::ATTRIBUTE_INDICES => {
                    reader.packed_varints(|index| self.attribute_index(index))?;
                }
                f::LINK => link = reader.varint()?,
                f::TIMESTAMP => self.dictionary.model.timestamps.push(reader.fixed64()?),
                f::VALUE => self
                    .dictionary
                    .model
                    .values
                    .push(reader.varint()?.cast_signed()),
                f::ATTRIBUTE_INDEX => self.attribute_index(reader.varint()?)?,
                other => reader.skip(other)?,
            }
        }
        let model = &mut self.dictionary.model;
        let record = SampleRecord {
            stack: StackId(stack_place(stack, model, self.dictionary.has_stacks)?),
            link: LinkId(place(("sample", "link"), link, model.links.len().max(1))?),
            attributes: Span::since(attributes, &model.attribute_lists),
            values: Span::since(values, &model.values),
            timestamps: Span::since(timestamps, &model.timestamps),
            value_types: 1,
        };
        let (found, expected) = (record.values.len(), record.timestamps.len());
        if found != expected && found != 0 && expected != 0 {
            let rule = "one for each timestamp, or none at all";
            return Err(DecodeError::ValueCount {
                found,
                expected,
                rule,
            });
        }
        model.samples.push(record);
        within(
            "samples",
            model.samples.len(),
            self.dictionary.values.limits.samples,
        )
    }
}

#[inline]
fn stack_place(index: u64, model: &Profiles<'_>, has_stacks: bool) -> Result<u32, DecodeError> {
    if index != 0 && !has_stacks {
        return Err(DecodeError::NoStackTable);
    }
    place(("sample", "stack"), index, model.stacks.len())
}

/// A profile's own number; of another length than the specification's, or all zeros, it is none.
fn id(bytes: &[u8]) -> Option<[u8; 16]> {
    let id: [u8; 16] = bytes.try_into().ok()?;
    (id != [0; 16]).then_some(id)
}
