//! Why a debug file cannot be converted; the kinds are the statuses of the API.

use crate::elf::ElfError;

/// Why a debug file cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The file is damaged or hostile.
    #[error("{what}: {detail}")]
    Malformed {
        /// Which part of the file.
        what: String,
        /// What was found there.
        detail: String,
    },
    /// The file is sound, but nothing that this converter knows.
    #[error("{what} is not supported")]
    Unsupported {
        /// What it is.
        what: String,
    },
    /// A limit is exceeded.
    #[error("the file has {count} {what}, more than {max}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How many there are, at least.
        count: u64,
        /// The limit.
        max: u64,
    },
    /// Memory was refused.
    #[error("{bytes} bytes of memory for {what} were refused")]
    OutOfMemory {
        /// What it was for.
        what: String,
        /// How much was asked for.
        bytes: u64,
    },
    /// The caller's deadline is over.
    #[error("the conversion was stopped after {steps} steps")]
    Stopped {
        /// DIEs, rows, symbols and ranges that were looked at.
        steps: u64,
    },
}

impl From<ElfError> for ConvertError {
    fn from(error: ElfError) -> Self {
        match error {
            ElfError::NotElf(format) => Self::Unsupported {
                what: format!("a file that is {format}"),
            },
            ElfError::TooMany { what, count, max } => Self::TooLarge {
                what,
                count: count as u64,
                max: max as u64,
            },
            other => Self::Malformed {
                what: "ELF".to_owned(),
                detail: other.to_string(),
            },
        }
    }
}
