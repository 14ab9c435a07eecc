//! The versions of the format and of the converter move together: a stored index is looked for by
//! the converter's version, so another format under an old one would be found and not be read.

use unhex_symbols::CONVERTER_VERSION;
use unhex_symbols::index::{FORMAT_VERSION, write};

use crate::layout::model;

/// What each version of the converter wrote of one model.
struct Written {
    converter_version: u32,
    format_version: u32,
    /// CRC-32 of the index behind its magic and versions.
    checksum: u32,
}

/// The latest version last. Whoever changes what is written raises `CONVERTER_VERSION` and adds a
/// line; a line of a version that was released never changes.
const WRITTEN: &[Written] = &[
    Written {
        converter_version: 2,
        format_version: 1,
        checksum: 0xbc34_2d7a,
    },
    Written {
        converter_version: 3,
        format_version: 1,
        checksum: 0xbc34_2d7a,
    },
];

/// Magic, format version and converter version.
const VERSIONS_BYTES: usize = 16;

#[test]
fn another_format_or_other_bytes_have_another_version_of_the_converter() {
    let mut bytes = Vec::new();
    write(model(), &mut bytes).expect("a sound model");
    let mut crc = flate2::Crc::new();
    crc.update(&bytes[VERSIONS_BYTES..]);
    let latest = WRITTEN.last().expect("a version");
    assert_eq!(
        (
            CONVERTER_VERSION,
            FORMAT_VERSION,
            format!("{:#010x}", crc.sum())
        ),
        (
            latest.converter_version,
            latest.format_version,
            format!("{:#010x}", latest.checksum)
        ),
        "raise CONVERTER_VERSION, and add what it writes to the end of the table"
    );
    for pair in WRITTEN.windows(2) {
        assert!(pair[0].converter_version < pair[1].converter_version);
        assert!(pair[0].format_version <= pair[1].format_version);
    }
}
