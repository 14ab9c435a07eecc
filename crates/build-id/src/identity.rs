//! Any identity of a binary, and the words by which the API tells their kinds apart.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{BuildId, FileHash, GoBuildId, MachOUuid, ParseBuildIdError, PdbId};

/// The kinds of identity; the words are those of `id_kind` in the API.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum IdKind {
    /// A GNU build ID, the default.
    #[default]
    #[serde(rename = "gnu")]
    Gnu,
    /// A Go build ID.
    #[serde(rename = "go")]
    Go,
    /// An OpenTelemetry file hash.
    #[serde(rename = "htlhash")]
    FileHash,
    /// GUID and age of a PDB.
    #[serde(rename = "pdb")]
    Pdb,
    /// A Mach-O UUID.
    #[serde(rename = "macho")]
    MachO,
}

/// A word that is no [`IdKind`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no kind of identity: gnu, go, htlhash, pdb or macho")]
pub struct ParseIdKindError(pub String);

/// Why a text is no identity of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseIdentityError {
    /// No GNU build ID.
    #[error(transparent)]
    BuildId(#[from] ParseBuildIdError),
    /// No identity of another kind.
    #[error("an identity of kind {kind} is {expected}")]
    Malformed {
        /// The kind that it should be.
        kind: IdKind,
        /// What it looks like.
        expected: &'static str,
    },
}

/// Any identity of a binary.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "id_kind", content = "id")]
pub enum Identity {
    /// A GNU build ID.
    #[serde(rename = "gnu")]
    Gnu(BuildId),
    /// A Go build ID.
    #[serde(rename = "go")]
    Go(GoBuildId),
    /// An OpenTelemetry file hash.
    #[serde(rename = "htlhash")]
    FileHash(FileHash),
    /// GUID and age of a PDB.
    #[serde(rename = "pdb")]
    Pdb(PdbId),
    /// A Mach-O UUID.
    #[serde(rename = "macho")]
    MachO(MachOUuid),
}

impl IdKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Self; 5] = [Self::Gnu, Self::Go, Self::FileHash, Self::Pdb, Self::MachO];

    /// The word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gnu => "gnu",
            Self::Go => "go",
            Self::FileHash => "htlhash",
            Self::Pdb => "pdb",
            Self::MachO => "macho",
        }
    }
}

impl fmt::Display for IdKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for IdKind {
    type Err = ParseIdKindError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| ParseIdKindError(word.to_owned()))
    }
}

impl Identity {
    /// The identity of a kind that `text` is.
    ///
    /// # Errors
    /// If it is none of that kind.
    pub fn parse(kind: IdKind, text: &str) -> Result<Self, ParseIdentityError> {
        Ok(match kind {
            IdKind::Gnu => Self::Gnu(text.parse()?),
            IdKind::Go => Self::Go(text.parse()?),
            IdKind::FileHash => Self::FileHash(text.parse()?),
            IdKind::Pdb => Self::Pdb(text.parse()?),
            IdKind::MachO => Self::MachO(text.parse()?),
        })
    }

    /// Its kind.
    pub fn kind(&self) -> IdKind {
        match self {
            Self::Gnu(_) => IdKind::Gnu,
            Self::Go(_) => IdKind::Go,
            Self::FileHash(_) => IdKind::FileHash,
            Self::Pdb(_) => IdKind::Pdb,
            Self::MachO(_) => IdKind::MachO,
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gnu(id) => id.fmt(f),
            Self::Go(id) => id.fmt(f),
            Self::FileHash(id) => id.fmt(f),
            Self::Pdb(id) => id.fmt(f),
            Self::MachO(id) => id.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn identity() -> impl Strategy<Value = Identity> {
        let gnu = prop::collection::vec(any::<u8>(), 1..=64)
            .prop_map(|bytes| Identity::Gnu(BuildId::from_bytes(&bytes).unwrap()));
        let go = "[!-~]{1,256}".prop_map(|text| Identity::Go(text.parse().unwrap()));
        let hash = any::<[u8; 16]>().prop_map(|b| Identity::FileHash(FileHash::from_bytes(b)));
        let pdb =
            any::<([u8; 16], u32)>().prop_map(|(guid, age)| Identity::Pdb(PdbId { guid, age }));
        let macho = any::<[u8; 16]>().prop_map(|b| Identity::MachO(MachOUuid::from_bytes(b)));
        prop_oneof![gnu, go, hash, pdb, macho]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(identity in identity()) {
            let text = identity.to_string();
            prop_assert_eq!(Identity::parse(identity.kind(), &text), Ok(identity));
        }

        #[test]
        fn any_text_is_an_identity_or_an_error(text in ".*") {
            for kind in IdKind::ALL {
                let _ = Identity::parse(kind, &text);
            }
        }
    }

    #[test]
    fn kinds_have_the_words_of_the_api() {
        for kind in IdKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        assert!("GNU".parse::<IdKind>().is_err());
    }

    #[test]
    fn the_forms_of_other_tools_are_read() {
        let pdb = Identity::parse(IdKind::Pdb, "44e4ec8c-2f41-492b-9369-d6b9a059577c-2").unwrap();
        assert_eq!(pdb.to_string(), "44E4EC8C2F41492B9369D6B9A059577C2");
        let uuid = Identity::parse(IdKind::MachO, "44e4ec8c2f41492b9369d6b9a059577c").unwrap();
        assert_eq!(uuid.to_string(), "44E4EC8C-2F41-492B-9369-D6B9A059577C");
    }
}
