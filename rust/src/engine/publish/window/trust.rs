//! Whether an answer is that of the row for which its token stands now.
//!
//! Tokens are used again (`inflight`), and some answers come twice: a stream's old and new leader may both acknowledge a
//! message, and so may two JetStreams that take the same subject, of two domains; a service that listens there answers
//! beside them. The second answer must not be taken for that of the next row with this token, which may be lost. So tokens
//! are used again only after many acks of one stream in a row, and an answer to one of them is believed where that stream
//! has stored something that it had not acknowledged before. What is not believed is decided thus: a message with an id
//! is sent again, with a token of its own; any other waits for its own answer. An ack of another stream is taken for that
//! once no other has come for a while: the row may be for that stream.

use futures_util::Stream;
use tokio::time::Instant;

use super::{Item, Outlet, Run};
use crate::engine::publish::inflight::group::DECIDE;
use crate::engine::publish::puback::PubAck;
use crate::error::Result;

/// So many acks as they should be come before tokens are used again.
const FIRM: u32 = 1_024;
/// Sequences that are remembered: more than tokens that are used again.
const RECENT: usize = 2_048;

/// What one stream has acknowledged.
#[derive(Default)]
pub struct Trust {
    /// Acks since the last that was not as it should be.
    firm: u32,
    /// Rows have shared tokens since it was last unclear which row an answer was for, and how often it was.
    shared: bool,
    puzzles: u32,
    highest: u64,
    recent: Vec<u64>,
    next: usize,
}

impl Trust {
    /// Whether tokens may be used again.
    pub fn is_firm(&self) -> bool {
        self.firm >= FIRM
    }

    /// Something came that is not an ack of this stream, or came twice.
    pub fn shaken(&mut self) {
        self.firm = 0;
    }

    /// It was not clear which row an answer was for, although rows shared their reply subject only where it should be: that
    /// is done less and less.
    pub fn puzzled(&mut self) {
        self.firm = 0;
        if std::mem::take(&mut self.shared) {
            self.puzzles += 1;
        }
    }

    /// Whether rows may share tokens.
    pub fn shares(&mut self) -> bool {
        let shares = self.firm >> (2 * self.puzzles).min(8) >= FIRM;
        self.shared |= shares;
        shares
    }

    /// The acks of another stream follow.
    pub fn begin_anew(&mut self) {
        (self.firm, self.highest, self.next) = (0, 0, 0);
        self.recent.clear();
    }

    /// It is higher than all before.
    pub fn rises(&self, seq: u64) -> bool {
        seq > self.highest
    }

    /// Takes a sequence of the stream, and says whether it can be a new answer.
    pub fn takes(&mut self, seq: u64, duplicate: bool) -> bool {
        if seq > self.highest {
            self.highest = seq;
            self.firm = self.firm.saturating_add(1);
            self.remember(seq);
            return true;
        }
        // A stream's sequences rise; not those of duplicates, nor of acks that came by different ways.
        self.firm = 0;
        let forgotten = self.recent.len() == RECENT && seq < self.recent[self.next];
        let new = !self.recent.contains(&seq) && (duplicate || !forgotten);
        if new {
            self.remember(seq);
        }
        new
    }

    fn remember(&mut self, seq: u64) {
        if self.recent.len() < RECENT {
            self.recent.push(seq);
        } else {
            self.recent[self.next] = seq;
            self.next = (self.next + 1) % RECENT;
        }
    }
}

/// An ack of another stream than that of the rows before.
pub struct Doubt {
    token: u64,
    ack: PubAck,
    since: Instant,
}

impl<F: Stream<Item = Result<Item>> + Send + Unpin, O: Outlet> Run<'_, F, O> {
    /// An answer that may be that of an earlier row: of the stream in `ack`, where it is one.
    pub(super) fn doubt(&mut self, token: u64, ack: Option<PubAck>) {
        self.trust.shaken();
        self.inflight.close();
        let Some(sent) = self.inflight.at(token) else { return };
        if sent.body.has_id() && self.window.resend != Some(false) {
            let again = self.inflight.withdraw(token);
            self.send_again(again);
        } else if let Some(ack) = ack {
            self.doubts.push(Doubt { token, ack, since: self.now });
        }
    }

    /// Believes the acks that no other came after.
    pub(super) fn decide(&mut self) {
        let now = self.now;
        let due: Vec<_> = self.doubts.extract_if(.., |doubt| now.duration_since(doubt.since) >= DECIDE).collect();
        for token in self.inflight.puzzling(now) {
            self.ask_for_stored(token);
        }
        for Doubt { token, ack, .. } in due {
            if let Some(sent) = self.inflight.answered(token) {
                self.windows.note(&ack.stream);
                self.outlet.stored_in_full(sent.row, ack);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firm() -> Trust {
        let mut trust = Trust::default();
        assert!((1..=u64::from(FIRM)).all(|seq| !trust.is_firm() && trust.takes(seq, false)));
        assert!(trust.is_firm());
        trust
    }

    #[test]
    fn an_ack_that_comes_twice_is_known() {
        let last = u64::from(FIRM);
        for seq in [1, last - 1, last] {
            let mut trust = firm();
            assert!(!trust.takes(seq, false) && !trust.is_firm());
            assert!(trust.takes(last + 1, false) && !trust.is_firm());
        }
        // Long ago, too; a duplicate may be of any age.
        let mut trust = firm();
        assert!((last + 1..=5 * last).all(|seq| trust.takes(seq, false)));
        assert!(!trust.takes(7, false) && !trust.takes(9, false));
        assert!(trust.takes(8, true) && !trust.takes(8, true));
    }

    #[test]
    fn rows_share_less_after_each_time_that_it_was_unclear() {
        let mut trust = firm();
        let mut seq = u64::from(FIRM);
        let mut until_shared = |trust: &mut Trust| {
            let from = seq;
            while !trust.shares() {
                seq += 1;
                assert!(trust.takes(seq, false));
            }
            seq - from
        };
        assert_eq!(until_shared(&mut trust), 0);
        for more in [4, 16, 64, 256, 256] {
            // Many groups of one window are one time.
            (0..3).for_each(|_| trust.puzzled());
            assert_eq!(until_shared(&mut trust), more * u64::from(FIRM));
        }
    }

    #[test]
    fn one_that_was_overtaken_is_new() {
        let mut trust = firm();
        let last = u64::from(FIRM);
        assert!(trust.takes(last + 2, false) && trust.takes(last + 1, false));
        assert!(!trust.is_firm() && !trust.takes(last + 1, false));
        let mut trust = firm();
        trust.begin_anew();
        assert!(trust.takes(1, false) && !trust.is_firm());
    }
}
