//! Attribution of replies to messages.

use std::sync::Arc;

use tokio::time::Instant;

use super::{AckTracker, InFlightMessage, SUSPENSION};
use crate::publish::puback::Origin;

/// A parsed reply.
#[derive(Clone, Debug)]
pub enum AckReply<'a> {
    Ack {
        origin: &'a Arc<Origin>,
        seq: u64,
        duplicate: bool,
    },
    /// An error of JetStream, with the stream that it names.
    Rejected {
        stream: Option<&'a str>,
    },
    NoResponders,
    /// Any other payload: a service may subscribe to the subject too.
    Unreadable,
}

/// The condition that a reply on a reused token must fulfil.
pub struct Claim {
    /// The stream that takes messages of its subject.
    pub origin: Arc<Origin>,
    /// The highest sequence that the stream had acknowledged when the message was handed to the socket.
    pub floor: u64,
    /// A second stream acknowledges under the same name, so an acknowledgement proves nothing.
    pub void: bool,
}

impl Claim {
    /// True if the answer cannot belong to an earlier message of the token. Each of them ended with exactly one plain
    /// acknowledgement, at or below the floor; so this is no repetition of one, no rejection, and no "no responders".
    fn is_proven_by(&self, answer: &AckReply) -> bool {
        match answer {
            AckReply::Ack { origin, seq, duplicate } => {
                let same = Arc::ptr_eq(origin, &self.origin) || ***origin == *self.origin;
                same && !duplicate && *seq > self.floor && !self.void
            }
            AckReply::Rejected { stream } => *stream == Some(self.origin.stream.as_str()) && !self.void,
            AckReply::NoResponders => true,
            AckReply::Unreadable => false,
        }
    }
}

/// The outcome of an answer.
pub enum Attribution {
    /// It is the answer to this message, which is no longer in flight.
    Own(InFlightMessage),
    /// It may belong to an earlier message of the token. This one has an id and is no longer in flight: send it again.
    Resend(InFlightMessage),
    /// It may belong to an earlier message of the token. This one stays in flight and waits for its own.
    Ambiguous,
    /// The token has no message in flight: no token of the connection may be used again for `SUSPENSION`.
    Foreign,
}

impl AckTracker {
    /// Attributes a reply on a token.
    pub fn attribute(&mut self, token: Option<u64>, answer: &AckReply, now: Instant) -> Attribution {
        let Some(index) = token.and_then(|token| self.index(token)) else {
            self.note_foreign(token, answer, now);
            return Attribution::Foreign;
        };
        let slot = &mut self.slots[index];
        let fresh = slot.claim.is_none();
        if slot.claim.as_ref().is_some_and(|claim| !claim.is_proven_by(answer)) {
            return self.resend_or_wait(index);
        }
        let token = slot.token;
        let Some(sent) = self.release(index) else { return Attribution::Foreign };
        self.emptied = (self.len == 0).then_some(now);
        let plain = match answer {
            AckReply::Ack { origin, seq, duplicate: false } => {
                self.slots[index].acked = *seq;
                self.note_acknowledged(origin, *seq, fresh.then(|| sent.body.subject_text()))
            }
            // A rejection leaves the order of the other messages open.
            AckReply::Rejected { .. } => false,
            // A duplicate has any sequence, and a restored stream may continue with lower ones.
            AckReply::Ack { .. } | AckReply::NoResponders => {
                self.restart_reuse();
                false
            }
            // A service subscribes to the subject too; the stream's ack is still due.
            AckReply::Unreadable => {
                self.restart_reuse();
                self.expect_late_answer(token);
                false
            }
        };
        let valid = plain && token >> self.bits >= self.oldest_reusable;
        if !valid || !self.reuse.keep(index as u32, self.moving().0, now) {
            self.spare.push(index as u32);
        }
        Attribution::Own(sent)
    }

    /// Notes a plain acknowledgement, with its subject if the token was fresh. Returns true if the token may be used again.
    fn note_acknowledged(&mut self, origin: &Arc<Origin>, seq: u64, subject: Option<&str>) -> bool {
        let Some(stream) = self.reuse.stream(origin) else { return false };
        if !self.reuse.is_in_order(stream, seq, subject) {
            self.restart_reuse();
        }
        self.reuse.acknowledged(stream, seq, subject)
    }

    fn resend_or_wait(&mut self, index: usize) -> Attribution {
        self.restart_reuse();
        let slot = &mut self.slots[index];
        let Some(sent) = &mut slot.sent else { return Attribution::Foreign };
        sent.ambiguous = true;
        if !self.resends || !sent.body.has_id() {
            return Attribution::Ambiguous;
        }
        match self.remove_slot(index) {
            Some(sent) => Attribution::Resend(sent),
            None => Attribution::Foreign,
        }
    }

    fn note_foreign(&mut self, token: Option<u64>, answer: &AckReply, now: Instant) {
        if let AckReply::Ack { origin, seq, duplicate: false } = answer
            && !token.is_some_and(|token| self.unanswered.contains(&token))
        {
            let acked = token.and_then(|token| self.slot(token)).map(|(_, slot)| slot.acked);
            if acked.map_or_else(|| self.reuse.is_new(origin, *seq), |acked| *seq > acked) {
                self.void_claims(origin);
            }
        }
        self.suspend_reuse(now + SUSPENSION);
        self.restart_reuse();
    }

    /// Voids the claims on a stream name under which a second stream acknowledges.
    fn void_claims(&mut self, origin: &Origin) {
        if self.reuse.claimed == 0 {
            return;
        }
        let claims = self.slots.iter_mut().filter_map(|slot| slot.claim.as_mut());
        for claim in claims.filter(|claim| !claim.void && *claim.origin == *origin) {
            claim.void = true;
            self.reuse.claimed -= 1;
        }
    }
}
