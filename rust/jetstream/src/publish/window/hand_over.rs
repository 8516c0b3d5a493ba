//! Handing a message to the connection, which may reject it.

use futures_util::{FutureExt, Stream, StreamExt};
use tokio::time::{Instant, Interval};

use super::{HandOver, PublishLoop, ResultSink, RowToPublish};
use base::error::{JetError, Result};
use client::transport::SendRejected;
use wire::nats::Subject;
use wire::token::write_token;

impl<F: Stream<Item = Result<RowToPublish>> + Send + Unpin, O: ResultSink> PublishLoop<'_, F, O> {
    /// Waits until the connection accepts the message. Handles acks meanwhile, and returns when the link breaks.
    pub(super) async fn hand_over(
        &mut self,
        token: u64,
        mut send: std::pin::Pin<&mut (impl Future<Output = std::result::Result<(), SendRejected>> + Send)>,
        tick: &mut Interval,
    ) -> Result<HandOver> {
        let sent = match send.as_mut().now_or_never() {
            Some(sent) => sent,
            None => loop {
                // A message that waits across a break would be written first on the next link.
                if self.silent() || !self.is_up() || self.conn.breaks() != self.link.breaks {
                    return Ok(HandOver::Not);
                }
                if self.tracker.get(token).is_none() {
                    return Ok(HandOver::Late);
                }
                self.report_in_flight();
                let message = tokio::select! {
                    biased;
                    sent = send.as_mut() => break sent,
                    message = self.ack_inbox.subscriber.next() => match message {
                        Some(message) => Some(message),
                        // An ended subscription stays ready for ever; the connection is closed.
                        None => return Ok(HandOver::Ended),
                    },
                    _ = tick.tick() => None,
                };
                self.now = Instant::now();
                match message {
                    Some(message) => self.on_reply(message),
                    // Silence ends all rows at once, so it is checked before single rows expire.
                    None if self.silent() => return Ok(HandOver::Not),
                    None => {
                        self.take_in()?;
                        self.expire();
                        self.results.flush();
                    }
                }
            },
        };
        Ok(match sent {
            Ok(()) => HandOver::Over,
            Err(SendRejected::LinkLost) => HandOver::Not,
            Err(refused) => HandOver::SendRejected(refused),
        })
    }

    pub(super) fn reply(&mut self, token: u64) -> Result<Subject> {
        let prefix = self.ack_inbox.prefix.len();
        write_token(token, &mut self.ack_inbox.prefix);
        let bytes = self.ack_inbox.arena.copy(&self.ack_inbox.prefix);
        self.ack_inbox.prefix.truncate(prefix);
        Subject::from_utf8(bytes).map_err(|_| JetError::Internal("reply subject".into()))
    }
}
