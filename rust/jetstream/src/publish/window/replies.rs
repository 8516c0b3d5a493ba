//! The answers to published messages.

use futures_util::Stream;

use super::{PublishLoop, ResultSink, RowToPublish};
use crate::publish::ack_tracker::proof::{AckReply, Proof};
use crate::publish::ack_tracker::{InFlightMessage, SUSPENSION};
use crate::publish::puback::{self, Reading};
use base::error::{JetError, Result};
use wire::message::Message;
use wire::token::read_token;

impl<F: Stream<Item = Result<RowToPublish>> + Send + Unpin, O: ResultSink> PublishLoop<'_, F, O> {
    pub(super) fn answer(&mut self, message: Message) {
        self.conn.traffic.received(self.verb, message.payload().len());
        let token = message.subject_bytes().get(self.inbox.len()..).and_then(read_token);
        if let Some((seq, duplicate)) = self.parser.quick(message.payload()) {
            let answer = AckReply::Ack { origin: self.parser.origin(), seq, duplicate };
            let proof = self.inflight.answer(token, &answer, self.now);
            if let Some(sent) = self.proven(proof) {
                self.acked(&sent);
                self.results.stored(sent.row, self.parser.origin(), seq, duplicate);
            }
        } else if message.says_no_responders() {
            if let Some(sent) = self.prove(token, &AckReply::NoResponders) {
                self.on_no_responders(sent);
            }
        } else {
            self.answer_in_full(token, message.payload());
        }
    }

    fn answer_in_full(&mut self, token: Option<u64>, payload: &[u8]) {
        match puback::read(payload) {
            Reading::Ack(ack) => {
                let origin = self.parser.origin_of(&ack);
                let answer = AckReply::Ack { origin: &origin, seq: ack.seq, duplicate: ack.duplicate };
                let Some(sent) = self.prove(token, &answer) else { return };
                self.acked(&sent);
                self.parser.learn(payload, &ack);
                self.windows.note(&ack.stream);
                self.results.stored_in_full(sent.row, ack);
            }
            Reading::Rejected { stream, error } => {
                let answer = AckReply::Rejected { stream: stream.as_deref() };
                let Some(sent) = self.prove(token, &answer) else { return };
                // It was sent before, so the rejected attempt is not the only one that may be stored.
                let unknown = sent.earlier.is_some() && !sent.body.has_id();
                self.results.failed(sent.row, if unknown { JetError::Ambiguous { what: sent.about() } } else { error });
            }
            Reading::Unreadable(error) => {
                if let Some(sent) = self.prove(token, &AckReply::Unreadable) {
                    self.results.failed(sent.row, error);
                }
            }
        }
    }

    /// The message that the answer belongs to.
    fn prove(&mut self, token: Option<u64>, answer: &AckReply) -> Option<InFlightMessage> {
        let proof = self.inflight.answer(token, answer, self.now);
        self.proven(proof)
    }

    fn proven(&mut self, proof: Proof) -> Option<InFlightMessage> {
        match proof {
            Proof::Own(sent) => {
                self.last_answer = self.now;
                self.last_answered = self.last_answered.max(sent.sent_at);
                if let Some(congestion) = &mut self.congestion {
                    congestion.answered(sent.place, self.now, &self.conn.path, self.breaks);
                }
                return Some(sent);
            }
            Proof::Resend(sent) => {
                self.last_answer = self.now;
                self.send_again(Some(sent));
            }
            Proof::Waits => self.last_answer = self.now,
            Proof::Stray => self.conn.path.suspend_reuse(self.now + SUSPENSION),
        }
        None
    }

    /// The server answered 503 No Responders: this attempt is not stored.
    pub(super) fn on_no_responders(&mut self, sent: InFlightMessage) {
        if let Some(sent) = self.no_responders.hold_back(InFlightMessage { first: sent.earlier, ..sent }, self.now) {
            let error = self.no_responders_error(&sent);
            self.results.failed(sent.row, error);
        }
    }

    pub(super) fn acked(&mut self, sent: &InFlightMessage) {
        if !self.no_responders.is_idle() {
            let mut behind = self.no_responders.heard(sent);
            // The time of one call's rows begins when they are sent.
            let unsent = behind.iter_mut().filter(|sent| sent.sent_at.is_none());
            unsent.filter(|_| self.window.is_batch).for_each(|sent| sent.deadline = None);
            self.send_again(behind);
        }
        if let Some(first) = sent.first {
            self.conn.traffic.acked(self.now.saturating_duration_since(first));
        }
    }
}
