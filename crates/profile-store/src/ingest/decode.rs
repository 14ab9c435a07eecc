//! From the bytes of a body to rows: unpacked within the limit, hashed, read, and what is to be counted and told of them.

use std::io::{self, Read};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use unhex_pprof::{Limits, otlp, pprof};

use super::counting::{self, Counts};
use super::{Incoming, IngestError};
use crate::append::RequestHash;
use crate::clock::Clock;
use crate::config::Config;
use crate::metrics::Protocol;
use crate::observe::Note;
use crate::rows::{Arrival, Batch, TimeBounds, batch, observed};

/// The largest window of a zstd frame that is read, as its logarithm: what the encoder makes at its highest usual level.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// What a gzip stream starts with, RFC 1952 §2.3.1: pprof files are gzip whatever the headers say.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Profiles of which the reason is told; the others mostly have the same.
const REJECTIONS_SHOWN_MAX: usize = 10;
/// Memory of a row, of an entry of a tree of stacks, and of a frame with its texts.
const ROW_BYTES: usize = 72;
const STACK_BYTES: usize = 80;
const FRAME_BYTES: usize = 160;

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentEncoding {
    /// As it is.
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// Reads messages.
#[derive(Debug)]
pub(super) struct Decoder {
    limits: Limits,
    message_bytes_max: u64,
    samples_days: u32,
    clock: Clock,
}

/// A message that was read.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) hash: RequestHash,
    pub(super) batch: Batch,
    /// Profiles that refer to what is not in the message.
    pub(super) malformed: Vec<otlp::Rejected>,
    pub(super) counts: Counts,
    pub(super) notes: Vec<Note>,
    pub(super) sent_bytes: u64,
    pub(super) unpacked_bytes: u64,
}

impl Prepared {
    /// An estimate of what its rows, stacks and frames take.
    pub(super) fn memory_bytes(&self) -> u64 {
        let batch = &self.batch;
        let rows = batch.rows.len().saturating_mul(ROW_BYTES);
        let frames: usize = batch.stacks.values().map(|frames| frames.len()).sum();
        let stacks = batch.stacks.len().saturating_mul(STACK_BYTES);
        let stacks = stacks.saturating_add(frames.saturating_mul(16));
        let frames = batch.frames.len().saturating_mul(FRAME_BYTES);
        rows.saturating_add(stacks).saturating_add(frames) as u64
    }
}

impl Decoder {
    pub(super) fn new(config: &Config, clock: Clock) -> Self {
        let message_bytes_max = config.limits.message_bytes_max;
        let longest = config.retention.samples_days_by_service.values();
        let longest = longest.copied().max().unwrap_or_default();
        Self {
            limits: Limits {
                message_bytes: usize::try_from(message_bytes_max).unwrap_or(usize::MAX),
                ..Limits::default()
            },
            message_bytes_max,
            samples_days: config.retention.samples_days.max(longest),
            clock,
        }
    }

    /// Takes CPU time and memory: as much as its message has bytes, ten times over.
    pub(super) fn prepare(&self, incoming: Incoming) -> Result<Prepared, IngestError> {
        let Incoming {
            protocol,
            encoding,
            body,
            labels,
        } = incoming;
        let sent_bytes = body.len();
        let unpacked = self.unpacked(body.as_slice(), encoding, protocol)?;
        let message = unpacked.as_deref().unwrap_or_else(|| body.as_slice());
        let unpacked_bytes = message.len() as u64;
        let hash = request_hash(protocol, &labels, message);
        let bounds = TimeBounds {
            now: self.clock.now(),
            samples_days: self.samples_days,
        };
        let arrival = Arrival {
            labels: &labels,
            bounds,
        };
        let (batch, malformed) = self.read(protocol, message, &arrival)?;
        drop((unpacked, body));
        let counts = counting::counts(&batch);
        let notes = observed(&batch, &hash.to_string());
        let notes = notes.into_iter().map(Note::new).collect();
        Ok(Prepared {
            hash,
            batch,
            malformed,
            counts,
            notes,
            sent_bytes,
            unpacked_bytes,
        })
    }

    fn read(
        &self,
        protocol: Protocol,
        message: &[u8],
        arrival: &Arrival<'_>,
    ) -> Result<(Batch, Vec<otlp::Rejected>), IngestError> {
        let limits = &self.limits;
        if protocol == Protocol::Pprof {
            let model = pprof::decode(message, limits)?;
            return Ok((batch(&model, arrival), Vec::new()));
        }
        let from_json = match protocol {
            Protocol::OtlpJson => Some(otlp::json_to_protobuf(message, limits)?),
            _ => None,
        };
        let decoded = otlp::decode(from_json.as_deref().unwrap_or(message), limits)?;
        Ok((batch(&decoded.profiles, arrival), decoded.rejected))
    }

    /// None if it is as it was sent.
    fn unpacked(
        &self,
        sent: &[u8],
        encoding: ContentEncoding,
        protocol: Protocol,
    ) -> Result<Option<Vec<u8>>, IngestError> {
        let max = self.message_bytes_max;
        let mut unpacked = match encoding {
            ContentEncoding::Identity => None,
            ContentEncoding::Gzip => Some(gunzip(sent, max)?),
            ContentEncoding::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(sent);
                let mut decoder = decoder.map_err(damaged)?;
                let bounded = decoder.window_log_max(ZSTD_WINDOW_LOG_MAX);
                bounded.map_err(damaged)?;
                Some(bounded_read(decoder, max)?)
            }
        };
        let message = unpacked.as_deref().unwrap_or(sent);
        if protocol == Protocol::Pprof && message.starts_with(&GZIP_MAGIC) {
            unpacked = Some(gunzip(message, max)?);
        }
        let length = unpacked.as_deref().unwrap_or(sent).len() as u64;
        if length > max {
            return Err(IngestError::TooLarge { max });
        }
        Ok(unpacked)
    }
}

fn gunzip(sent: &[u8], max: u64) -> Result<Vec<u8>, IngestError> {
    bounded_read(flate2::bufread::MultiGzDecoder::new(sent), max)
}

fn bounded_read(decoder: impl Read, max: u64) -> Result<Vec<u8>, IngestError> {
    let mut bytes = Vec::new();
    let mut bounded = decoder.take(max.saturating_add(1));
    bounded.read_to_end(&mut bytes).map_err(damaged)?;
    if bytes.len() as u64 > max {
        return Err(IngestError::TooLarge { max });
    }
    Ok(bytes)
}

fn damaged(error: io::Error) -> IngestError {
    IngestError::Encoding(Arc::new(error))
}

/// What makes a message the same one when it is sent again: its protocol, the labels beside it, and its bytes.
fn request_hash(protocol: Protocol, labels: &[(String, String)], message: &[u8]) -> RequestHash {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    // Over HTTP and gRPC the bytes are the same message.
    let format: &[u8] = match protocol {
        Protocol::OtlpHttp | Protocol::OtlpGrpc => b"otlp",
        Protocol::OtlpJson => b"json",
        Protocol::Pprof => b"pprof",
    };
    part(format);
    let mut sorted: Vec<&(String, String)> = labels.iter().collect();
    sorted.sort();
    part(&(sorted.len() as u64).to_le_bytes());
    for (name, value) in sorted {
        part(name.as_bytes());
        part(value.as_bytes());
    }
    part(message);
    RequestHash(hash.finalize().into())
}

/// Which profiles were not kept, and why.
pub(super) fn rejections(malformed: &[otlp::Rejected], batch: &Batch) -> Option<String> {
    let shown = malformed.iter().take(REJECTIONS_SHOWN_MAX);
    let mut lines: Vec<String> = shown
        .map(|rejected| format!("profile {}: {}", rejected.index, rejected.error))
        .collect();
    let more = malformed.len().saturating_sub(lines.len());
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.extend(batch.rejections());
    (!lines.is_empty()).then(|| lines.join("; "))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn decoder(message_bytes_max: u64) -> Decoder {
        let mut config = Config::default();
        config.limits.message_bytes_max = message_bytes_max;
        Decoder::new(&config, Clock::system())
    }

    #[test]
    fn a_body_is_unpacked_up_to_its_limit() {
        let plain = vec![b'a'; 1_000];
        for (encoding, sent) in [
            (ContentEncoding::Gzip, gzip(&plain)),
            (ContentEncoding::Zstd, zstd::encode_all(&*plain, 1).unwrap()),
        ] {
            let unpack = |max| decoder(max).unpacked(&sent, encoding, Protocol::OtlpHttp);
            assert_eq!(unpack(1_000).unwrap().unwrap(), plain);
            let above = unpack(999).unwrap_err();
            assert!(matches!(above, IngestError::TooLarge { max: 999 }));
            assert!(above.to_string().contains("message_bytes_max, 999 bytes"));
        }
        let damaged = decoder(9).unpacked(b"no gzip", ContentEncoding::Gzip, Protocol::OtlpHttp);
        assert!(matches!(damaged, Err(IngestError::Encoding(_))));
        let as_sent = decoder(9).unpacked(b"x", ContentEncoding::Identity, Protocol::OtlpHttp);
        assert_eq!(as_sent.unwrap(), None);
    }

    #[test]
    fn a_pprof_file_is_unpacked_inside_its_encoding_too() {
        let twice = gzip(&gzip(b"profile"));
        let unpacked = decoder(100).unpacked(&twice, ContentEncoding::Gzip, Protocol::Pprof);
        assert_eq!(unpacked.unwrap().unwrap(), b"profile");
    }

    #[test]
    fn the_hash_of_a_request_is_of_all_that_makes_it_another_one() {
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let (a, b) = (label("a", "1"), label("b", "2"));
        let hash = |labels: &[(String, String)], message: &[u8]| {
            request_hash(Protocol::Pprof, labels, message)
        };
        let one = hash(&[a.clone(), b.clone()], b"m");
        assert_eq!(one, hash(&[b.clone(), a.clone()], b"m"));
        assert_ne!(one, hash(std::slice::from_ref(&a), b"m"));
        assert_ne!(one, hash(&[a.clone(), b], b"n"));
        assert_ne!(hash(&[label("ab", "")], b""), hash(&[label("a", "b")], b""));
        let otlp = request_hash(Protocol::OtlpHttp, &[], b"m");
        assert_eq!(otlp, request_hash(Protocol::OtlpGrpc, &[], b"m"));
        assert_ne!(otlp, request_hash(Protocol::OtlpJson, &[], b"m"));
    }
}
