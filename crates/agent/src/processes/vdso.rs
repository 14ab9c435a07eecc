//! The code that the kernel gives every process, read from the memory of this one: it is the same in all of them, and
//! there is no file of it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::maps::{Backing, executable_mapping};

/// Largest one that is believed: real ones have two to four pages.
const VDSO_BYTES_MAX: u64 = 1 << 20;

/// Its bytes, an ELF file; `None` where a kernel gives none.
pub(super) fn read_own() -> Option<Arc<[u8]>> {
    let maps = BufReader::new(File::open("/proc/self/maps").ok()?);
    let mapped = maps
        .split(b'\n')
        .map_while(Result::ok)
        .filter_map(|line| executable_mapping(&line))
        .find(|mapped| mapped.backing == Backing::Vdso)?;
    let start = mapped.mapping.start.0;
    let length = mapped.mapping.end.0.checked_sub(start)?.min(VDSO_BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes.into())
}
