//! Sending of messages: numbering, admission to the window, writing to the connection.

use std::pin::pin;
use std::time::Duration;

use futures_util::Stream;
use tokio::time::{Instant, Interval};

use super::failures::ended_by;
use super::{HandOver, PublishLoop, ResultSink, RowToPublish};
use crate::publish::ack_tracker::InFlightMessage;
use base::error::{JetError, Result};
use client::outbox::Outgoing;
use client::transport::SendRejected;
use wire::token::write_token;

/// Numbers messages in the order in which they are published.
pub struct Sequencer {
    pub places: u64,
    pub timeout: Duration,
    pub is_batch: bool,
}

impl Sequencer {
    pub fn number(&mut self, (row, body): RowToPublish, now: Instant) -> InFlightMessage {
        self.places += 1;
        // The timeout of a publisher's message starts now, that of a row of a batch when it is sent.
        let deadline = (!self.is_batch).then(|| now + body.timeout().unwrap_or(self.timeout));
        InFlightMessage::new(row, self.places, body, deadline)
    }
}

impl<F: Stream<Item = Result<RowToPublish>> + Send + Unpin, O: ResultSink> PublishLoop<'_, F, O> {
    /// Sends or fails a message without waiting. Returns its token if it is in the window and not written yet.
    pub(super) fn send_now(&mut self, mut sent: InFlightMessage) -> Option<u64> {
        if let Some(cause) = self.terminal_error.as_ref().or(self.link.ack_inbox_error.as_ref()) {
            self.results.failed(sent.row, ended_by(&sent, cause));
            return None;
        }
        if let Some(window) = self.forgotten(&sent) {
            self.results.failed(sent.row, JetError::Forgotten { what: sent.about(), window });
            return None;
        }
        if self.tracker.is_empty() {
            // Nothing was in flight, so the server has not been silent.
            self.last_answer = self.now;
        }
        let Some(payload) = sent.body.payload().map(<[u8]>::len) else {
            let err = sent.body.no_payload(sent.row);
            self.results.failed(sent.row, err);
            return None;
        };
        if let Err(err) = sent.body.check(sent.row, self.conn.client.max_payload()) {
            self.results.failed(sent.row, err);
            return None;
        }
        sent.deadline = sent.deadline.or(Some(self.now + self.window.timeout));
        if sent.sent_at.is_some() {
            self.conn.traffic.resent(self.verb);
        }
        (sent.earlier, sent.sent_at) = (sent.first, Some(self.now));
        sent.first = sent.first.or(sent.sent_at);
        self.flow.on_sent(sent.place, self.tracker.moving().1, self.now);
        self.conn.traffic.sent(self.verb, payload);
        let token = self.tracker.sent(sent, self.now);
        let sent = self.tracker.get(token)?;
        let prefix = self.ack_inbox.prefix.len();
        write_token(token, &mut self.ack_inbox.prefix);
        let gone = sent.body.send_now(&self.conn.client, &self.ack_inbox.prefix, &mut self.ack_inbox.block);
        self.ack_inbox.prefix.truncate(prefix);
        (!gone).then_some(token)
    }

    /// Sends a message that must wait for room in the socket, or whose payload is too large to be copied. Returns false if the
    /// link broke or the server is silent.
    pub(super) async fn send_patiently(&mut self, token: u64, tick: &mut Interval) -> Result<bool> {
        let reply = Some(self.reply(token)?);
        let Some(sent) = self.tracker.get(token) else { return Ok(true) };
        let payload = sent.body.wire_payload(&mut self.ack_inbox.arena).unwrap_or_default();
        let message = Outgoing { subject: sent.body.subject(), reply, headers: sent.body.wire_headers(), payload };
        let client = &self.conn.client;
        // Polled directly: a select per message would cost as much as the message.
        self.handing = Some(token);
        let handed = self.hand_over(token, pin!(client.publish(message)), tick).await?;
        self.handing = None;
        match handed {
            HandOver::Over | HandOver::Late => Ok(true),
            HandOver::Not => {
                // This attempt was not written, so it is not stored.
                let back = self.tracker.withdraw(token).map(|sent| InFlightMessage { first: sent.earlier, ..sent });
                self.send_again(back);
                self.check_time_and_link();
                Ok(false)
            }
            // A reconnect can lead to a server with a smaller limit than the one the rows were checked against.
            HandOver::SendRejected(SendRejected::TooLarge) => {
                if let Some(sent) = self.tracker.withdraw(token) {
                    let (what, limit) = (sent.about(), self.conn.client.max_payload());
                    let size = sent.body.payload().map_or(0, <[u8]>::len);
                    self.results.failed(sent.row, JetError::MaxPayload { what, size, limit });
                }
                Ok(true)
            }
            HandOver::SendRejected(SendRejected::Closed | SendRejected::LinkLost) | HandOver::Ended => {
                self.connection_ended();
                Ok(true)
            }
        }
    }
}
