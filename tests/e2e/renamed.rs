//! A file under another build ID: as many of one kind as a test needs, without a compiler.

/// The bytes with a build ID that nobody has in place of `old_id`, and that build ID.
pub(crate) fn under_a_new_id(old_id: &str, files: &mut [Vec<u8>]) -> String {
    let (old, new): (Vec<u8>, [u8; 20]) = (bytes_of(old_id), rand::random());
    for bytes in files {
        let at = bytes.windows(old.len()).position(|window| window == old);
        let at = at.expect("the build ID in its note");
        bytes[at..at + new.len()].copy_from_slice(&new);
    }
    new.map(|byte| format!("{byte:02x}")).concat()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = (0..hex.len()).step_by(2);
    digits
        .filter_map(|at| hex.get(at..at + 2))
        .map(|byte| u8::from_str_radix(byte, 16).expect("hex"))
        .collect()
}
