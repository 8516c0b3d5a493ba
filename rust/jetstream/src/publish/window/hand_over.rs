//! Handing a message to the connection, which may have no room for it or reject it.

use futures_util::Stream;

use super::{PublishLoop, ResultSink, RowToPublish};
use crate::publish::ack_tracker::InFlightMessage;
use base::error::{JetError, Result};
use client::outbox::Outgoing;
use client::transport::SendRejected;
use wire::nats::Subject;
use wire::size::message_size;
use wire::token::write_token;

/// A message in the window that waits for room in the socket.
pub struct UnwrittenMessage {
    pub token: u64,
    /// Its size on the wire.
    pub bytes: usize,
    message: Outgoing,
    /// The link of the first try. A message that waits across a break would be written first on the next link.
    link: Option<u64>,
}

impl<F: Stream<Item = Result<RowToPublish>> + Send + Unpin, O: ResultSink> PublishLoop<'_, F, O> {
    /// Hands over a message that was not sent by copying it: there was no room, or its payload is large. Returns true
    /// if the next message can be sent.
    pub(super) fn hand_over(&mut self, token: u64) -> Result<bool> {
        let reply = Some(self.reply(token)?);
        let Some(sent) = self.tracker.get(token) else { return Ok(true) };
        let payload = sent.body.wire_payload(&mut self.ack_inbox.arena).unwrap_or_default();
        let message = Outgoing { subject: sent.body.subject(), reply, headers: sent.body.wire_headers(), payload };
        self.unwritten = Some(UnwrittenMessage { token, bytes: message_size(&message), message, link: None });
        Ok(self.write_unwritten())
    }

    /// Writes the message that waits for room. Returns true if none waits any more.
    pub(super) fn write_unwritten(&mut self) -> bool {
        let Some(unwritten) = &mut self.unwritten else { return true };
        if self.tracker.get(unwritten.token).is_none() {
            self.unwritten = None;
            return true;
        }
        match self.conn.client.try_publish(&unwritten.message, unwritten.bytes, &mut unwritten.link) {
            Ok(false) => return false,
            Ok(true) => self.unwritten = None,
            Err(SendRejected::LinkLost) => {
                let unsent = self.withdraw_unwritten();
                self.send_again(unsent);
                self.check_time_and_link();
                return false;
            }
            // A reconnect can lead to a server with a smaller limit than the one the rows were checked against.
            Err(SendRejected::TooLarge) => {
                if let Some(sent) = self.withdraw_unwritten() {
                    let (what, limit) = (sent.about(), self.conn.client.max_payload());
                    let size = sent.body.payload().map_or(0, <[u8]>::len);
                    self.results.failed(sent.row, JetError::MaxPayload { what, size, limit });
                }
            }
            Err(SendRejected::Closed) => self.connection_ended(),
        }
        true
    }

    /// Removes the message that waits for room from the window. This attempt was not written, so it is not stored.
    pub(super) fn withdraw_unwritten(&mut self) -> Option<InFlightMessage> {
        let sent = self.tracker.withdraw(self.unwritten.take()?.token)?;
        Some(InFlightMessage { first: sent.earlier, ..sent })
    }

    fn reply(&mut self, token: u64) -> Result<Subject> {
        let prefix = self.ack_inbox.prefix.len();
        write_token(token, &mut self.ack_inbox.prefix);
        let bytes = self.ack_inbox.arena.copy(&self.ack_inbox.prefix);
        self.ack_inbox.prefix.truncate(prefix);
        Subject::from_utf8(bytes).map_err(|_| JetError::Internal("reply subject".into()))
    }
}
