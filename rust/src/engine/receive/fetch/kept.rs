//! A message that has left a call without being handed out, and is on its way to another one.

use async_nats::{Message, Subject};

use crate::engine::columns::batch::Batch;
use crate::engine::columns::meta::parse_meta;
use crate::engine::columns::raw_headers::RawHeaders;
use crate::engine::publish::size::header_size;
use crate::engine::receive::message::Received;

pub enum Kept {
    /// It has just come.
    Fresh(Message),
    /// Its headers are beside it, where there are any.
    Known(Message, Option<RawHeaders>),
    /// A batch of some columns had the rest of it: it is to be had from the stream, where it has this sequence.
    Elsewhere(u64, Subject),
}

impl Kept {
    pub fn bytes(&self) -> usize {
        match self {
            Kept::Fresh(message) | Kept::Known(message, _) => message.length,
            Kept::Elsewhere(..) => 0,
        }
    }

    /// Where its acknowledgement goes.
    pub fn reply(self) -> Option<Subject> {
        match self {
            Kept::Fresh(message) | Kept::Known(message, _) => message.reply,
            Kept::Elsewhere(_, reply) => Some(reply),
        }
    }

    /// A message out of a list.
    pub fn of_message(received: &Received) -> Self {
        let (subject, reply, data) = (received.subject(), received.reply(), received.data());
        let headers = received.headers.as_deref().cloned();
        let message = Message {
            length: subject.len() + reply.len() + headers.as_ref().map_or(0, header_size) + data.len(),
            subject: subject.into(),
            reply: Some(reply.into()),
            payload: data.to_vec().into(),
            headers,
            status: None,
            description: None,
        };
        Kept::Known(message, received.raw_headers.as_deref().cloned())
    }

    /// The rows of a batch; one without the columns of a whole message has only where it is.
    pub fn of_batch(batch: &Batch) -> Vec<Self> {
        let Some(replies) = &batch.replies else { return Vec::new() };
        let kept = |(row, reply): (usize, Option<&str>)| {
            let reply = reply?;
            let Some((subject, data, headers)) = batch.whole_message(row) else {
                return Some(Kept::Elsewhere(u64::try_from(parse_meta(reply)?.seq).ok()?, reply.into()));
            };
            let message = Message {
                length: subject.len() + reply.len() + data.len(),
                subject: subject.into(),
                reply: Some(reply.into()),
                payload: data.to_vec().into(),
                headers: None,
                status: None,
                description: None,
            };
            Some(Kept::Known(message, (!headers.is_empty()).then_some(headers)))
        };
        replies.iter().enumerate().filter_map(kept).collect()
    }
}
