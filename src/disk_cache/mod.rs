//! Files on this disk that can be had again: a folder that is bounded by bytes.
//!
//! The least recently used go first, and none while somebody holds it. Nothing here knows what the
//! files are or where they come from: whoever fetched or unpacked a file hands it over complete,
//! under a key, and asks for it by that key. [`accounts`] decides what goes, without touching a file;
//! [`folder`] is the folder itself, one for each server ([`beside`]).
//!
//! A file is never changed and its path never used again: another file under the same key gets a path
//! of its own. So whoever holds one has it at its path, whatever becomes of the key meanwhile.
//!
//! Nothing is synced. After a crash of the machine a file may have any content, so that whoever keeps
//! files over a start compares each with what it has to be before its first use.
//!
//! Everything here waits for the disk: call it off the async threads.

mod accounts;
mod beside;
mod folder;
mod key;

pub use folder::{BoundedFolder, FolderSettings, HeldFile, Hold, Leftovers, Reservation};
pub use key::FileKey;
