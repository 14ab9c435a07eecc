//! The fields of pprof's messages, as the tags before their values; repeated numbers have two, the second for packed ones.

/// `Profile`.
pub(super) mod profile {
    use crate::wire::Tag;

    pub(crate) const SAMPLE_TYPE: Tag = Tag::bytes(1);
    pub(crate) const SAMPLE: Tag = Tag::bytes(2);
    pub(crate) const MAPPING: Tag = Tag::bytes(3);
    pub(crate) const LOCATION: Tag = Tag::bytes(4);
    pub(crate) const FUNCTION: Tag = Tag::bytes(5);
    pub(crate) const STRING_TABLE: Tag = Tag::bytes(6);
    pub(crate) const DROP_FRAMES: Tag = Tag::varint(7);
    pub(crate) const KEEP_FRAMES: Tag = Tag::varint(8);
    pub(crate) const TIME_NANOS: Tag = Tag::varint(9);
    pub(crate) const DURATION_NANOS: Tag = Tag::varint(10);
    pub(crate) const PERIOD_TYPE: Tag = Tag::bytes(11);
    pub(crate) const PERIOD: Tag = Tag::varint(12);
    pub(crate) const COMMENT: Tag = Tag::varint(13);
    pub(crate) const COMMENTS: Tag = Tag::bytes(13);
    pub(crate) const DEFAULT_SAMPLE_TYPE: Tag = Tag::varint(14);
}

/// `ValueType`.
pub(super) mod value_type {
    use crate::wire::Tag;

    pub(crate) const TYPE: Tag = Tag::varint(1);
    pub(crate) const UNIT: Tag = Tag::varint(2);
}

/// `Sample`.
pub(super) mod sample {
    use crate::wire::Tag;

    pub(crate) const LOCATION_ID: Tag = Tag::varint(1);
    pub(crate) const LOCATION_IDS: Tag = Tag::bytes(1);
    pub(crate) const VALUE: Tag = Tag::varint(2);
    pub(crate) const VALUES: Tag = Tag::bytes(2);
    pub(crate) const LABEL: Tag = Tag::bytes(3);
}

/// `Label`.
pub(super) mod label {
    use crate::wire::Tag;

    pub(crate) const KEY: Tag = Tag::varint(1);
    pub(crate) const STR: Tag = Tag::varint(2);
    pub(crate) const NUM: Tag = Tag::varint(3);
    pub(crate) const NUM_UNIT: Tag = Tag::varint(4);
}

/// `Mapping`.
pub(super) mod mapping {
    use crate::wire::Tag;

    pub(crate) const ID: Tag = Tag::varint(1);
    pub(crate) const MEMORY_START: Tag = Tag::varint(2);
    pub(crate) const MEMORY_LIMIT: Tag = Tag::varint(3);
    pub(crate) const FILE_OFFSET: Tag = Tag::varint(4);
    pub(crate) const FILENAME: Tag = Tag::varint(5);
    pub(crate) const BUILD_ID: Tag = Tag::varint(6);
    pub(crate) const HAS_FUNCTIONS: Tag = Tag::varint(7);
    pub(crate) const HAS_FILENAMES: Tag = Tag::varint(8);
    pub(crate) const HAS_LINE_NUMBERS: Tag = Tag::varint(9);
    pub(crate) const HAS_INLINE_FRAMES: Tag = Tag::varint(10);
}

/// `Location`.
pub(super) mod location {
    use crate::wire::Tag;

    pub(crate) const ID: Tag = Tag::varint(1);
    pub(crate) const MAPPING_ID: Tag = Tag::varint(2);
    pub(crate) const ADDRESS: Tag = Tag::varint(3);
    pub(crate) const LINE: Tag = Tag::bytes(4);
    pub(crate) const IS_FOLDED: Tag = Tag::varint(5);
}

/// `Line`.
pub(super) mod line {
    use crate::wire::Tag;

    pub(crate) const FUNCTION_ID: Tag = Tag::varint(1);
    pub(crate) const LINE: Tag = Tag::varint(2);
    pub(crate) const COLUMN: Tag = Tag::varint(3);
}

/// `Function`.
pub(super) mod function {
    use crate::wire::Tag;

    pub(crate) const ID: Tag = Tag::varint(1);
    pub(crate) const NAME: Tag = Tag::varint(2);
    pub(crate) const SYSTEM_NAME: Tag = Tag::varint(3);
    pub(crate) const FILENAME: Tag = Tag::varint(4);
    pub(crate) const START_LINE: Tag = Tag::varint(5);
}
