//! A request's body that must keep coming.
//!
//! A slow upload is fine, one that stopped is not: it would hold a file and a temporary copy for
//! ever. The time counts from one piece to the next, so no size is too large for it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Sleep;

/// A body that ends with an error of kind `TimedOut` when nothing comes for too long.
#[derive(Debug)]
pub(super) struct StallGuard {
    body: Body,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl StallGuard {
    pub(super) fn new(body: Body, patience: Duration) -> Self {
        Self {
            body,
            patience,
            stalled: None,
        }
    }
}

impl HttpBody for StallGuard {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(context);
        if frame.is_ready() {
            this.stalled = None;
            return frame;
        }
        let patience = this.patience;
        let stalled = this
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(stalled.as_mut().poll(context));
        let detail = format!("nothing of the body came for {} s", patience.as_secs());
        let error = io::Error::new(io::ErrorKind::TimedOut, detail);
        Poll::Ready(Some(Err(axum::Error::new(error))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
