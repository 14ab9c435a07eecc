//! What can go wrong between a command and the server, in words that say what to do about it.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::StatusCode;
use serde::Deserialize;

/// An RFC 9457 problem document, as the server's JSON API answers errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Problem {
    /// A URI that names the kind of problem; `about:blank` when the status says it all.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// The kind of problem in a few words.
    #[serde(default)]
    pub title: String,
    /// What went wrong with this request.
    #[serde(default)]
    pub detail: String,
}

impl Problem {
    /// The most telling text of the body of a failed request, whatever sent it: a proxy between
    /// us and the server answers HTML or nothing.
    pub(super) fn from_body(status: StatusCode, body: &[u8]) -> Self {
        let stated = serde_json::from_slice::<Self>(body)
            .ok()
            .filter(|problem| !problem.title.is_empty() || !problem.detail.is_empty());
        if let Some(problem) = stated {
            return problem;
        }
        let text = String::from_utf8_lossy(body);
        let text = text.trim();
        let is_plain = !text.is_empty() && !text.starts_with('<') && text.len() <= 2_000;
        Self {
            title: status
                .canonical_reason()
                .unwrap_or("unknown status")
                .to_owned(),
            detail: if is_plain {
                text.to_owned()
            } else {
                String::new()
            },
            ..Self::default()
        }
    }

    /// The detail, else the title.
    pub fn words(&self) -> &str {
        if self.detail.is_empty() {
            &self.title
        } else {
            &self.detail
        }
    }
}

/// Why the server did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The address of the server is no URL that can be used.
    #[error("{url:?} is no address of a server: {reason}; write it like http://127.0.0.1:8002")]
    Address {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The HTTP client could not be set up.
    #[error("the HTTP client cannot be set up: {0}")]
    Setup(String),
    /// Nobody answers at that address.
    #[error(
        "no answer from {server} after {attempts} attempts: {reason}; is it running, and is the address right? (--server or UNHEX_SERVER)"
    )]
    Unreachable {
        /// The server's address.
        server: String,
        /// How often it was tried.
        attempts: u32,
        /// The last failure.
        reason: String,
    },
    /// Nothing moved for a long time.
    #[error("{server} took nothing and said nothing for {} s ({attempts} attempts)", waited.as_secs())]
    Stalled {
        /// The server's address.
        server: String,
        /// How often it was tried.
        attempts: u32,
        /// How long nothing moved.
        waited: Duration,
    },
    /// The server wants another token, or one at all.
    #[error(
        "the server does not allow this ({status}): {detail}; give its write token by --token-file or UNHEX_TOKEN"
    )]
    Unauthorized {
        /// 401 or 403.
        status: u16,
        /// The server's words.
        detail: String,
    },
    /// The server is there but not able to do it now.
    #[error("the server is not able to do it now ({status}, attempts: {attempts}): {detail}")]
    Busy {
        /// 429 or 5xx.
        status: u16,
        /// How often it was tried.
        attempts: u32,
        /// The server's words.
        detail: String,
    },
    /// The server refuses this request; asking again is of no use.
    #[error("refused ({status}): {}", problem.words())]
    Refused {
        /// The status code, 4xx.
        status: u16,
        /// The server's words.
        problem: Problem,
    },
    /// The server said to put the file straight into its object store, which did not take it.
    #[error("the object store at {host} did not take the file: {reason}")]
    ObjectStore {
        /// Where it is.
        host: String,
        /// The failure; never the URL, which is a secret.
        reason: String,
    },
    /// The answer is not what this version of the client understands.
    #[error(
        "{server} answered something else than an Unhex server does: {reason}; is it one, and of this version?"
    )]
    Answer {
        /// The server's address.
        server: String,
        /// What does not fit.
        reason: String,
    },
    /// The file to send cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
}

/// An error and its causes on one line; reqwest hides "connection refused" three levels down.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !words.contains(&text) {
            words.push_str(": ");
            words.push_str(&text);
        }
        cause = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detail_of_a_problem_is_shown() {
        let body =
            br#"{"type":"about:blank","title":"Conflict","status":409,"detail":"other code"}"#;
        let problem = Problem::from_body(StatusCode::CONFLICT, body);
        assert_eq!(problem.words(), "other code");
        let error = ClientError::Refused {
            status: 409,
            problem,
        };
        assert_eq!(error.to_string(), "refused (409): other code");
    }

    #[test]
    fn a_page_of_a_proxy_is_not_shown() {
        let problem = Problem::from_body(StatusCode::BAD_GATEWAY, b"<html>nginx</html>");
        assert_eq!(problem.words(), "Bad Gateway");
        let problem = Problem::from_body(StatusCode::NOT_FOUND, b"not found\n");
        assert_eq!(problem.words(), "not found");
    }
}
