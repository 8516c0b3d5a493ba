//! Replies to published messages.

use futures_util::Stream;

use super::{PublishLoop, ResultSink, RowToPublish};
use crate::publish::ack_tracker::{Effect, InFlightMessage, Reply, SUSPENSION};
use base::error::{JetError, Result};
use wire::message::Message;
use wire::token::read_token;

impl<F: Stream<Item = Result<RowToPublish>> + Send + Unpin, O: ResultSink> PublishLoop<'_, F, O> {
    /// Applies what a reply on the ack inbox means.
    pub(super) fn on_reply(&mut self, message: Message) {
        self.conn.traffic.received(self.verb, message.payload().len());
        let token = message.subject_bytes().get(self.ack_inbox.prefix.len()..).and_then(read_token);
        let reply = match message.says_no_responders() {
            true => Reply::NoResponders,
            false => Reply::Payload(message.payload()),
        };
        match self.tracker.on_reply(token, reply, self.now) {
            Effect::Stored { sent, seq, duplicate } => {
                self.note_answered(&sent);
                self.acked(&sent);
                self.results.stored(sent.row, self.tracker.origin(), seq, duplicate);
            }
            Effect::StoredInFull { sent, ack } => {
                self.note_answered(&sent);
                self.acked(&sent);
                self.duplicates.windows.note(&ack.stream);
                self.results.stored_in_full(sent.row, ack);
            }
            Effect::Rejected { sent, error } => {
                self.note_answered(&sent);
                match error.is_stream_busy() {
                    true => self.on_busy(sent, error),
                    false => self.results.failed(sent.row, error),
                }
            }
            Effect::NoResponders(sent) => {
                self.note_answered(&sent);
                self.on_no_responders(sent);
            }
            Effect::Resend(sent) => {
                self.last_answer = self.now;
                self.send_again(Some(sent));
            }
            Effect::Ambiguous => self.last_answer = self.now,
            Effect::Foreign => self.conn.path.suspend_reuse(self.now + SUSPENSION),
        }
    }

    /// The message has its answer: the server is not silent, and a round trip is measured.
    fn note_answered(&mut self, sent: &InFlightMessage) {
        self.last_answer = self.now;
        self.flow.on_answer(sent, self.now, &self.conn.path, self.link.breaks);
    }

    /// The server answered 503 No Responders: this attempt is not stored.
    pub(super) fn on_no_responders(&mut self, sent: InFlightMessage) {
        if let Some(sent) = self.no_responders.hold_back(InFlightMessage { first: sent.earlier, ..sent }, self.now) {
            let error = self.no_responders_error(&sent);
            self.results.failed(sent.row, error);
        }
    }

    /// The stream's queue is full: this attempt is not stored, and less may be in flight.
    fn on_busy(&mut self, sent: InFlightMessage, error: JetError) {
        self.flow.on_busy(self.tracker.len(), self.now);
        if let Some(sent) = self.no_responders.hold_busy(InFlightMessage { first: sent.earlier, ..sent }, self.now) {
            self.results.failed(sent.row, error);
        }
    }

    pub(super) fn acked(&mut self, sent: &InFlightMessage) {
        if !self.no_responders.is_idle() {
            let mut behind = self.no_responders.heard(sent);
            // The timeout of a batch's row begins when it is sent.
            let unsent = behind.iter_mut().filter(|sent| sent.sent_at.is_none());
            unsent.filter(|_| self.window.is_batch).for_each(|sent| sent.deadline = None);
            self.send_again(behind);
        }
        if let Some(first) = sent.first {
            self.conn.traffic.acked(self.now.saturating_duration_since(first));
        }
    }
}
