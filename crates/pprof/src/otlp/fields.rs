//! The fields of OTLP's messages, as the tags before their values; repeated numbers have two, the second for packed ones.

/// `ExportProfilesServiceRequest` and `ProfilesData`.
pub(super) mod request {
    use crate::wire::Tag;

    pub(crate) const RESOURCE_PROFILES: Tag = Tag::bytes(1);
    pub(crate) const DICTIONARY: Tag = Tag::bytes(2);
}

/// `ProfilesDictionary`.
pub(super) mod dictionary {
    use crate::wire::Tag;

    pub(crate) const MAPPING: Tag = Tag::bytes(1);
    pub(crate) const LOCATION: Tag = Tag::bytes(2);
    pub(crate) const FUNCTION: Tag = Tag::bytes(3);
    pub(crate) const LINK: Tag = Tag::bytes(4);
    pub(crate) const STRING: Tag = Tag::bytes(5);
    pub(crate) const ATTRIBUTE: Tag = Tag::bytes(6);
    pub(crate) const STACK: Tag = Tag::bytes(7);
}

/// `ResourceProfiles`, and `ScopeProfiles` with the scope for the resource.
pub(super) mod group {
    use crate::wire::Tag;

    pub(crate) const OWNER: Tag = Tag::bytes(1);
    pub(crate) const MEMBER: Tag = Tag::bytes(2);
}

/// `Resource`.
pub(super) mod resource {
    use crate::wire::Tag;

    pub(crate) const ATTRIBUTE: Tag = Tag::bytes(1);
}

/// `ProcessContext`.
pub(super) mod process_context {
    use crate::wire::Tag;

    pub(crate) const RESOURCE: Tag = Tag::bytes(1);
    pub(crate) const ATTRIBUTE: Tag = Tag::bytes(2);
}

/// `ExportProfilesServiceResponse`.
pub(super) mod export_response {
    use crate::wire::Tag;

    pub(crate) const PARTIAL_SUCCESS: Tag = Tag::bytes(1);
}

/// `ExportProfilesPartialSuccess`.
pub(super) mod partial_success {
    use crate::wire::Tag;

    pub(crate) const REJECTED: Tag = Tag::varint(1);
    pub(crate) const MESSAGE: Tag = Tag::bytes(2);
}

/// `InstrumentationScope`.
pub(super) mod scope {
    use crate::wire::Tag;

    pub(crate) const NAME: Tag = Tag::bytes(1);
    pub(crate) const VERSION: Tag = Tag::bytes(2);
    pub(crate) const ATTRIBUTE: Tag = Tag::bytes(3);
}

/// `Profile`.
pub(super) mod profile {
    use crate::wire::Tag;

    pub(crate) const SAMPLE_TYPE: Tag = Tag::bytes(1);
    pub(crate) const SAMPLE: Tag = Tag::bytes(2);
    pub(crate) const TIME: Tag = Tag::fixed64(3);
    pub(crate) const DURATION: Tag = Tag::varint(4);
    pub(crate) const PERIOD_TYPE: Tag = Tag::bytes(5);
    pub(crate) const PERIOD: Tag = Tag::varint(6);
    pub(crate) const ID: Tag = Tag::bytes(7);
    pub(crate) const ATTRIBUTE_INDEX: Tag = Tag::varint(11);
    pub(crate) const ATTRIBUTE_INDICES: Tag = Tag::bytes(11);
}

/// `Sample`.
pub(super) mod sample {
    use crate::wire::Tag;

    pub(crate) const STACK: Tag = Tag::varint(1);
    pub(crate) const ATTRIBUTE_INDEX: Tag = Tag::varint(2);
    pub(crate) const ATTRIBUTE_INDICES: Tag = Tag::bytes(2);
    pub(crate) const LINK: Tag = Tag::varint(3);
    pub(crate) const VALUE: Tag = Tag::varint(4);
    pub(crate) const VALUES: Tag = Tag::bytes(4);
    pub(crate) const TIMESTAMP: Tag = Tag::fixed64(5);
    pub(crate) const TIMESTAMPS: Tag = Tag::bytes(5);
}

/// `ValueType`.
pub(super) mod value_type {
    use crate::wire::Tag;

    pub(crate) const TYPE: Tag = Tag::varint(1);
    pub(crate) const UNIT: Tag = Tag::varint(2);
}

/// `Mapping`.
pub(super) mod mapping {
    use crate::wire::Tag;

    pub(crate) const MEMORY_START: Tag = Tag::varint(1);
    pub(crate) const MEMORY_LIMIT: Tag = Tag::varint(2);
    pub(crate) const FILE_OFFSET: Tag = Tag::varint(3);
    pub(crate) const FILE_NAME: Tag = Tag::varint(4);
    pub(crate) const ATTRIBUTE_INDEX: Tag = Tag::varint(5);
    pub(crate) const ATTRIBUTE_INDICES: Tag = Tag::bytes(5);
}

/// `Location`.
pub(super) mod location {
    use crate::wire::Tag;

    pub(crate) const MAPPING: Tag = Tag::varint(1);
    pub(crate) const ADDRESS: Tag = Tag::varint(2);
    pub(crate) const LINE: Tag = Tag::bytes(3);
    pub(crate) const ATTRIBUTE_INDEX: Tag = Tag::varint(4);
    pub(crate) const ATTRIBUTE_INDICES: Tag = Tag::bytes(4);
}

/// `Line`.
pub(super) mod line {
    use crate::wire::Tag;

    pub(crate) const FUNCTION: Tag = Tag::varint(1);
    pub(crate) const LINE: Tag = Tag::varint(2);
    pub(crate) const COLUMN: Tag = Tag::varint(3);
}

/// `Function`.
pub(super) mod function {
    use crate::wire::Tag;

    pub(crate) const NAME: Tag = Tag::varint(1);
    pub(crate) const SYSTEM_NAME: Tag = Tag::varint(2);
    pub(crate) const FILE_NAME: Tag = Tag::varint(3);
    pub(crate) const START_LINE: Tag = Tag::varint(4);
}

/// `Link`.
pub(super) mod link {
    use crate::wire::Tag;

    pub(crate) const TRACE: Tag = Tag::bytes(1);
    pub(crate) const SPAN: Tag = Tag::bytes(2);
}

/// `Stack`.
pub(super) mod stack {
    use crate::wire::Tag;

    pub(crate) const LOCATION_INDEX: Tag = Tag::varint(1);
    pub(crate) const LOCATION_INDICES: Tag = Tag::bytes(1);
}

/// `KeyValueAndUnit`.
pub(super) mod key_value_and_unit {
    use crate::wire::Tag;

    pub(crate) const KEY: Tag = Tag::varint(1);
    pub(crate) const VALUE: Tag = Tag::bytes(2);
    pub(crate) const UNIT: Tag = Tag::varint(3);
}

/// `KeyValue`.
pub(super) mod key_value {
    use crate::wire::Tag;

    pub(crate) const KEY: Tag = Tag::bytes(1);
    pub(crate) const VALUE: Tag = Tag::bytes(2);
    pub(crate) const KEY_INDEX: Tag = Tag::varint(3);
}

/// `AnyValue`.
pub(super) mod any_value {
    use crate::wire::Tag;

    pub(crate) const STRING: Tag = Tag::bytes(1);
    pub(crate) const BOOL: Tag = Tag::varint(2);
    pub(crate) const INT: Tag = Tag::varint(3);
    pub(crate) const DOUBLE: Tag = Tag::fixed64(4);
    pub(crate) const ARRAY: Tag = Tag::bytes(5);
    pub(crate) const MAP: Tag = Tag::bytes(6);
    pub(crate) const BYTES: Tag = Tag::bytes(7);
    pub(crate) const STRING_INDEX: Tag = Tag::varint(8);
}

/// `ArrayValue` and `KeyValueList`.
pub(super) mod list {
    use crate::wire::Tag;

    pub(crate) const VALUE: Tag = Tag::bytes(1);
}
