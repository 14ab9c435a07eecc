//! Archives made byte by byte, so that they can be as hostile as need be.

use std::io::Write as _;

/// A tar archive, names as they are, however hostile.
pub(super) fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        let field = &mut header.as_old_mut().name;
        field[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn ar_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, content) in members {
        let header = format!(
            "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            0,
            0,
            0,
            100_644,
            content.len()
        );
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(content);
        bytes.extend(vec![b'\n'; content.len() % 2]);
    }
    bytes
}

pub(super) fn cpio_of(files: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, mode, content) in files.iter().copied().chain([("TRAILER!!!", 0, &[][..])]) {
        let name_bytes = name.len() + 1;
        bytes.extend_from_slice(b"070701");
        let fields = [
            1,
            mode,
            0,
            0,
            1,
            0,
            u32::try_from(content.len()).unwrap(),
            0,
            0,
            0,
            0,
            u32::try_from(name_bytes).unwrap(),
            0,
        ];
        for field in fields {
            bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

pub(super) fn rpm_of(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xed, 0xab, 0xee, 0xdb];
    bytes.resize(96, 0);
    let header = |entries: u32, store: &[u8]| {
        let mut header = vec![0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0];
        header.extend_from_slice(&entries.to_be_bytes());
        header.extend_from_slice(&u32::try_from(store.len()).unwrap().to_be_bytes());
        header.resize(header.len() + 16 * usize::try_from(entries).unwrap(), 0);
        header.extend_from_slice(store);
        header
    };
    bytes.extend(header(2, b"abc"));
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend(header(1, b"store"));
    bytes.extend_from_slice(payload);
    bytes
}
