//! The answer of `POST /symbolize` as a response: form and encoding by `Accept` and `Accept-Encoding`.
//!
//! What fits one piece is sent whole, with its length. Longer answers are made piece by piece, as
//! fast as the client takes them, so that a slow client holds no thread. What it holds of memory is
//! reserved until its answer is written ([`holding`]).

use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use flate2::write::GzEncoder;
use futures_util::future::ready;
use futures_util::{StreamExt as _, stream};
use http::HeaderMap;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName,
    HeaderValue, VARY,
};
use http_body::{Body as HttpBody, Frame, SizeHint};
use unhex_api::symbolize::COMPACT_MEDIA_TYPE;

use crate::http::error::{ApiError, ApiErrorKind};
use crate::symbolize::{Answer, Busy, CpuPool, Found, JsonWriter, ReservedMemory};

/// What is written before it is sent: larger answers go piece by piece.
const PIECE_BYTES: usize = 1 << 20;
/// Below this compression costs more than it saves.
const COMPRESSED_BYTES_MIN: usize = 1 << 10;
/// Both compress JSON of frames to about a tenth at this level, at the lowest cost.
const GZIP_LEVEL: u32 = 1;
const ZSTD_LEVEL: i32 = 1;

/// What the client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplyForm {
    media: Media,
    encoding: Encoding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Media {
    Json,
    Compact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Identity,
    Gzip,
    Zstd,
}

impl ReplyForm {
    /// What the headers ask for. The form for people, uncompressed, unless another is named.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let is_accepted = |header, word: &str| {
            words(headers, header)
                .any(|(named, quality)| named.eq_ignore_ascii_case(word) && quality > 0.0)
        };
        let media = if is_accepted(ACCEPT, COMPACT_MEDIA_TYPE) {
            Media::Compact
        } else {
            Media::Json
        };
        let encoding = if is_accepted(ACCEPT_ENCODING, "zstd") {
            Encoding::Zstd
        } else if is_accepted(ACCEPT_ENCODING, "gzip") {
            Encoding::Gzip
        } else {
            Encoding::Identity
        };
        Self { media, encoding }
    }
}

/// The words of a list header with their `q` (RFC 9110 §12.4.2).
fn words(headers: &HeaderMap, header: HeaderName) -> impl Iterator<Item = (&str, f32)> {
    let values = headers.get_all(header).into_iter();
    let items = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    items.map(|item| {
        let mut parts = item.split(';').map(str::trim);
        let word = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
        (word, quality.unwrap_or(1.0))
    })
}

/// Looks up and writes, off the async threads; `observe` is told of the answer.
pub(super) async fn write(
    pool: &CpuPool,
    found: Found,
    form: ReplyForm,
    observe: impl FnOnce(&mut Answer) + Send + 'static,
) -> Result<Response, ApiError> {
    let begun = pool.run_when_free(found.deadline(), move || {
        let mut answer = found.look_up();
        observe(&mut answer);
        let mut pieces = Pieces::new(answer, form);
        let first = pieces.next_piece()?;
        io::Result::Ok((first, pieces))
    });
    let begun = begun.await.map_err(busy)?.map_err(ApiError::internal)?;
    let (first, pieces) = begun.map_err(ApiError::internal)?;
    let encoding = pieces.encoding;
    let body = if pieces.is_done() {
        Body::from(first)
    } else {
        streamed(pool.clone(), first, pieces)
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form.media.name()));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
    if let Some(encoding) = encoding.name() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    Ok(response)
}

fn busy(busy: Busy) -> ApiError {
    let detail = "all processors are busy with other requests; come again later";
    ApiError::new(ApiErrorKind::Unavailable, detail).with_source(busy)
}

/// `body`, which gives its memory back when it is written or its client is gone.
pub(super) fn holding(body: Body, memory: ReservedMemory) -> Body {
    Body::new(HoldingBody {
        body,
        _memory: memory,
    })
}

struct HoldingBody {
    body: Body,
    _memory: ReservedMemory,
}

impl HttpBody for HoldingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body that makes its next piece when the client has taken the last.
fn streamed(pool: CpuPool, first: Bytes, pieces: Pieces) -> Body {
    let rest = stream::unfold(Some(pieces), move |pieces| {
        let pool = pool.clone();
        async move {
            let mut pieces = pieces.filter(|pieces| !pieces.is_done())?;
            let making = pool.run(move || {
                let piece = pieces.next_piece();
                (piece, pieces)
            });
            match making.await {
                Ok((piece, pieces)) => Some((piece, Some(pieces))),
                Err(error) => Some((Err(io::Error::other(error)), None)),
            }
        }
    });
    let first = stream::once(ready(Ok(first)));
    Body::from_stream(first.chain(rest))
}

impl Media {
    fn name(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Compact => COMPACT_MEDIA_TYPE,
        }
    }
}

impl Encoding {
    fn name(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
    }
}

/// An answer that is written and compressed piece by piece.
struct Pieces {
    plain: Plain,
    encoding: Encoding,
    encoder: Option<Encoder>,
}

/// Where the plain bytes come from.
enum Plain {
    /// Written as far as is wanted.
    Json(JsonWriter),
    /// All at once: the tables in front are known only at the end.
    Compact(Option<Answer>),
}

/// Compresses into memory.
enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Pieces {
    fn new(answer: Answer, form: ReplyForm) -> Self {
        let plain = match form.media {
            Media::Json => Plain::Json(JsonWriter::new(answer)),
            Media::Compact => Plain::Compact(Some(answer)),
        };
        Self {
            plain,
            encoding: form.encoding,
            encoder: None,
        }
    }

    fn is_done(&self) -> bool {
        match &self.plain {
            Plain::Json(writer) => writer.is_done(),
            Plain::Compact(answer) => answer.is_none(),
        }
    }

    /// The next bytes of the body; empty only when nothing is left.
    fn next_piece(&mut self) -> io::Result<Bytes> {
        loop {
            let plain = match &mut self.plain {
                Plain::Json(writer) => writer.piece(PIECE_BYTES),
                Plain::Compact(answer) => answer.take().map(|a| a.to_compact()).unwrap_or_default(),
            };
            let piece = self.encoded(plain)?;
            if !piece.is_empty() || self.is_done() {
                return Ok(piece.into());
            }
        }
    }

    fn encoded(&mut self, plain: Vec<u8>) -> io::Result<Vec<u8>> {
        if self.encoder.is_none() {
            if self.is_done() && plain.len() < COMPRESSED_BYTES_MIN {
                self.encoding = Encoding::Identity;
            }
            self.encoder = Encoder::new(self.encoding)?;
        }
        match self.encoder.take() {
            None => Ok(plain),
            Some(mut encoder) => {
                encoder.write_all(&plain)?;
                if self.is_done() {
                    return encoder.finish();
                }
                let piece = std::mem::take(encoder.out());
                self.encoder = Some(encoder);
                Ok(piece)
            }
        }
    }
}

impl Encoder {
    fn new(encoding: Encoding) -> io::Result<Option<Self>> {
        Ok(match encoding {
            Encoding::Identity => None,
            Encoding::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                Some(Self::Gzip(GzEncoder::new(Vec::new(), level)))
            }
            Encoding::Zstd => {
                let encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                Some(Self::Zstd(encoder))
            }
        })
    }

    fn write_all(&mut self, plain: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.write_all(plain),
            Self::Zstd(encoder) => encoder.write_all(plain),
        }
    }

    fn out(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(pairs: &[(HeaderName, &'static str)]) -> ReplyForm {
        let header = |(name, value): &(HeaderName, &'static str)| {
            (name.clone(), HeaderValue::from_static(value))
        };
        ReplyForm::of(&pairs.iter().map(header).collect())
    }

    #[test]
    fn the_form_for_people_is_what_nobody_asked_otherwise() {
        let plain = ReplyForm {
            media: Media::Json,
            encoding: Encoding::Identity,
        };
        assert_eq!(form(&[]), plain);
        assert_eq!(form(&[(ACCEPT, "*/*"), (ACCEPT_ENCODING, "br")]), plain);
        assert_eq!(form(&[(ACCEPT_ENCODING, "gzip;q=0, zstd; q=0")]), plain);
    }

    #[test]
    fn zstd_goes_before_gzip_and_the_compact_form_is_named() {
        let asked = form(&[
            (
                ACCEPT,
                "application/json;q=0.5, Application/VND.unhex.compact+json",
            ),
            (ACCEPT_ENCODING, "gzip, deflate, zstd"),
        ]);
        assert_eq!(asked.media, Media::Compact);
        assert_eq!(asked.encoding, Encoding::Zstd);
        assert_eq!(form(&[(ACCEPT_ENCODING, "gzip")]).encoding, Encoding::Gzip);
    }
}
