//! What is done with each file of an archive: handed over, or opened when it is an archive itself.

use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;

use super::bounded::{Bounded, Budget};
use super::member::{RawMember, read_head};
use super::{ArchiveError, ArchiveLimits, EachMember, Format, Member, ar, cpio, decoder, rpm, tar};

/// Archives in archives: a package in a layer in an image in a bundle.
const DEPTH_MAX: u8 = 4;

/// Told of each regular file of one archive.
pub(super) type EachRaw<'a> =
    dyn FnMut(RawMember<'_>) -> Result<ControlFlow<()>, ArchiveError> + 'a;

/// One unpacking of an archive and all that is in it; the limits are for all of it together.
pub(super) struct Unpacker<'a, 'each> {
    pub(super) limits: &'a ArchiveLimits,
    pub(super) budget: Budget,
    pub(super) members: u64,
    pub(super) each: &'a mut EachMember<'each>,
}

/// Where in the nest of archives a file is.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    depth: u8,
    /// The archives around, each with a `!` behind it.
    prefix: String,
}

impl Level {
    fn within(&self, archive: &str) -> Self {
        Self {
            depth: self.depth.saturating_add(1),
            prefix: format!("{}{archive}!", self.prefix),
        }
    }
}

impl Unpacker<'_, '_> {
    /// The files of an archive that is read from its start to its end; a zip cannot be.
    pub(super) fn stream(
        &mut self,
        mut reader: impl BufRead,
        format: Format,
        level: &Level,
    ) -> Result<ControlFlow<()>, ArchiveError> {
        if level.depth > DEPTH_MAX {
            return Err(ArchiveError::TooDeep(DEPTH_MAX));
        }
        let memory_max = self.limits.xz_memory_bytes_max;
        match format {
            Format::Rpm => {
                rpm::skip_to_payload(&mut reader)?;
                let plain = decoder::decode(reader, memory_max)?;
                let plain = Bounded::new(plain, self.budget.clone());
                cpio::unpack(plain, &mut |raw| self.member(raw, level))
            }
            Format::Deb => {
                let plain = decoder::decode(ar::data_member(reader)?, memory_max)?;
                self.tar(plain, level)
            }
            Format::Tar => self.tar(decoder::decode(reader, memory_max)?, level),
            Format::Zip => Ok(ControlFlow::Continue(())),
        }
    }

    fn tar(&mut self, plain: impl Read, level: &Level) -> Result<ControlFlow<()>, ArchiveError> {
        let plain = Bounded::new(plain, self.budget.clone());
        tar::unpack(plain, &mut |raw| self.member(raw, level))
    }

    /// Hands over one file, or the files in it.
    pub(super) fn member(
        &mut self,
        raw: RawMember<'_>,
        level: &Level,
    ) -> Result<ControlFlow<()>, ArchiveError> {
        self.members += 1;
        if self.members > self.limits.members_max {
            return Err(ArchiveError::TooMany(self.limits.members_max));
        }
        let RawMember {
            name,
            modified,
            reader,
        } = raw;
        let head = read_head(reader)?;
        if let Some(format) = Format::of_head(&head) {
            let whole = BufReader::new(head.chain(reader));
            return self.stream(whole, format, &level.within(&name));
        }
        if !decoder::is_compressed(&head) {
            return self.hand_over((name, modified), head, reader, level);
        }
        let whole = BufReader::new(head.chain(reader));
        let plain = decoder::decode(whole, self.limits.xz_memory_bytes_max);
        let mut plain = match plain {
            Ok(plain) => Bounded::new(plain, self.budget.clone()),
            Err(_) => return Ok(ControlFlow::Continue(())),
        };
        // A manual page that is damaged is none of our business.
        let Ok(head) = read_head(&mut plain) else {
            return Ok(ControlFlow::Continue(()));
        };
        if Format::of_head(&head) == Some(Format::Tar) {
            let whole = BufReader::new(head.chain(plain));
            return self.stream(whole, Format::Tar, &level.within(&name));
        }
        self.hand_over((name, modified), head, &mut plain, level)
    }

    fn hand_over(
        &mut self,
        (name, modified): (String, u64),
        head: Vec<u8>,
        reader: &mut dyn Read,
        level: &Level,
    ) -> Result<ControlFlow<()>, ArchiveError> {
        (self.each)(&mut Member {
            label: format!("{}{name}", level.prefix),
            name,
            modified,
            head,
            reader,
        })
    }
}
