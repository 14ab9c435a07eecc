//! Answers over HTTP/2 that must keep being taken.
//!
//! Over HTTP/1 the socket tells whether a client takes its answer (src/http/socket.rs). Over HTTP/2
//! each stream has a window of its own: a client that opens none leaves hyper waiting with a piece of
//! the answer in its hands, for ever, on a connection that lives. So hyper's task of each stream runs
//! beside a clock that counts from one piece to the next; when the patience is over, the task is
//! dropped, and with it the answer, its file and its memory, and the client gets `RST_STREAM`.
//!
//! hyper gives h2 the last piece together with the end, and h2 keeps it until the client takes it,
//! whoever drops what. So pieces are small, and the last one is a short copy that holds on to nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::debug;

/// What is handed over at once: a frame of HTTP/2 as large as clients take by default (RFC 9113
/// §6.5.2). A client that takes one per patience is slow, not stalled.
const PIECE_BYTES: usize = 16 << 10;
/// The last piece: about what h2 keeps for an open stream anyway.
const LAST_PIECE_BYTES: usize = 1 << 10;

tokio::task_local! {
    /// How far the answer of the stream whose task this is was taken.
    static TAKEN: Arc<Taken>;
}

/// Runs hyper's task of each HTTP/2 stream, as long as the client takes its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamExecutor {
    /// How long a client may take nothing of an answer.
    pub(super) patience: Duration,
}

impl<Stream> hyper::rt::Executor<Stream> for StreamExecutor
where
    Stream: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: Stream) {
        let patience = self.patience;
        tokio::spawn(async move {
            let taken = Arc::new(Taken::default());
            let stalled = taken.stalled(patience);
            tokio::select! {
                () = TAKEN.scope(Arc::clone(&taken), stream) => {}
                () = stalled => debug!("a client took nothing of its answer for {patience:?}"),
            }
        });
    }
}

/// Since when a client was offered a piece that it does not take.
#[derive(Debug, Default)]
struct Taken {
    offered: Mutex<Option<Instant>>,
}

impl Taken {
    fn offer(&self) {
        *self.offered.lock() = Some(Instant::now());
    }

    fn take(&self) {
        *self.offered.lock() = None;
    }

    /// Ends when one piece was offered for so long.
    async fn stalled(&self, patience: Duration) {
        loop {
            let now = Instant::now();
            let until = self.offered.lock().unwrap_or(now) + patience;
            if until <= now {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

/// A body in pieces, whose last one is a copy. Each is offered to the clock of its stream, if the
/// task that makes it has one.
#[derive(Debug)]
pub(super) struct OfferedBody {
    body: Body,
    /// What was made and not handed over.
    rest: Bytes,
    taken: Option<Arc<Taken>>,
}

impl OfferedBody {
    pub(super) fn new(body: Body) -> Self {
        let taken = TAKEN.try_with(Arc::clone).ok();
        Self {
            body,
            rest: Bytes::new(),
            taken,
        }
    }

    /// The next piece of the rest, which is not empty.
    fn piece(&mut self) -> Bytes {
        if !self.body.is_end_stream() {
            let length = self.rest.len().min(PIECE_BYTES);
            return self.rest.split_to(length);
        }
        let before_last = self.rest.len().saturating_sub(LAST_PIECE_BYTES);
        if before_last > 0 {
            return self.rest.split_to(before_last.min(PIECE_BYTES));
        }
        Bytes::copy_from_slice(&std::mem::take(&mut self.rest))
    }
}

impl HttpBody for OfferedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        // Whoever asks has got rid of the piece before; what it waits for now is ours to bring.
        if let Some(taken) = &this.taken {
            taken.take();
        }
        if this.rest.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                end => return Poll::Ready(end),
            }
        }
        let piece = this.piece();
        if let Some(taken) = &this.taken {
            taken.offer();
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        let body = self.body.size_hint();
        let mut both = SizeHint::new();
        if let Some(upper) = body.upper() {
            both.set_upper(upper.saturating_add(rest));
        }
        both.set_lower(body.lower().saturating_add(rest));
        both
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    async fn pieces(mut body: OfferedBody) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            pieces.push(frame.unwrap().into_data().unwrap());
        }
        pieces
    }

    #[tokio::test]
    async fn pieces_are_small_and_the_last_one_holds_on_to_nothing() {
        for length in [1, 1_024, 1_025, 16 << 10, 17 << 10, 100_000] {
            let whole = Bytes::from(vec![7; length]);
            let body = OfferedBody::new(Body::from(whole.clone()));
            assert_eq!(body.size_hint().exact(), u64::try_from(length).ok());
            let pieces = pieces(body).await;
            assert_eq!(pieces.concat(), whole);
            let last = pieces.last().unwrap();
            assert!(last.len() <= LAST_PIECE_BYTES, "{length}: {}", last.len());
            assert!(!whole.as_ptr_range().contains(&last.as_ptr()), "{length}");
            assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
        }
    }

    #[tokio::test]
    async fn an_empty_body_has_no_piece() {
        let body = OfferedBody::new(Body::empty());
        assert!(body.is_end_stream());
        assert_eq!(pieces(body).await, Vec::<Bytes>::new());
    }
}
