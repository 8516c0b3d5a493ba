//! Sinks of fetched messages, and messages that leave a sink without being handed out.

use std::collections::VecDeque;
use std::sync::Arc;

use super::redelivery::{Redelivery, Undecided};
use crate::receive::batch_builder::{BatchBuilder, LastRow};
use crate::receive::message::Received;
use base::error::{JetError, Result};
use columns::batch::Batch;
use wire::ack_subject::parse_ack_subject;
use wire::headers::block;
use wire::message::Message;
use wire::nats::Subject;

pub trait Sink: Send + 'static {
    fn rows(&self) -> usize;
    fn bytes(&self) -> usize;
    /// Bytes that still fit.
    fn room(&self) -> usize;
    /// Adds a message; false if it is not a message of a stream.
    fn push(&mut self, message: &Message) -> Result<bool>;
    fn last(&self) -> Option<LastRow>;
    /// Ack subjects of the messages, to negatively acknowledge them after a cancellation.
    fn replies(&self) -> Vec<Subject>;
    /// Moves the messages out, for another sink.
    fn keep(self) -> Vec<Undelivered>;
}

impl Sink for BatchBuilder {
    fn rows(&self) -> usize {
        self.len()
    }

    fn bytes(&self) -> usize {
        BatchBuilder::bytes(self)
    }

    fn room(&self) -> usize {
        BatchBuilder::room(self)
    }

    fn push(&mut self, message: &Message) -> Result<bool> {
        let Some(meta) = message.meta() else { return Ok(false) };
        BatchBuilder::push(self, message, &meta)?;
        Ok(true)
    }

    fn last(&self) -> Option<LastRow> {
        BatchBuilder::last(self)
    }

    fn replies(&self) -> Vec<Subject> {
        BatchBuilder::replies(self)
    }

    fn keep(mut self) -> Vec<Undelivered> {
        self.finish().map(|batch| Undelivered::of_batch(&batch)).unwrap_or_default()
    }
}

/// A sink of single messages, each in memory of its own. They are kept in blocks, which are freed one by one when they
/// are handed out: one list that grows or is converted would be resident twice.
#[derive(Default)]
pub struct MessageSink {
    pub messages: BatchSink,
    bytes: usize,
}

#[derive(Default)]
pub struct BatchSink(VecDeque<Vec<Received>>);

impl BatchSink {
    const SIZE: usize = 4096;

    fn push(&mut self, message: Received) {
        // The first block may stay the only one, with one or two messages.
        let first = self.0.is_empty();
        match self.0.back_mut().filter(|block| block.len() < Self::SIZE) {
            Some(block) => block.push(message),
            None => {
                let mut block = Vec::with_capacity(if first { 1 } else { Self::SIZE });
                block.push(message);
                self.0.push_back(block);
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Received> {
        self.0.iter().flatten()
    }

    pub fn len(&self) -> usize {
        let full = self.0.len().saturating_sub(1) * Self::SIZE;
        full + self.0.back().map_or(0, Vec::len)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl IntoIterator for BatchSink {
    type Item = Received;
    type IntoIter = std::iter::Flatten<std::collections::vec_deque::IntoIter<Vec<Received>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().flatten()
    }
}

impl Sink for MessageSink {
    fn rows(&self) -> usize {
        self.messages.len()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn room(&self) -> usize {
        usize::MAX
    }

    fn push(&mut self, message: &Message) -> Result<bool> {
        let of_a_stream = message.reply().is_some_and(|reply| reply.starts_with("$JS.ACK."));
        if of_a_stream {
            self.bytes += message.size();
            self.messages.push(Received::one_of_many(message));
        }
        Ok(of_a_stream)
    }

    fn last(&self) -> Option<LastRow> {
        parse_ack_subject(self.messages.0.back()?.last()?.reply()).map(|meta| LastRow::of(&meta))
    }

    fn replies(&self) -> Vec<Subject> {
        self.messages.iter().map(|message| Subject::from(message.reply())).collect()
    }

    fn keep(self) -> Vec<Undelivered> {
        self.messages.iter().map(Undelivered::of_message).collect()
    }
}

/// A result until the caller claims it. Dropping it hands its messages to `Redelivery`.
pub struct Unclaimed<S: Sink> {
    returns: Arc<Redelivery>,
    pub(super) sink: Option<S>,
    /// Dropped last.
    _undecided: Option<Undecided>,
}

impl<S: Sink> Unclaimed<S> {
    pub(super) fn new(returns: Arc<Redelivery>, sink: Option<S>) -> Self {
        Unclaimed { returns, sink, _undecided: None }
    }

    /// A call's result. The next call waits until it is claimed or dropped, because it may have to begin with its
    /// messages.
    pub(super) fn result(returns: &Arc<Redelivery>, sink: Option<S>) -> Self {
        Unclaimed { returns: returns.clone(), sink, _undecided: returns.may_come_back() }
    }

    pub fn claim(mut self) -> Result<S> {
        self.sink.take().ok_or_else(|| JetError::Internal("claimed twice".into()))
    }
}

impl<S: Sink> Drop for Unclaimed<S> {
    fn drop(&mut self) {
        self.returns.take_over(self.sink.take(), None);
    }
}

/// A message that a call received and did not hand out.
pub enum Undelivered {
    /// Just received, not counted yet.
    Fresh(Message),
    Known(Message),
    /// Its batch had only some of the columns. The stream has the message under this sequence.
    Elsewhere(u64, Subject),
}

impl Undelivered {
    pub fn bytes(&self) -> usize {
        match self {
            Undelivered::Fresh(message) | Undelivered::Known(message) => message.size(),
            Undelivered::Elsewhere(..) => 0,
        }
    }

    /// The ack subject.
    pub fn reply(self) -> Option<Subject> {
        match self {
            Undelivered::Fresh(message) | Undelivered::Known(message) => message.reply().map(Subject::from),
            Undelivered::Elsewhere(_, reply) => Some(reply),
        }
    }

    /// A message of a list.
    pub fn of_message(received: &Received) -> Self {
        Undelivered::Known(received.message())
    }

    /// The rows of a batch. A batch without all columns of a message yields only sequences.
    pub fn of_batch(batch: &Batch) -> Vec<Self> {
        let Some(replies) = &batch.replies else { return Vec::new() };
        let kept = |(row, reply): (usize, Option<&str>)| {
            let reply = reply?;
            let Some((subject, data, headers)) = batch.whole_message(row) else {
                return Some(Undelivered::Elsewhere(u64::try_from(parse_ack_subject(reply)?.seq).ok()?, reply.into()));
            };
            let headers = if headers.is_empty() { Vec::new() } else { block(&headers) };
            Some(Undelivered::Known(Message::new(subject, reply, &headers, data)))
        };
        replies.iter().enumerate().filter_map(kept).collect()
    }
}
