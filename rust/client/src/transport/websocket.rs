//! WebSocket as a byte stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_websockets::{Error, MaybeTlsStream, Message, WebSocketStream};

pub struct WebSocket {
    inner: WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>,
    /// Unread rest of the last message.
    rest: Bytes,
}

impl WebSocket {
    pub fn new(inner: WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>) -> Self {
        WebSocket { inner, rest: Bytes::new() }
    }
}

fn as_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

impl AsyncRead for WebSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.inner).poll_next(cx)) {
                Some(Ok(message)) if message.is_binary() || message.is_text() => {
                    self.rest = Bytes::copy_from_slice(message.as_payload());
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(as_io(error))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = self.rest.len().min(buf.remaining());
        buf.put_slice(&self.rest[..count]);
        self.rest.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WebSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut inner = Pin::new(&mut self.inner);
        ready!(inner.as_mut().poll_ready(cx)).map_err(as_io)?;
        let sent = inner.start_send(Message::binary(Bytes::copy_from_slice(buf)));
        Poll::Ready(sent.map(|()| buf.len()).map_err(as_io))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx).map_err(as_io)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx).map_err(as_io)
    }
}
