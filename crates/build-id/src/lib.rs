//! Build IDs and the other identities that lead to the same binary.
//!
//! A GNU build ID names a binary wherever it was installed; the other identities are what
//! profilers send when there is none. Each has a type of its own, so that they cannot be mixed
//! up; [`Identity`] is any of them, [`IdKind`] its word in the API. No I/O: callers bring bytes.

mod elf;
mod file_hash;
mod gnu;
mod go;
mod hex;
mod identity;
mod macho;
mod pdb;

pub use elf::ElfIdentities;
pub use file_hash::{FILE_HASH_PART_BYTES, FileHash, FileParts};
pub use gnu::{BUILD_ID_BYTES_MAX, BuildId, ParseBuildIdError};
pub use go::{GO_BUILD_ID_BYTES_MAX, GoBuildId};
pub use hex::Hex;
pub use identity::{IdKind, Identity, ParseIdKindError, ParseIdentityError};
pub use macho::MachOUuid;
pub use pdb::PdbId;
