//! The answers to published messages.

use futures_util::Stream;

use super::{Item, Outlet, Run};
use crate::publish::inflight::proof::{Answer, Proof};
use crate::publish::inflight::{SUSPENSION, Sent};
use crate::publish::puback::{self, Reading};
use base::error::{JetError, Result};
use wire::message::Message;
use wire::token::read_token;

impl<F: Stream<Item = Result<Item>> + Send + Unpin, O: Outlet> Run<'_, F, O> {
    pub(super) fn answer(&mut self, message: Message) {
        self.conn.traffic.received(self.verb, message.payload().len());
        let token = message.subject_bytes().get(self.inbox.len()..).and_then(read_token);
        if let Some((seq, duplicate)) = self.parser.quick(message.payload()) {
            let answer = Answer::Ack { origin: self.parser.origin(), seq, duplicate };
            let proof = self.inflight.answer(token, &answer, self.now);
            if let Some(sent) = self.proven(proof) {
                self.acked(&sent);
                self.outlet.stored(sent.row, self.parser.origin(), seq, duplicate);
            }
        } else if message.says_no_responders() {
            if let Some(sent) = self.prove(token, &Answer::NoResponders) {
                self.met_nobody(sent);
            }
        } else {
            self.answer_in_full(token, message.payload());
        }
    }

    fn answer_in_full(&mut self, token: Option<u64>, payload: &[u8]) {
        match puback::read(payload) {
            Reading::Ack(ack) => {
                let origin = self.parser.origin_of(&ack);
                let answer = Answer::Ack { origin: &origin, seq: ack.seq, duplicate: ack.duplicate };
                let Some(sent) = self.prove(token, &answer) else { return };
                self.acked(&sent);
                self.parser.learn(payload, &ack);
                self.windows.note(&ack.stream);
                self.outlet.stored_in_full(sent.row, ack);
            }
            Reading::Rejected { stream, error } => {
                let answer = Answer::Rejected { stream: stream.as_deref() };
                let Some(sent) = self.prove(token, &answer) else { return };
                // It was sent before, so the rejected attempt is not the only one that may be stored.
                let unknown = sent.earlier.is_some() && !sent.body.has_id();
                self.outlet.failed(sent.row, if unknown { JetError::Ambiguous { what: sent.about() } } else { error });
            }
            Reading::Unreadable(error) => {
                if let Some(sent) = self.prove(token, &Answer::Unreadable) {
                    self.outlet.failed(sent.row, error);
                }
            }
        }
    }

    /// The message that the answer belongs to.
    fn prove(&mut self, token: Option<u64>, answer: &Answer) -> Option<Sent> {
        let proof = self.inflight.answer(token, answer, self.now);
        self.proven(proof)
    }

    fn proven(&mut self, proof: Proof) -> Option<Sent> {
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
    pub(super) fn met_nobody(&mut self, sent: Sent) {
        if let Some(sent) = self.unheard.take(Sent { first: sent.earlier, ..sent }, self.now) {
            let error = self.unheard_error(&sent);
            self.outlet.failed(sent.row, error);
        }
    }

    pub(super) fn acked(&mut self, sent: &Sent) {
        if !self.unheard.is_idle() {
            let mut behind = self.unheard.heard(sent);
            // The time of one call's rows begins when they are sent.
            let unsent = behind.iter_mut().filter(|sent| sent.sent_at.is_none());
            unsent.filter(|_| self.window.one_call).for_each(|sent| sent.deadline = None);
            self.send_again(behind);
        }
        if let Some(first) = sent.first {
            self.conn.traffic.acked(self.now.saturating_duration_since(first));
        }
    }
}
