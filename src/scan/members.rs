//! Members of archives, unpacked when somebody asks for them, into a folder that is bounded.
//!
//! Whoever asks first waits for the unpacking, which goes on when he leaves and which all who ask
//! for the same member share.

use std::fs::File;
use std::io;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::entry::{Found, ScannedFile, Stamp, member_path};
use super::folder::{Folder, Kept, Key, Place};
use super::open::blocking;
use super::packages::{self, PackageLimits};
use super::roots::open_without_links;
use crate::archive::Format;
use crate::artifacts::LocateError;
use crate::artifacts::single_flight::SingleFlight;

/// Archives that are unpacked at once: each costs a processor, and xz up to 512 MiB of memory.
const UNPACKED_AT_ONCE: usize = 4;

/// The unpacked members.
#[derive(Debug)]
pub(super) struct Members {
    room: Arc<Room>,
    flights: SingleFlight<Key, Result<Option<Kept>, LocateError>>,
}

#[derive(Debug)]
struct Room {
    folder: Folder,
    limits: PackageLimits,
    turns: Semaphore,
}

/// A member that is to be unpacked.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) archive: Arc<ScannedFile>,
    pub(super) which: Which,
    pub(super) key: Key,
}

/// Which member.
#[derive(Clone, Debug)]
pub(super) enum Which {
    /// The one that the archive calls so.
    Named(String),
    /// The one that would be unpacked to this canonical path.
    At(String),
}

impl Which {
    fn is(&self, name: &str) -> bool {
        match self {
            Self::Named(wanted) => wanted == name,
            Self::At(path) => member_path(name) == *path,
        }
    }
}

impl Members {
    pub(super) fn open(
        place: Place<'_>,
        limits: PackageLimits,
        tasks: TaskTracker,
    ) -> io::Result<Self> {
        Ok(Self {
            room: Arc::new(Room {
                folder: Folder::open(place)?,
                limits,
                turns: Semaphore::new(UNPACKED_AT_ONCE),
            }),
            flights: SingleFlight::new(tasks),
        })
    }

    /// The member that was found, open; `None` when the archive is no longer what it was.
    pub(super) async fn file_of(&self, found: &Found) -> Result<Option<(File, Kept)>, LocateError> {
        let Some(member) = found.member() else {
            return Ok(None);
        };
        let unpacked = self
            .unpacked(Wanted {
                archive: Arc::clone(&found.file),
                which: Which::Named(member.name.to_string()),
                key: found.tag(),
            })
            .await?;
        let size_bytes = member.size_bytes;
        let is_whole = |file: &File| file.metadata().is_ok_and(|now| now.len() == size_bytes);
        if unpacked.as_ref().is_some_and(|(file, _)| !is_whole(file)) {
            self.forget(found);
            return Ok(None);
        }
        Ok(unpacked)
    }

    /// A member, open; `None` when there is none, or the archive is no longer what it was.
    pub(super) async fn unpacked(
        &self,
        wanted: Wanted,
    ) -> Result<Option<(File, Kept)>, LocateError> {
        let (room, key) = (Arc::clone(&self.room), wanted.key);
        let known = blocking(move || room.folder.find(&key)).await?;
        if known.is_some() {
            return Ok(known);
        }
        let flight = self.flights.join(key, || {
            let room = Arc::clone(&self.room);
            async move { room.unpack(wanted).await }
        });
        let cut = || LocateError::InPlace {
            detail: "the unpacking was cut off".to_owned(),
        };
        let Some(kept) = flight.await.ok_or_else(cut)?? else {
            return Ok(None);
        };
        // Each of those who waited has a place of his own to read at.
        blocking(move || Ok(Some((kept.open()?, kept)))).await
    }

    /// Removes a member that is not what it should be.
    pub(super) fn forget(&self, found: &Found) {
        self.room.folder.remove(&found.tag());
    }
}

impl Room {
    async fn unpack(self: Arc<Self>, wanted: Wanted) -> Result<Option<Kept>, LocateError> {
        let turn = self.turns.acquire().await;
        let _turn = turn.map_err(|error| LocateError::InPlace {
            detail: error.to_string(),
        })?;
        let room = Arc::clone(&self);
        blocking(move || room.unpack_now(&wanted)).await
    }

    fn unpack_now(&self, wanted: &Wanted) -> io::Result<Option<Kept>> {
        let path = &wanted.archive.path;
        let archive = open_without_links(path)?;
        if Stamp::of(&archive.metadata()?) != wanted.archive.stamp {
            return Ok(None);
        }
        let mut incoming = self.folder.incoming()?;
        let format = Format::of_name(path).unwrap_or(Format::Tar);
        let is_wanted = |name: &str| wanted.which.is(name);
        let to = incoming.as_file_mut();
        let is_there = packages::extract(&archive, format, &self.limits, (&is_wanted, to))
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        if !is_there || Stamp::of(&archive.metadata()?) != wanted.archive.stamp {
            return Ok(None);
        }
        let (_file, kept) = self.folder.keep(&wanted.key, incoming)?;
        Ok(Some(kept))
    }
}
