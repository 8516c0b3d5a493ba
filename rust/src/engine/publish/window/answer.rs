//! What an ack means.

use async_nats::{Message, StatusCode};
use futures_util::Stream;

use super::{Item, Outlet, Run};
use crate::engine::connection::token::read_token;
use crate::engine::publish::inflight::Sent;
use crate::engine::publish::puback;
use crate::error::Result;

impl<F: Stream<Item = Result<Item>> + Send + Unpin, O: Outlet> Run<'_, F, O> {
    pub(super) fn answer(&mut self, message: Message) {
        self.conn.traffic.received(self.verb, message.payload.len());
        let token = message.subject.as_bytes().get(self.inbox.len()..).and_then(read_token);
        let Some(sent) = token.and_then(|token| self.inflight.remove(token)) else { return };
        self.last_answer = self.now;
        if let Some(congestion) = &mut self.congestion {
            congestion.answered(sent.place, self.now, &self.conn.path, self.breaks);
        }
        if let Some((seq, duplicate)) = self.parser.quick(&message.payload) {
            self.unheard.heard(&sent);
            self.acked(&sent);
            self.outlet.stored(sent.row, self.parser.origin(), seq, duplicate);
        } else if message.status == Some(StatusCode::NO_RESPONDERS) {
            let sent = Sent { first: None, ..sent };
            if let Some(sent) = self.unheard.take(sent, self.now) {
                let error = self.unheard_error(&sent);
                self.outlet.failed(sent.row, error);
            }
        } else {
            match puback::parse(&message.payload) {
                Ok(ack) => {
                    self.acked(&sent);
                    self.parser.learn(&message.payload, &ack);
                    self.windows.note(&ack.stream);
                    self.outlet.stored_in_full(sent.row, ack);
                }
                Err(err) => self.outlet.failed(sent.row, err),
            }
        }
    }
    fn acked(&self, sent: &Sent) {
        if let Some(first) = sent.first {
            self.conn.traffic.acked(self.now.saturating_duration_since(first));
        }
    }
}
