//! What an ack means.

use futures_util::Stream;

use super::{Item, Outlet, Run};
use crate::engine::connection::token::read_token;
use crate::engine::message::Message;
use crate::engine::publish::inflight::Sent;
use crate::engine::publish::puback;
use crate::error::{JetError, Result};

impl<F: Stream<Item = Result<Item>> + Send + Unpin, O: Outlet> Run<'_, F, O> {
    pub(super) fn answer(&mut self, message: Message) {
        self.conn.traffic.received(self.verb, message.payload().len());
        let token = message.subject_bytes().get(self.inbox.len()..).and_then(read_token);
        let known = token.and_then(|token| Some((token, self.inflight.group(token)?)));
        let Some((token, (group, again))) = known else {
            // It came twice, or late.
            return self.trust.shaken();
        };
        self.last_answer = self.now;
        if group.is_shared() {
            return self.answer_one_of(token, message.payload(), message.says_no_responders());
        }
        if let Some((seq, duplicate)) = self.parser.quick(message.payload()) {
            if !self.trust.takes(seq, duplicate) && again {
                return self.doubt(token, None);
            }
            let Some(sent) = self.take(token) else { return };
            self.acked(&sent);
            self.outlet.stored(sent.row, self.parser.origin(), seq, duplicate);
        } else if message.says_no_responders() {
            self.trust.shaken();
            if let Some(sent) = self.take(token) {
                self.met_nobody(sent);
            }
        } else {
            self.answer_in_full(token, again, message.payload());
        }
    }

    fn answer_in_full(&mut self, token: u64, again: bool, payload: &[u8]) {
        match puback::parse(payload) {
            Ok(ack) => {
                let known = self.parser.knows(&ack);
                let believed = known && self.trust.takes(ack.seq, ack.duplicate);
                if again && !believed {
                    return self.doubt(token, (!known).then_some(ack));
                }
                let Some(sent) = self.take(token) else { return };
                self.acked(&sent);
                if !known {
                    self.trust.begin_anew();
                }
                self.parser.learn(payload, &ack);
                self.windows.note(&ack.stream);
                self.outlet.stored_in_full(sent.row, ack);
            }
            // Whoever else answered.
            Err(JetError::Protocol { .. }) if again => self.doubt(token, None),
            Err(err) => {
                self.trust.shaken();
                if let Some(sent) = self.take(token) {
                    self.outlet.failed(sent.row, err);
                }
            }
        }
    }

    pub(super) fn met_nobody(&mut self, sent: Sent) {
        if let Some(sent) = self.unheard.take(Sent { first: None, ..sent }, self.now) {
            let error = self.unheard_error(&sent);
            self.outlet.failed(sent.row, error);
        }
    }

    /// The row that has its answer.
    fn take(&mut self, token: u64) -> Option<Sent> {
        let sent = self.inflight.answered(token)?;
        self.took(&sent);
        Some(sent)
    }

    pub(super) fn took(&mut self, sent: &Sent) {
        if let Some(congestion) = &mut self.congestion {
            congestion.answered(sent.place, self.now, &self.conn.path, self.breaks);
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
