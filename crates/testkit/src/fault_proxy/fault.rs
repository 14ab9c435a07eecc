//! The ways in which an exchange fails.

use crate::http::Response;

/// One way in which an answer goes wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing goes wrong.
    #[default]
    None,
    /// The request is taken, and nothing ever comes back.
    Hang,
    /// The head and half of the body come, then nothing more.
    HangInBody,
    /// RST instead of an answer.
    Reset,
    /// The head and half of the body come, then RST.
    ResetInBody,
    /// The connection is closed instead of an answer.
    Close,
    /// What stands behind has done what was asked, and RST comes instead of its answer.
    LoseAnswer,
    /// The byte in the middle of the body is another one.
    FlipByte,
    /// `Content-Length` is right, half of the body comes, then the connection is closed.
    Truncate,
    /// A chunked answer whose last chunk never comes: half of the body, then the connection is closed.
    TruncateChunked,
    /// `Content-Length` says half of the body, and so much comes.
    WrongLength,
    /// The right head without a length, then bytes without an end.
    Endless,
    /// Another answer than the right one. The request is not passed on.
    Answer(Answer),
}

/// An answer to be sent as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// All headers but `Content-Length` and `Connection`.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Fault {
    /// A status, with a line of text.
    pub fn status(status: u16) -> Self {
        Self::answer(status, &[("Content-Type", "text/plain")], b"as told")
    }

    /// A page for people instead of the file, as captive portals send it: 200 and HTML.
    pub fn html() -> Self {
        let page = b"<!DOCTYPE html><html><body>Please sign in</body></html>";
        Self::answer(200, &[("Content-Type", "text/html")], page)
    }

    /// 302 to somewhere.
    pub fn redirect(location: &str) -> Self {
        Self::answer(302, &[("Location", location)], b"")
    }

    /// Any answer.
    pub fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self::Answer(Answer {
            status,
            headers: headers.iter().map(owned).collect(),
            body: body.to_vec(),
        })
    }
}

impl From<Answer> for Response {
    fn from(answer: Answer) -> Self {
        Self {
            status: answer.status,
            headers: answer.headers,
            body: answer.body,
        }
    }
}
