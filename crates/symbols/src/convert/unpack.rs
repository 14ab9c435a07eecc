//! Compressed sections: what their headers declare, and their bytes.

use flate2::{Decompress, FlushDecompress, Status};
use object::{Endianness, elf};
use zstd::zstd_safe::{self, DCtx};

use super::ConvertError;
use crate::elf::{ElfClass, ElfFile, ElfSection};

/// zlib cannot do better than 1032:1; a declared size beyond that is a lie.
const ZLIB_RATIO_MAX: u64 = 1032;

/// What zlib's decoder takes for itself: a window of 32 KiB and its tables.
const INFLATER_BYTES_MAX: usize = 256 << 10;

/// zstd cannot do better than four bytes for a block of 128 KiB, RFC 8878 §3.1.1.2.
const ZSTD_RATIO_MAX: u64 = 32 << 10;

/// How libzstd says that memory was refused.
const ZSTD_OUT_OF_MEMORY: &str = "Allocation error : not enough memory";

/// `ELFCOMPRESS_ZLIB` and `ELFCOMPRESS_ZSTD`.
const METHOD_ZLIB: u32 = 1;
const METHOD_ZSTD: u32 = 2;

/// Why a section was not decompressed.
pub(super) enum Unreadable {
    Damaged(String),
    OutOfMemory,
}

impl Unreadable {
    /// The error of a section of that name, which declares so many bytes.
    pub(super) fn of(self, name: &[u8], bytes: u64) -> ConvertError {
        let what = format!("section {}", String::from_utf8_lossy(name));
        match self {
            Self::Damaged(detail) => ConvertError::Malformed { what, detail },
            Self::OutOfMemory => ConvertError::OutOfMemory { what, bytes },
        }
    }
}

/// A compressed section, before it is decompressed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compressed<'data> {
    method: u32,
    /// Bytes, decompressed, as it declares.
    pub(super) size: u64,
    pub(super) payload: &'data [u8],
}

impl<'data> Compressed<'data> {
    /// What a section declares; `None` when it is not compressed.
    pub(super) fn of(
        file: &ElfFile<'data>,
        section: &ElfSection<'data>,
    ) -> Result<Option<Self>, ConvertError> {
        let bytes = file.bytes_of(section);
        let compressed = if section.flags & elf::SHF_COMPRESSED.0 != 0 {
            compression_header(file, bytes)
        } else if section.name.starts_with(b".zdebug_") {
            old_compression_header(bytes)
        } else {
            return Ok(None);
        };
        let cut = || Unreadable::Damaged("its compression header is cut".to_owned());
        let compressed = compressed.ok_or_else(|| cut().of(section.name, 0))?;
        let ratio_max = match compressed.method {
            METHOD_ZLIB => ZLIB_RATIO_MAX,
            METHOD_ZSTD => ZSTD_RATIO_MAX,
            other => {
                return Err(ConvertError::Unsupported {
                    what: format!("section compression method {other}"),
                });
            }
        };
        // A size that cannot be is no size that is too large.
        let possible = (compressed.payload.len() as u64).saturating_mul(ratio_max);
        if compressed.size > possible {
            let detail = format!(
                "{} compressed bytes cannot be the declared {}",
                compressed.payload.len(),
                compressed.size
            );
            return Err(Unreadable::Damaged(detail).of(section.name, compressed.size));
        }
        Ok(Some(compressed))
    }

    /// A section that zlib has packed.
    #[cfg(test)]
    pub(super) fn zlib(size: u64, payload: &'data [u8]) -> Self {
        Self {
            method: METHOD_ZLIB,
            size,
            payload,
        }
    }

    /// Whether its bytes can be had piece by piece.
    pub(super) fn is_zlib(&self) -> bool {
        self.method == METHOD_ZLIB
    }

    /// All its bytes.
    pub(super) fn unpack(&self) -> Result<Vec<u8>, Unreadable> {
        match self.method {
            METHOD_ZSTD => unzstd(self),
            _ => inflate(self),
        }
    }
}

/// The header `Elf32_Chdr` or `Elf64_Chdr` of a section with SHF_COMPRESSED.
fn compression_header<'data>(file: &ElfFile<'_>, bytes: &'data [u8]) -> Option<Compressed<'data>> {
    let endian = file.header.endian;
    let word = |at: usize| {
        let bytes = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(match endian {
            Endianness::Little => u32::from_le_bytes(bytes),
            Endianness::Big => u32::from_be_bytes(bytes),
        })
    };
    let long = |at: usize| {
        let bytes = bytes.get(at..at.checked_add(8)?)?.try_into().ok()?;
        Some(match endian {
            Endianness::Little => u64::from_le_bytes(bytes),
            Endianness::Big => u64::from_be_bytes(bytes),
        })
    };
    Some(match file.header.class {
        ElfClass::Elf32 => Compressed {
            method: word(0)?,
            size: word(4)?.into(),
            payload: bytes.get(12..)?,
        },
        ElfClass::Elf64 => Compressed {
            method: word(0)?,
            size: long(8)?,
            payload: bytes.get(24..)?,
        },
    })
}

/// The header of `.zdebug_*`: "ZLIB" and the size, always big-endian.
fn old_compression_header(bytes: &[u8]) -> Option<Compressed<'_>> {
    let (magic, rest) = bytes.split_at_checked(4)?;
    let (size, payload) = rest.split_first_chunk::<8>()?;
    (magic == b"ZLIB").then_some(Compressed {
        method: 1,
        size: u64::from_be_bytes(*size),
        payload,
    })
}

/// A buffer of the declared size.
fn buffer(compressed: &Compressed<'_>) -> Result<Vec<u8>, Unreadable> {
    let size = usize::try_from(compressed.size).unwrap_or(usize::MAX);
    let mut buffer = Vec::new();
    match buffer.try_reserve_exact(size) {
        Ok(()) => Ok(buffer),
        Err(_refused) => Err(Unreadable::OutOfMemory),
    }
}

/// A decoder of zlib.
pub(super) fn inflater() -> Result<Decompress, Unreadable> {
    // The decoder panics when it is refused its own memory.
    Vec::<u8>::new()
        .try_reserve_exact(INFLATER_BYTES_MAX)
        .map_err(|_refused| Unreadable::OutOfMemory)?;
    Ok(Decompress::new(true))
}

fn inflate(compressed: &Compressed<'_>) -> Result<Vec<u8>, Unreadable> {
    let mut out = buffer(compressed)?;
    let mut inflater = inflater()?;
    let status = inflater
        .decompress_vec(compressed.payload, &mut out, FlushDecompress::Finish)
        .map_err(|error| Unreadable::Damaged(error.to_string()))?;
    if status == Status::StreamEnd {
        whole(out, compressed)
    } else {
        Err(Unreadable::Damaged(format!(
            "more or less than the declared {} bytes",
            compressed.size
        )))
    }
}

fn unzstd(compressed: &Compressed<'_>) -> Result<Vec<u8>, Unreadable> {
    let mut out = buffer(compressed)?;
    let mut context = DCtx::try_create().ok_or(Unreadable::OutOfMemory)?;
    match context.decompress(&mut out, compressed.payload) {
        Ok(_written) => whole(out, compressed),
        Err(code) => Err(match zstd_safe::get_error_name(code) {
            ZSTD_OUT_OF_MEMORY => Unreadable::OutOfMemory,
            other => Unreadable::Damaged(other.to_owned()),
        }),
    }
}

fn whole(out: Vec<u8>, compressed: &Compressed<'_>) -> Result<Vec<u8>, Unreadable> {
    if out.len() as u64 == compressed.size {
        Ok(out)
    } else {
        Err(Unreadable::Damaged(format!(
            "{} bytes, declared are {}",
            out.len(),
            compressed.size
        )))
    }
}
