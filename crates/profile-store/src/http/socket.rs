//! A client's socket with deadlines, and an end that never throws away what was sent.
//!
//! hyper bounds the reading of headers, but neither the wait for a connection's first bytes (it
//! must tell HTTP/1 from HTTP/2 first) nor a client that takes no bytes. And a socket that is closed
//! with unread bytes in it sends RST, which throws away the answer that says why a body was not read:
//! so the socket comes back when hyper lets go of it, says FIN, and is read empty for a moment.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

/// The first bytes of an HTTP/2 connection with prior knowledge (RFC 9113 §3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long a closed socket is read empty.
const LINGER: Duration = Duration::from_secs(2);
/// How much is read at a time while it lingers.
const LINGER_BYTES: usize = 16 << 10;

/// How long a client may keep a socket waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketPatience {
    /// For its first bytes.
    pub(super) first_bytes: Duration,
    /// Without taking a byte of what is sent.
    pub(super) write_stall: Duration,
}

/// A socket as hyper uses it.
#[derive(Debug)]
pub(super) struct ClientSocket {
    stream: Option<TcpStream>,
    back: Option<oneshot::Sender<TcpStream>>,
    patience: SocketPatience,
    opening: Opening,
    write_stalled: Option<Pin<Box<Sleep>>>,
}

/// Whether hyper can already tell which HTTP it is.
#[derive(Debug)]
enum Opening {
    /// So many bytes of the HTTP/2 preface were read.
    Undecided {
        matched: usize,
        deadline: Pin<Box<Sleep>>,
    },
    /// It can.
    Decided,
}

/// The end of a socket, once hyper has let go of it.
#[derive(Debug)]
pub(super) struct SocketEnd(oneshot::Receiver<TcpStream>);

impl ClientSocket {
    /// A socket for hyper, and its end.
    pub(super) fn new(stream: TcpStream, patience: SocketPatience) -> (Self, SocketEnd) {
        let (back, end) = oneshot::channel();
        let deadline = Box::pin(tokio::time::sleep(patience.first_bytes));
        let socket = Self {
            stream: Some(stream),
            back: Some(back),
            patience,
            opening: Opening::Undecided {
                matched: 0,
                deadline,
            },
            write_stalled: None,
        };
        (socket, SocketEnd(end))
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        let closed = || io::Error::from(io::ErrorKind::NotConnected);
        self.stream.as_mut().map(Pin::new).ok_or_else(closed)
    }

    /// Passes `written` on, unless the client has taken no byte for too long.
    fn bounded<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_stalled = None;
            return written;
        }
        let wait = self.patience.write_stall;
        let stalled = self
            .write_stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Opening {
    fn read(&mut self, bytes: &[u8]) {
        let Self::Undecided { matched, .. } = self else {
            return;
        };
        let expected = HTTP2_PREFACE.get(*matched..).unwrap_or_default();
        if bytes.len() < expected.len() && expected.starts_with(bytes) {
            *matched = matched.saturating_add(bytes.len());
        } else {
            *self = Self::Decided;
        }
    }
}

impl Drop for ClientSocket {
    fn drop(&mut self) {
        if let (Some(stream), Some(back)) = (self.stream.take(), self.back.take()) {
            // Nobody waits for it when the server is being torn down.
            let _torn_down = back.send(stream);
        }
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = this.stream()?.poll_read(context, buffer);
        match &mut this.opening {
            Opening::Decided => read,
            Opening::Undecided { deadline, .. } if read.is_pending() => {
                ready!(deadline.as_mut().poll(context));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            opening @ Opening::Undecided { .. } => {
                opening.read(buffer.filled().get(before..).unwrap_or_default());
                read
            }
        }
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = this.stream()?.poll_write(context, bytes);
        this.bounded(written, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = this.stream()?.poll_write_vectored(context, slices);
        this.bounded(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream
            .as_ref()
            .is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream()?.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream()?.poll_shutdown(context)
    }
}

impl SocketEnd {
    /// Says FIN and reads what the client still sends, for a moment, so that the client can read
    /// all of the answer first.
    pub(super) async fn linger(self) {
        let Ok(mut stream) = self.0.await else {
            return;
        };
        let deadline = Instant::now() + LINGER;
        let drain = async {
            stream.shutdown().await?;
            let mut rest = vec![0; LINGER_BYTES];
            while stream.read(&mut rest).await? > 0 {}
            io::Result::Ok(())
        };
        // Whether the client closed in time or not, the socket is closed now.
        let _closed = tokio::time::timeout_at(deadline, drain).await;
    }
}
