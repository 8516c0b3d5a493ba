//! A message that has left a call without being handed out, and is on its way to another one.

use crate::receive::message::Received;
use columns::batch::Batch;
use wire::ack_subject::parse_ack_subject;
use wire::headers::block;
use wire::message::Message;
use wire::nats::Subject;

pub enum UndeliveredMessages {
    /// It has just come.
    Fresh(Message),
    Known(Message),
    /// A batch of some columns had the rest of it: it is to be had from the stream, where it has this sequence.
    Elsewhere(u64, Subject),
}

impl UndeliveredMessages {
    pub fn bytes(&self) -> usize {
        match self {
            UndeliveredMessages::Fresh(message) | UndeliveredMessages::Known(message) => message.size(),
            UndeliveredMessages::Elsewhere(..) => 0,
        }
    }

    /// Where its acknowledgement goes.
    pub fn reply(self) -> Option<Subject> {
        match self {
            UndeliveredMessages::Fresh(message) | UndeliveredMessages::Known(message) => {
                message.reply().map(Subject::from)
            }
            UndeliveredMessages::Elsewhere(_, reply) => Some(reply),
        }
    }

    /// A message out of a list.
    pub fn of_message(received: &Received) -> Self {
        UndeliveredMessages::Known(received.message())
    }

    /// The rows of a batch; one without the columns of a whole message has only where it is.
    pub fn of_batch(batch: &Batch) -> Vec<Self> {
        let Some(replies) = &batch.replies else { return Vec::new() };
        let kept = |(row, reply): (usize, Option<&str>)| {
            let reply = reply?;
            let Some((subject, data, headers)) = batch.whole_message(row) else {
                return Some(UndeliveredMessages::Elsewhere(
                    u64::try_from(parse_ack_subject(reply)?.seq).ok()?,
                    reply.into(),
                ));
            };
            let headers = if headers.is_empty() { Vec::new() } else { block(&headers) };
            Some(UndeliveredMessages::Known(Message::new(subject, reply, &headers, data)))
        };
        replies.iter().enumerate().filter_map(kept).collect()
    }
}
