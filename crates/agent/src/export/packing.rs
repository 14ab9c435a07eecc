//! A batch as it goes over the wire.

use std::io;

use clap::ValueEnum;
use serde::Deserialize;
use unhex_pprof::{Profiles, otlp, packed};

/// zstd's own default is 3; at 1 a batch takes a third of the time and a tenth more bytes.
const ZSTD_LEVEL: i32 = 1;

/// How messages are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Least work for fewest bytes; the profile store and new collectors take it.
    #[default]
    Zstd,
    /// What every receiver takes.
    Gzip,
    /// Not at all.
    None,
}

/// A message, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The body.
    pub body: Vec<u8>,
    /// `Content-Encoding`, if it has one.
    pub encoding: Option<&'static str>,
    /// How many samples it has.
    pub samples: u64,
}

impl Message {
    /// Packs profiles.
    ///
    /// # Errors
    /// If zstd has no memory.
    pub fn pack(
        profiles: &Profiles<'_>,
        samples: usize,
        compression: Compression,
    ) -> io::Result<Self> {
        let plain = otlp::encode(profiles);
        let (body, encoding) = match compression {
            Compression::Zstd => (zstd::bulk::compress(&plain, ZSTD_LEVEL)?, Some("zstd")),
            Compression::Gzip => (packed(&plain), Some("gzip")),
            Compression::None => (plain, None),
        };
        Ok(Self {
            body,
            encoding,
            samples: u64::try_from(samples).unwrap_or(u64::MAX),
        })
    }
}
