//! Where a file lives that has no GNU build ID: under an internal one, derived from its other
//! identity.
//!
//! Internal IDs have 32 bytes and begin with 16 fixed ones that name the kind of identity, so that
//! the kinds are kept apart. A file whose own GNU build ID begins so is refused at the door: it
//! could only be made to sit in another file's home.

use sha2::{Digest, Sha256};
use unhex_build_id::{BuildId, FileHash, GoBuildId, ParseBuildIdError};

const GO: &[u8; 16] = b"unhex/go-buildid";
const FILE_HASH: &[u8; 16] = b"unhex/htlhash/id";

/// The home of files with this Go build ID: program and split debug file share it.
pub(super) fn of_go(id: &GoBuildId) -> Result<BuildId, ParseBuildIdError> {
    let hash: [u8; 32] = Sha256::digest(id.as_str().as_bytes()).into();
    let (half, _) = hash.as_chunks::<16>();
    internal(GO, half.first().unwrap_or(&[0; 16]))
}

/// The home of the one file with this hash.
pub(super) fn of_file_hash(hash: &FileHash) -> Result<BuildId, ParseBuildIdError> {
    internal(FILE_HASH, hash.as_bytes())
}

/// Whether an ID is internal, or made to look so.
pub(super) fn is_internal(id: &BuildId) -> bool {
    let bytes = id.as_bytes();
    bytes.starts_with(GO) || bytes.starts_with(FILE_HASH)
}

fn internal(prefix: &[u8; 16], rest: &[u8; 16]) -> Result<BuildId, ParseBuildIdError> {
    let bytes: Vec<u8> = prefix.iter().chain(rest).copied().collect();
    BuildId::from_bytes(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_deterministic_and_kept_apart_by_kind() {
        let hash = FileHash::of(b"a file");
        let home = of_file_hash(&hash).unwrap();
        assert_eq!(home, of_file_hash(&hash).unwrap());
        assert!(is_internal(&home));
        let go = of_go(&"abc/def".parse().unwrap()).unwrap();
        assert!(is_internal(&go));
        assert_ne!(go, home);
        assert!(!is_internal(&BuildId::from_bytes(&[1; 20]).unwrap()));
    }
}
