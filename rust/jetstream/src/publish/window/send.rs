//! Sending of messages: numbering, admission to the window, writing to the connection.

use std::time::Duration;

use futures_util::Stream;
use tokio::time::Instant;

use super::failures::ended_by;
use super::{PublishLoop, ResultSink, RowToPublish};
use crate::publish::ack_tracker::InFlightMessage;
use base::error::{JetError, Result};
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
}
