//! The process context that an OpenTelemetry SDK publishes in its process's memory (OTEP 4719): found by the name of the mapping,
//! read without stopping the process.
//!
//! A mapping starts with 32 bytes: `OTEL_CTX`, a version, the payload's length, the time at which it was published (0 while it
//! is being written), and its address. Whoever reads compares the time before and after.

use std::io;

use unhex_pprof::{DecodeError, Limits, otlp};

/// What the mapping is called: a memfd, or memory with a name, where the kernel gives names.
const MAPPING_NAMES: [&str; 3] = [
    "/memfd:OTEL_CTX",
    "[anon_shmem:OTEL_CTX]",
    "[anon:OTEL_CTX]",
];
const SIGNATURE: &[u8; 8] = b"OTEL_CTX";
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 32;
/// Bytes of a payload: the specification allows no more.
const PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// How often a payload that is being replaced is read again; the next look is seconds later.
const READ_ATTEMPTS_MAX: u32 = 3;

/// Where a process has its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextRegion {
    /// Where the header starts.
    pub address: u64,
}

/// What a process published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// When, by `CLOCK_BOOTTIME`; never 0.
    pub published_nanos: u64,
    /// Resource attributes, then others.
    pub attributes: Vec<(String, String)>,
}

/// Why a context was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// The process's memory cannot be read.
    #[error("the memory at {address:#x} cannot be read")]
    Memory {
        /// Where.
        address: u64,
        /// Why.
        source: io::Error,
    },
    /// Something else under the name, or another version of the format.
    #[error("the header is none of version {VERSION}")]
    Header,
    /// More than the format allows.
    #[error("a payload of {bytes} bytes, at most {PAYLOAD_BYTES_MAX}")]
    TooLarge {
        /// What the header says.
        bytes: u32,
    },
    /// It was being written each time.
    #[error("it was being written {READ_ATTEMPTS_MAX} times")]
    Unsettled,
    /// The payload is no message.
    #[error("the payload is no process context: {0}")]
    Payload(#[from] DecodeError),
}

struct Header {
    payload_bytes: u32,
    published_nanos: u64,
    payload: u64,
}

impl ContextRegion {
    /// The region in a line of `/proc/PID/maps`, if it is there.
    pub fn of_mapping(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let range = fields.next()?;
        let name = fields.nth(4)?;
        MAPPING_NAMES.contains(&name).then_some(())?;
        let (start, _) = range.split_once('-')?;
        let address = u64::from_str_radix(start, 16).ok()?;
        Some(Self { address })
    }

    /// Reads what is published; `memory` fills a buffer from an address of the process.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or was being written at every look.
    pub fn read(
        self,
        memory: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
    ) -> Result<Context, ContextError> {
        let mut at = |address: u64, buffer: &mut [u8]| {
            memory(address, buffer).map_err(|source| ContextError::Memory { address, source })
        };
        for _ in 0..READ_ATTEMPTS_MAX {
            let mut header = [0; HEADER_BYTES];
            at(self.address, &mut header)?;
            let before = Header::of(&header)?;
            if before.published_nanos == 0 {
                continue;
            }
            let length = usize::try_from(before.payload_bytes).unwrap_or(usize::MAX);
            if length > PAYLOAD_BYTES_MAX {
                let bytes = before.payload_bytes;
                return Err(ContextError::TooLarge { bytes });
            }
            let mut payload = vec![0; length];
            // The old payload may be gone by now: then the time has changed, too.
            let read = at(before.payload, &mut payload);
            at(self.address, &mut header)?;
            let after = Header::of(&header)?;
            if after.published_nanos != before.published_nanos {
                continue;
            }
            read?;
            return Ok(Context {
                published_nanos: before.published_nanos,
                attributes: otlp::process_context(&payload, &Limits::default())?,
            });
        }
        Err(ContextError::Unsettled)
    }
}

impl Header {
    fn of(bytes: &[u8; HEADER_BYTES]) -> Result<Self, ContextError> {
        let mut rest = &bytes[..];
        let signature: [u8; 8] = taken(&mut rest);
        let version = u32::from_ne_bytes(taken(&mut rest));
        if &signature != SIGNATURE || version != VERSION {
            return Err(ContextError::Header);
        }
        Ok(Self {
            payload_bytes: u32::from_ne_bytes(taken(&mut rest)),
            published_nanos: u64::from_ne_bytes(taken(&mut rest)),
            payload: u64::from_ne_bytes(taken(&mut rest)),
        })
    }
}

fn taken<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (first, behind) = rest.split_first_chunk().unwrap_or((&[0; N], &[]));
    *rest = behind;
    *first
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: ContextRegion = ContextRegion { address: 0x1000 };

    fn header(version: u32, length: usize, time: u64) -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend(version.to_ne_bytes());
        bytes.extend(u32::try_from(length).unwrap().to_ne_bytes());
        bytes.extend(time.to_ne_bytes());
        bytes.extend(0x9000_u64.to_ne_bytes());
        bytes
    }

    /// `ProcessContext { resource { service.name: shop }, attributes { a: 7 } }`.
    fn payload() -> Vec<u8> {
        let field = |number: u8, content: &[u8]| {
            let mut bytes = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
            bytes.extend(content);
            bytes
        };
        let key_value =
            |key: &str, value: &[u8]| [field(1, key.as_bytes()), field(2, value)].concat();
        let service = key_value("service.name", &field(1, b"shop"));
        let number = key_value("a", &[3 << 3, 7]);
        [field(1, &field(1, &service)), field(2, &number)].concat()
    }

    fn read(mut header_at: impl FnMut(u32) -> Vec<u8>) -> Result<Context, ContextError> {
        let mut looks = 0;
        REGION.read(&mut |address, buffer| {
            let source = if address == REGION.address {
                looks += 1;
                header_at(looks)
            } else {
                payload()
            };
            buffer.copy_from_slice(&source[..buffer.len()]);
            Ok(())
        })
    }

    #[test]
    fn a_published_context_is_read() {
        let length = payload().len();
        let context = read(|_| header(2, length, 5)).unwrap();
        assert_eq!(context.published_nanos, 5);
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            context.attributes,
            [pair("service.name", "shop"), pair("a", "7")]
        );
    }

    #[test]
    fn a_context_that_changes_while_it_is_read_is_read_again() {
        let length = payload().len();
        // Written during the first look, replaced during the second, settled at the third.
        let context = read(|look| header(2, length, [0, 1, 2, 2][look.min(4) as usize - 1]));
        assert_eq!(context.unwrap().published_nanos, 2);
        let unsettled = read(|look| header(2, length, look.into())).unwrap_err();
        assert!(matches!(unsettled, ContextError::Unsettled), "{unsettled}");
    }

    #[test]
    fn another_version_and_a_payload_beyond_the_format_are_refused() {
        let other = read(|_| header(3, 4, 5)).unwrap_err();
        assert!(matches!(other, ContextError::Header), "{other}");
        let large = read(|_| header(2, PAYLOAD_BYTES_MAX + 1, 5)).unwrap_err();
        assert!(matches!(large, ContextError::TooLarge { .. }), "{large}");
        let cut = read(|_| header(2, payload().len() - 1, 5)).unwrap_err();
        assert!(matches!(cut, ContextError::Payload(_)), "{cut}");
    }

    #[test]
    fn the_mapping_is_found_by_its_name_only() {
        for (line, expected) in [
            (
                "7f00a000-7f00b000 rw-s 00000000 00:01 9   /memfd:OTEL_CTX (deleted)",
                Some(0x7f00_a000),
            ),
            (
                "7f00a000-7f00b000 r--p 00000000 00:00 0   [anon:OTEL_CTX]",
                Some(0x7f00_a000),
            ),
            (
                "7f00a000-7f00b000 r--p 00000000 00:00 0   [anon_shmem:OTEL_CTX]",
                Some(0x7f00_a000),
            ),
            (
                "7f00a000-7f00b000 r--p 00000000 00:00 0   /tmp/OTEL_CTX",
                None,
            ),
            ("7f00a000-7f00b000 r--p 00000000 00:00 0", None),
            ("", None),
        ] {
            let found = ContextRegion::of_mapping(line).map(|region| region.address);
            assert_eq!(found, expected, "{line}");
        }
    }
}
