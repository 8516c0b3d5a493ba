//! Where fetched messages go, and what becomes of them when nobody takes them from there.

use std::sync::Arc;

use async_nats::{Message, Subject};

use super::give_back;
use crate::engine::columns::builder::Builder;
use crate::engine::columns::meta::{Meta, parse_meta};
use crate::engine::columns::raw_headers::RawHeaders;
use crate::engine::connection::Connection;
use crate::engine::receive::message::Received;
use crate::error::{JetError, Result};
use crate::task::caught;

pub trait Sink: Send + 'static {
    fn rows(&self) -> usize;
    fn bytes(&self) -> usize;
    /// How many bytes it still takes.
    fn room(&self) -> usize;
    /// False for what is no message of a stream.
    fn push(&mut self, message: Message) -> Result<bool>;
    /// As `push`, with headers that were read from what is stored.
    fn push_malformed(&mut self, message: Message, meta: &Meta<'_>, headers: RawHeaders) -> Result<()>;
    /// Of the last message: the stream's sequence, and how many more the consumer had for us then.
    fn last(&self) -> Option<(u64, u64)>;
    /// Ack subjects of what is in it, to give the messages back when the call was cancelled.
    fn replies(&self) -> Vec<Subject>;
}

impl Sink for Builder {
    fn rows(&self) -> usize {
        self.len()
    }

    fn bytes(&self) -> usize {
        Builder::bytes(self)
    }

    fn room(&self) -> usize {
        Builder::room(self)
    }

    fn push(&mut self, message: Message) -> Result<bool> {
        let Some(meta) = message.reply.as_deref().and_then(parse_meta) else { return Ok(false) };
        Builder::push(self, &message, &meta)?;
        Ok(true)
    }

    fn push_malformed(&mut self, message: Message, meta: &Meta<'_>, headers: RawHeaders) -> Result<()> {
        self.push_with(&message, meta, Some(&headers))
    }

    fn last(&self) -> Option<(u64, u64)> {
        Builder::last(self)
    }

    fn replies(&self) -> Vec<Subject> {
        Builder::replies(self)
    }
}

/// Messages one by one, each in memory of its own.
#[derive(Default)]
pub struct Messages {
    pub messages: Vec<Received>,
    bytes: usize,
}

impl Sink for Messages {
    fn rows(&self) -> usize {
        self.messages.len()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn room(&self) -> usize {
        usize::MAX
    }

    fn push(&mut self, message: Message) -> Result<bool> {
        let of_a_stream = message.reply.as_deref().is_some_and(|reply| reply.starts_with("$JS.ACK."));
        if of_a_stream {
            self.bytes += message.length;
            self.messages.push(message.into());
        }
        Ok(of_a_stream)
    }

    fn push_malformed(&mut self, message: Message, _: &Meta<'_>, headers: RawHeaders) -> Result<()> {
        self.bytes += message.length;
        let mut received = Received::from(message);
        received.raw_headers = Some(headers);
        self.messages.push(received);
        Ok(())
    }

    fn last(&self) -> Option<(u64, u64)> {
        let meta = parse_meta(self.messages.last()?.reply())?;
        Some((u64::try_from(meta.seq).ok()?, u64::try_from(meta.pending).unwrap_or_default()))
    }

    fn replies(&self) -> Vec<Subject> {
        self.messages.iter().map(|message| Subject::from(message.reply())).collect()
    }
}

/// Messages on their way to the caller; dropped on the way, they are given back.
pub struct Unclaimed<S: Sink> {
    conn: Arc<Connection>,
    pub(super) sink: Option<S>,
}

impl<S: Sink> Unclaimed<S> {
    pub(super) fn new(conn: Arc<Connection>, sink: Option<S>) -> Self {
        Unclaimed { conn, sink }
    }

    pub fn claim(mut self) -> Result<S> {
        self.sink.take().ok_or_else(|| JetError::Internal("claimed twice".into()))
    }
}

impl<S: Sink> Drop for Unclaimed<S> {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            // A panic in a `drop` that a panic has called would end the process.
            let replies = caught(|| sink.replies()).unwrap_or_default();
            give_back(self.conn.clone(), replies, None);
        }
    }
}
