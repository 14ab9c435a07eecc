//! What goes wrong with a question to a server; none of it says that a file does not exist.

use std::time::Duration;

use super::super::ingested::IngestError;
use crate::metrics::UpstreamResult;

/// How long a server has to fail until nobody waits for it: longer than a client is held.
const OUTAGE: Duration = Duration::from_mins(1);

/// Why a server gave no usable answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// It was silent for too long, or took too long in all.
    #[error("no {what} within {} s", within.as_secs_f32())]
    Timeout {
        /// What did not come.
        what: &'static str,
        /// The deadline.
        within: Duration,
    },
    /// The connection could not be made, or broke.
    #[error("{0}")]
    Connection(String),
    /// Another status than 200, 404 and 410.
    #[error("it answered {0}")]
    Status(u16),
    /// A redirect that is not followed.
    #[error("its redirect is not followed: {0}")]
    Redirect(String),
    /// An answer that is not what was asked for.
    #[error("{0}")]
    Lie(String),
    /// It has failed too often and is left alone.
    #[error("it failed too often and is left alone for a while")]
    Resting {
        /// For how long it has been failing.
        failing_for: Duration,
    },
    /// What it sent could not be written down, which is no fault of the server.
    #[error("it cannot be stored: {0}")]
    NotStored(Box<IngestError>),
}

impl Failure {
    /// Whether asking again at once may help.
    pub(super) fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Connection(_) | Self::Status(429 | 500 | 502 | 503 | 504)
        )
    }

    /// Whether the server is not expected back while a client waits.
    pub(super) fn lasts(&self) -> bool {
        matches!(self, Self::Resting { failing_for } if *failing_for >= OUTAGE)
    }

    /// Whether it speaks against the server.
    pub(super) fn is_of_the_server(&self) -> bool {
        !matches!(self, Self::Resting { .. } | Self::NotStored(_))
    }

    /// What it counts as.
    pub(super) fn result(&self) -> UpstreamResult {
        match self {
            Self::Timeout { .. } => UpstreamResult::Timeout,
            Self::Connection(_) => UpstreamResult::Connection,
            Self::Status(_) => UpstreamResult::Status,
            Self::Redirect(_) => UpstreamResult::Redirect,
            Self::Lie(_) => UpstreamResult::Lie,
            Self::Resting { .. } => UpstreamResult::Resting,
            Self::NotStored(_) => UpstreamResult::NotStored,
        }
    }
}

/// The chain of an error's causes in one line: what reqwest says by itself is "error sending request".
pub(super) fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}
