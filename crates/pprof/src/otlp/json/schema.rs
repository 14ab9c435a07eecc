//! The messages of OTLP profiles with the names of their fields, for JSON.

use crate::otlp::fields as f;
use crate::wire::Tag;

/// A message.
pub(super) struct Message {
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
}

/// A field.
pub(super) struct Field {
    /// In lowerCamelCase.
    name: &'static str,
    /// As before one value; repeated numbers are not packed, which readers take as well.
    pub(super) tag: Tag,
    pub(super) kind: Kind,
    pub(super) is_repeated: bool,
}

/// What a field has for values.
pub(super) enum Kind {
    Message(&'static Message),
    Text,
    Varint,
    Bool,
    Fixed64,
    Double,
    /// So many bytes in hex.
    Hex(usize),
    /// In base64.
    Bytes,
}

impl Field {
    /// Whether a name is this field's, in lowerCamelCase or with underscores.
    pub(super) fn is_named(&self, name: &str) -> bool {
        if self.name == name {
            return true;
        }
        let mut own = self.name.chars().flat_map(|c| {
            let underscore = c.is_ascii_uppercase().then_some('_');
            underscore.into_iter().chain([c.to_ascii_lowercase()])
        });
        name.contains('_') && name.chars().all(|c| own.next() == Some(c)) && own.next().is_none()
    }

    pub(super) fn expected(&self) -> &'static str {
        if self.is_repeated {
            return "a list";
        }
        match self.kind {
            Kind::Message(_) => "an object",
            Kind::Text => "a string",
            Kind::Varint | Kind::Fixed64 | Kind::Double => "a number",
            Kind::Bool => "true or false",
            Kind::Hex(_) | Kind::Bytes => "bytes in a string",
        }
    }
}

const fn one(name: &'static str, tag: Tag, kind: Kind) -> Field {
    Field {
        name,
        tag,
        kind,
        is_repeated: false,
    }
}

const fn many(name: &'static str, tag: Tag, kind: Kind) -> Field {
    Field {
        name,
        tag,
        kind,
        is_repeated: true,
    }
}

pub(super) static REQUEST: Message = Message {
    name: "request of profiles",
    fields: &[
        many(
            "resourceProfiles",
            f::request::RESOURCE_PROFILES,
            Kind::Message(&RESOURCE_PROFILES),
        ),
        one(
            "dictionary",
            f::request::DICTIONARY,
            Kind::Message(&DICTIONARY),
        ),
    ],
};

static RESOURCE_PROFILES: Message = Message {
    name: "ResourceProfiles",
    fields: &[
        one("resource", f::group::OWNER, Kind::Message(&RESOURCE)),
        many(
            "scopeProfiles",
            f::group::MEMBER,
            Kind::Message(&SCOPE_PROFILES),
        ),
    ],
};

static RESOURCE: Message = Message {
    name: "Resource",
    fields: &[many(
        "attributes",
        f::resource::ATTRIBUTE,
        Kind::Message(&KEY_VALUE),
    )],
};

static SCOPE_PROFILES: Message = Message {
    name: "ScopeProfiles",
    fields: &[
        one("scope", f::group::OWNER, Kind::Message(&SCOPE)),
        many("profiles", f::group::MEMBER, Kind::Message(&PROFILE)),
    ],
};

static SCOPE: Message = Message {
    name: "InstrumentationScope",
    fields: &[
        one("name", f::scope::NAME, Kind::Text),
        one("version", f::scope::VERSION, Kind::Text),
        many("attributes", f::scope::ATTRIBUTE, Kind::Message(&KEY_VALUE)),
    ],
};

static PROFILE: Message = Message {
    name: "Profile",
    fields: &[
        one(
            "sampleType",
            f::profile::SAMPLE_TYPE,
            Kind::Message(&VALUE_TYPE),
        ),
        many("samples", f::profile::SAMPLE, Kind::Message(&SAMPLE)),
        one("timeUnixNano", f::profile::TIME, Kind::Fixed64),
        one("durationNano", f::profile::DURATION, Kind::Varint),
        one(
            "periodType",
            f::profile::PERIOD_TYPE,
            Kind::Message(&VALUE_TYPE),
        ),
        one("period", f::profile::PERIOD, Kind::Varint),
        one("profileId", f::profile::ID, Kind::Hex(16)),
        many(
            "attributeIndices",
            f::profile::ATTRIBUTE_INDEX,
            Kind::Varint,
        ),
    ],
};

static VALUE_TYPE: Message = Message {
    name: "ValueType",
    fields: &[
        one("typeStrindex", f::value_type::TYPE, Kind::Varint),
        one("unitStrindex", f::value_type::UNIT, Kind::Varint),
    ],
};

static SAMPLE: Message = Message {
    name: "Sample",
    fields: &[
        one("stackIndex", f::sample::STACK, Kind::Varint),
        many("attributeIndices", f::sample::ATTRIBUTE_INDEX, Kind::Varint),
        one("linkIndex", f::sample::LINK, Kind::Varint),
        many("values", f::sample::VALUE, Kind::Varint),
        many("timestampsUnixNano", f::sample::TIMESTAMP, Kind::Fixed64),
    ],
};

static DICTIONARY: Message = Message {
    name: "ProfilesDictionary",
    fields: &[
        many(
            "mappingTable",
            f::dictionary::MAPPING,
            Kind::Message(&MAPPING),
        ),
        many(
            "locationTable",
            f::dictionary::LOCATION,
            Kind::Message(&LOCATION),
        ),
        many(
            "functionTable",
            f::dictionary::FUNCTION,
            Kind::Message(&FUNCTION),
        ),
        many("linkTable", f::dictionary::LINK, Kind::Message(&LINK)),
        many("stringTable", f::dictionary::STRING, Kind::Text),
        many(
            "attributeTable",
            f::dictionary::ATTRIBUTE,
            Kind::Message(&KEY_VALUE_AND_UNIT),
        ),
        many("stackTable", f::dictionary::STACK, Kind::Message(&STACK)),
    ],
};

static MAPPING: Message = Message {
    name: "Mapping",
    fields: &[
        one("memoryStart", f::mapping::MEMORY_START, Kind::Varint),
        one("memoryLimit", f::mapping::MEMORY_LIMIT, Kind::Varint),
        one("fileOffset", f::mapping::FILE_OFFSET, Kind::Varint),
        one("filenameStrindex", f::mapping::FILE_NAME, Kind::Varint),
        many(
            "attributeIndices",
            f::mapping::ATTRIBUTE_INDEX,
            Kind::Varint,
        ),
    ],
};

static LOCATION: Message = Message {
    name: "Location",
    fields: &[
        one("mappingIndex", f::location::MAPPING, Kind::Varint),
        one("address", f::location::ADDRESS, Kind::Varint),
        many("lines", f::location::LINE, Kind::Message(&LINE)),
        many(
            "attributeIndices",
            f::location::ATTRIBUTE_INDEX,
            Kind::Varint,
        ),
    ],
};

static LINE: Message = Message {
    name: "Line",
    fields: &[
        one("functionIndex", f::line::FUNCTION, Kind::Varint),
        one("line", f::line::LINE, Kind::Varint),
        one("column", f::line::COLUMN, Kind::Varint),
    ],
};

static FUNCTION: Message = Message {
    name: "Function",
    fields: &[
        one("nameStrindex", f::function::NAME, Kind::Varint),
        one("systemNameStrindex", f::function::SYSTEM_NAME, Kind::Varint),
        one("filenameStrindex", f::function::FILE_NAME, Kind::Varint),
        one("startLine", f::function::START_LINE, Kind::Varint),
    ],
};

static LINK: Message = Message {
    name: "Link",
    fields: &[
        one("traceId", f::link::TRACE, Kind::Hex(16)),
        one("spanId", f::link::SPAN, Kind::Hex(8)),
    ],
};

static STACK: Message = Message {
    name: "Stack",
    fields: &[many(
        "locationIndices",
        f::stack::LOCATION_INDEX,
        Kind::Varint,
    )],
};

static KEY_VALUE_AND_UNIT: Message = Message {
    name: "KeyValueAndUnit",
    fields: &[
        one("keyStrindex", f::key_value_and_unit::KEY, Kind::Varint),
        one(
            "value",
            f::key_value_and_unit::VALUE,
            Kind::Message(&ANY_VALUE),
        ),
        one("unitStrindex", f::key_value_and_unit::UNIT, Kind::Varint),
    ],
};

static KEY_VALUE: Message = Message {
    name: "KeyValue",
    fields: &[
        one("key", f::key_value::KEY, Kind::Text),
        one("value", f::key_value::VALUE, Kind::Message(&ANY_VALUE)),
        one("keyStrindex", f::key_value::KEY_INDEX, Kind::Varint),
    ],
};

static ANY_VALUE: Message = Message {
    name: "AnyValue",
    fields: &[
        one("stringValue", f::any_value::STRING, Kind::Text),
        one("boolValue", f::any_value::BOOL, Kind::Bool),
        one("intValue", f::any_value::INT, Kind::Varint),
        one("doubleValue", f::any_value::DOUBLE, Kind::Double),
        one(
            "arrayValue",
            f::any_value::ARRAY,
            Kind::Message(&ARRAY_VALUE),
        ),
        one(
            "kvlistValue",
            f::any_value::MAP,
            Kind::Message(&KEY_VALUE_LIST),
        ),
        one("bytesValue", f::any_value::BYTES, Kind::Bytes),
        one(
            "stringValueStrindex",
            f::any_value::STRING_INDEX,
            Kind::Varint,
        ),
    ],
};

static ARRAY_VALUE: Message = Message {
    name: "ArrayValue",
    fields: &[many("values", f::list::VALUE, Kind::Message(&ANY_VALUE))],
};

static KEY_VALUE_LIST: Message = Message {
    name: "KeyValueList",
    fields: &[many("values", f::list::VALUE, Kind::Message(&KEY_VALUE))],
};
