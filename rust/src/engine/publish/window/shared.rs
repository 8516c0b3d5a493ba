//! Answers to rows that share a token.
//!
//! Which row an answer is for it does not say. Where each row's has come, all of them acks of the stream that took the rows
//! before, each with a higher sequence than all before it, every row is stored, and in their order: a stream takes what
//! comes over one connection one after the other. The same holds where none of them is an ack: nothing is stored.
//! Whatever else comes is decided by what the stream has under the sequences of the acks.

use futures_util::Stream;

use super::{Item, Outlet, Run};
use crate::engine::publish::inflight::Sent;
use crate::engine::publish::inflight::group::{Answer, Heard};
use crate::engine::publish::puback;
use crate::error::{JetError, Result};

impl<F: Stream<Item = Result<Item>> + Send + Unpin, O: Outlet> Run<'_, F, O> {
    pub(super) fn answer_one_of(&mut self, token: u64, payload: &[u8], nobody: bool) {
        let answer = if nobody { Some(Answer::Nobody) } else { self.read_answer(payload) };
        if !answer.as_ref().is_some_and(Answer::is_plain) {
            self.trust.shaken();
        }
        if let Some(heard) = answer.and_then(|answer| self.inflight.hear(token, answer, self.now)) {
            self.go_on(token, heard);
        }
    }

    /// `None`: it is the answer to none of the rows.
    fn read_answer(&mut self, payload: &[u8]) -> Option<Answer> {
        if let Some((seq, duplicate)) = self.parser.quick(payload) {
            let plain = self.is_in_turn(seq, duplicate)?;
            let origin = self.parser.origin();
            return Some(match plain {
                true => Answer::Stored(seq, origin.clone()),
                false => Answer::Odd(Box::new(origin.ack(seq, duplicate))),
            });
        }
        match puback::parse(payload) {
            Ok(ack) if self.parser.knows(&ack) => Some(match self.is_in_turn(ack.seq, ack.duplicate)? {
                true => Answer::StoredInFull(Box::new(ack), self.parser.origin().clone()),
                false => Answer::Odd(Box::new(ack)),
            }),
            Ok(ack) => Some(Answer::Foreign(Box::new(ack))),
            // Whoever else answered.
            Err(JetError::Protocol { .. }) => None,
            Err(err) => Some(Answer::Failed(Box::new(err))),
        }
    }

    /// An ack of the stream that took the rows before. `None`: a stream stores one message under a sequence, and another row
    /// has this one.
    fn is_in_turn(&mut self, seq: u64, duplicate: bool) -> Option<bool> {
        let rises = self.trust.rises(seq);
        let new = self.trust.takes(seq, duplicate);
        (new || duplicate).then_some(rises && !duplicate)
    }

    pub(super) fn go_on(&mut self, token: u64, heard: Heard) {
        match heard {
            Heard::Some => {}
            Heard::All => self.settle(token),
            Heard::Unclear => self.ask_for_stored(token),
        }
    }

    /// Each row of the token has its answer.
    fn settle(&mut self, token: u64) {
        let Some(mut group) = self.inflight.settled(token) else { return };
        for (sent, answer) in group.rows.drain(..).zip(group.answers.drain(..)) {
            self.end(sent, answer);
        }
        self.inflight.keep(token, group);
    }

    /// This answer is this row's.
    pub(super) fn end(&mut self, sent: Sent, answer: Answer) {
        self.took(&sent);
        match answer {
            Answer::Stored(seq, origin) => {
                self.acked(&sent);
                self.outlet.stored(sent.row, &origin, seq, false);
            }
            Answer::StoredInFull(ack, _) | Answer::Odd(ack) | Answer::Foreign(ack) => {
                self.acked(&sent);
                self.windows.note(&ack.stream);
                self.outlet.stored_in_full(sent.row, *ack);
            }
            Answer::Nobody => self.met_nobody(sent),
            Answer::Failed(err) => self.outlet.failed(sent.row, *err),
        }
    }
}
