//! Handing out what another call has left.

use tokio::time::{Instant, timeout_at};

use super::{FetchCall, GRACE, Sink, UndeliveredMessages};
use crate::api::Api;
use base::error::{JetError, Loss, Result};
use client::traffic::Verb;
use wire::message::Message;

impl<S: Sink> FetchCall<'_, S> {
    /// Takes a message out of the first of `late`; false where there was no time for it.
    pub(super) async fn take_kept(&mut self, kept: UndeliveredMessages, deadline: Instant) -> Result<bool> {
        let message = match kept {
            UndeliveredMessages::Fresh(message) => {
                self.sub.conn.traffic.received(Verb::Fetch, message.payload().len());
                self.sub.conn.hub.look_at_headers(&message, None);
                message
            }
            UndeliveredMessages::Known(message) => message,
            UndeliveredMessages::Elsewhere(seq, reply) => {
                let found = match timeout_at(deadline + GRACE, self.stored(seq, &reply)).await {
                    Ok(Err(err)) if !err.is_transient() => return Err(err),
                    Ok(Ok(found)) => found,
                    _ => {
                        self.late
                            .front_mut()
                            .into_iter()
                            .for_each(|late| late.put_back(UndeliveredMessages::Elsewhere(seq, reply.clone())));
                        return Ok(false);
                    }
                };
                let Some(found) = found else { return Ok(true) };
                found
            }
        };
        let Some(sink) = &mut self.fetched.sink else { return Ok(false) };
        sink.push(&message)?;
        Ok(true)
    }

    /// What the stream has of a message whose other columns are gone.
    async fn stored(&self, seq: u64, reply: &str) -> Result<Option<Message>> {
        let sub = self.sub;
        let headers_only = sub.returns.ways().await.is_some_and(|ways| ways.headers_only);
        let found = Api::new(&sub.conn, &sub.prefix).next_stored(&sub.stream, seq, &[]).await?;
        let Some(stored) = found.filter(|stored| stored.seq == seq) else {
            let (stream, asked, available) = (sub.stream.clone(), (seq, seq + 1), seq + 1);
            sub.conn.hub.tell(JetError::DataLoss(Box::new(Loss { stream, asked, available })));
            return Ok(None);
        };
        let payload = if headers_only { &[] } else { &stored.payload[..] };
        Ok(Some(Message::new(&stored.subject, reply, &stored.headers, payload)))
    }
}
