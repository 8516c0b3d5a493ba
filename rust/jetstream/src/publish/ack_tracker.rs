//! Messages that were sent and have no answer yet, and which answers are theirs.
//!
//! Each message in flight has a reply subject of its own, named by a token. A server caches the routes of 1,024 reply
//! subjects, and an answer to a subject outside that cache costs it 0.5 µs more (of 3 to 4 µs a message of 128 B; with
//! 1,000 streams 12 µs more), so the tokens of a stream are used again while its acknowledgements arrive in order
//! (`reply_reuse`). A message with a fresh token owns the first answer on it. A message with a token that was used
//! before owns an answer only if the answer proves it (`attribution`). This is a state machine without I/O and without a
//! clock; `model` tests try to break it.

use std::collections::HashSet;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;
use tokio::time::{Duration, Instant};

use crate::publish::body::Body;
use crate::publish::puback::{AckParser, Origin};
use base::error::About;

pub mod attribution;
mod effect;
mod reply_reuse;

use attribution::Claim;
pub use effect::{Effect, Reply};
pub use reply_reuse::SUSPENSION;
use reply_reuse::{MOST_REUSABLE_TOKENS, ReplyReuse};

/// A message of the publish loop.
pub struct InFlightMessage {
    /// The number of its result.
    pub row: u64,
    /// Its position in publish order; numbers of results can be used again.
    pub place: u64,
    pub body: Body,
    /// Approximate size on the wire.
    pub bytes: usize,
    /// When it counts as unanswered.
    pub deadline: Option<Instant>,
    /// The first attempt that the server may have stored.
    pub first: Option<Instant>,
    /// The same without the attempt under way.
    pub earlier: Option<Instant>,
    /// The last attempt.
    pub sent_at: Option<Instant>,
    /// Number of answers "no responders".
    pub tries: u8,
    /// The queue of its stream was full at an attempt.
    pub busy: bool,
    /// An answer came on its token that may be that of an earlier message.
    pub ambiguous: bool,
    /// Messages that were sent much later have their answers: its stream does not answer.
    pub overtaken: bool,
}

impl InFlightMessage {
    /// A message that was not sent yet.
    pub fn new(row: u64, place: u64, body: Body, deadline: Option<Instant>) -> Self {
        InFlightMessage {
            row,
            place,
            bytes: body.size(),
            body,
            deadline,
            first: None,
            earlier: None,
            sent_at: None,
            tries: 0,
            busy: false,
            ambiguous: false,
            overtaken: false,
        }
    }

    /// Its name in errors.
    pub fn about(&self) -> About {
        self.body.about(self.row)
    }

    pub fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// Largest window. A token of 64 bits then still has room for billions of rounds.
const MAX_WINDOW: usize = 1 << 24;
/// With nothing in flight for as long, tokens are fresh: the stream may have been deleted and created again meanwhile,
/// and no refused message would have shown it. A restart costs 512 fresh tokens, a quarter of a millisecond of the server.
const IDLE_SLOT_AGE: Duration = Duration::from_millis(1);
/// Maximum number of unanswered tokens kept, to distinguish a late answer from a second one.
const MAX_UNANSWERED: usize = 4_096;

#[derive(Default)]
struct TrackerSlot {
    /// The token used last.
    token: u64,
    sent: Option<InFlightMessage>,
    /// Set if an earlier message had the same token.
    claim: Option<Claim>,
    /// The last sequence that was acknowledged on the token, or 0.
    acked: u64,
}

pub struct AckTracker {
    parser: AckParser,
    slots: Vec<TrackerSlot>,
    /// Slots that need a fresh token.
    spare: Vec<u32>,
    /// Tokens of messages that ended without an answer.
    unanswered: HashSet<u64, FxBuildHasher>,
    reuse: ReplyReuse,
    /// The last answer to the only message in flight.
    emptied: Option<Instant>,
    /// Rises with each fresh token.
    round: u64,
    /// Tokens of earlier rounds are not used again.
    oldest_reusable: u64,
    len: usize,
    bytes: usize,
    /// Those that were overtaken, and their bytes.
    overtaken: usize,
    overtaken_bytes: usize,
    window: usize,
    /// Bits of a token that number its slot.
    bits: u32,
    /// Messages with an id are sent again after an answer that proves nothing.
    resends: bool,
}

impl AckTracker {
    pub fn new(window: usize, resends: bool) -> Self {
        let window = window.clamp(1, MAX_WINDOW);
        // Each message in flight and each token that may be used again has a slot.
        let bits = (window + MOST_REUSABLE_TOKENS).next_power_of_two().trailing_zeros();
        AckTracker {
            parser: AckParser::default(),
            slots: Vec::new(),
            spare: Vec::new(),
            unanswered: HashSet::default(),
            reuse: ReplyReuse::default(),
            emptied: None,
            round: 0,
            oldest_reusable: 0,
            len: 0,
            bytes: 0,
            overtaken: 0,
            overtaken_bytes: 0,
            window,
            bits,
            resends,
        }
    }

    /// The slot of a token, if the token is the last one that it had.
    fn slot(&self, token: u64) -> Option<(usize, &TrackerSlot)> {
        let index = (token & ((1 << self.bits) - 1)) as usize;
        self.slots.get(index).filter(|slot| slot.token == token).map(|slot| (index, slot))
    }

    fn index(&self, token: u64) -> Option<usize> {
        self.slot(token).filter(|(_, slot)| slot.sent.is_some()).map(|(index, _)| index)
    }

    /// The stream of the last `Effect::Stored`.
    pub fn origin(&self) -> &Arc<Origin> {
        self.parser.origin()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn window(&self) -> usize {
        self.window
    }

    /// Bytes of all messages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Messages, and their bytes, that are on their way to a stream or back; those that were overtaken are not.
    pub fn moving(&self) -> (usize, usize) {
        (self.len - self.overtaken, self.bytes - self.overtaken_bytes)
    }

    /// Bytes of messages that were overtaken.
    pub fn overtaken_bytes(&self) -> usize {
        self.overtaken_bytes
    }

    /// Notes that the streams of all messages sent before then do not answer.
    pub fn mark_overtaken(&mut self, before: Instant) {
        let sent = self.slots.iter_mut().filter_map(|slot| slot.sent.as_mut());
        for sent in sent.filter(|sent| !sent.overtaken && sent.sent_at.is_some_and(|at| at < before)) {
            sent.overtaken = true;
            self.overtaken += 1;
            self.overtaken_bytes += sent.bytes;
        }
    }

    /// Adds a message just before it is handed to the socket, and returns its token. Call only while not full.
    pub fn sent(&mut self, mut sent: InFlightMessage, now: Instant) -> u64 {
        if self.len == 0 && self.emptied.is_some_and(|emptied| now.duration_since(emptied) >= IDLE_SLOT_AGE) {
            self.restart_reuse();
        }
        self.len += 1;
        self.bytes += sent.bytes;
        sent.ambiguous = false;
        // With more tokens in turn than the server caches, reuse gains nothing.
        if self.moving().0 <= self.reuse.most_tokens()
            && let Some((index, claim)) = self.reuse.claim(sent.body.subject_text(), now)
        {
            let slot = &mut self.slots[index as usize];
            (slot.sent, slot.claim) = (Some(sent), Some(claim));
            return slot.token;
        }
        let index = self.spare.pop().unwrap_or_else(|| {
            self.slots.push(TrackerSlot::default());
            (self.slots.len() - 1) as u32
        });
        self.round += 1;
        let token = self.round << self.bits | u64::from(index);
        self.slots[index as usize] = TrackerSlot { token, sent: Some(sent), claim: None, acked: 0 };
        token
    }

    /// The message that waits for an answer on this token.
    pub fn get(&self, token: u64) -> Option<&InFlightMessage> {
        self.slots[self.index(token)?].sent.as_ref()
    }

    /// True if the token's message has no answer and is late by now.
    pub fn is_late(&self, token: u64, now: Instant) -> bool {
        self.get(token).is_some_and(|sent| sent.is_late(now))
    }

    /// Removes a message that has no answer yet, and may get one later.
    pub fn withdraw(&mut self, token: u64) -> Option<InFlightMessage> {
        let index = self.index(token)?;
        self.restart_reuse();
        self.remove_slot(index)
    }

    /// Removes the messages that are wanted, which have no answer; in publish order.
    pub fn take_matching(&mut self, want: impl Fn(&InFlightMessage) -> bool) -> Vec<InFlightMessage> {
        let wanted = |slot: &TrackerSlot| slot.sent.as_ref().is_some_and(&want);
        let indices: Vec<_> = (0..self.slots.len()).filter(|index| wanted(&self.slots[*index])).collect();
        if !indices.is_empty() {
            self.restart_reuse();
        }
        let mut taken: Vec<_> = indices.into_iter().filter_map(|index| self.remove_slot(index)).collect();
        taken.sort_unstable_by_key(|sent| sent.place);
        taken
    }

    /// Removes the messages whose deadline has passed, in publish order.
    pub fn on_deadline(&mut self, now: Instant) -> Vec<InFlightMessage> {
        self.take_matching(|sent| sent.is_late(now))
    }

    /// Removes all messages, in publish order. Tokens are fresh from now on.
    pub fn on_disconnect(&mut self) -> Vec<InFlightMessage> {
        self.restart_reuse();
        self.take_matching(|_| true)
    }

    /// Removes the message of a slot without an answer.
    fn remove_slot(&mut self, index: usize) -> Option<InFlightMessage> {
        let sent = self.release(index)?;
        self.spare.push(index as u32);
        self.expect_late_answer(self.slots[index].token);
        Some(sent)
    }

    fn expect_late_answer(&mut self, token: u64) {
        if self.unanswered.len() == MAX_UNANSWERED {
            self.unanswered.clear();
        }
        self.unanswered.insert(token);
    }

    fn release(&mut self, index: usize) -> Option<InFlightMessage> {
        let slot = &mut self.slots[index];
        let mut sent = slot.sent.take()?;
        if std::mem::take(&mut sent.overtaken) {
            self.overtaken -= 1;
            self.overtaken_bytes -= sent.bytes;
        }
        if slot.claim.take().is_some_and(|claim| !claim.void) {
            self.reuse.claimed -= 1;
        }
        self.len -= 1;
        self.bytes -= sent.bytes;
        Some(sent)
    }

    /// Makes all further tokens fresh until acknowledgements have come in order for a while.
    pub fn restart_reuse(&mut self) {
        self.reuse.restart(&mut self.spare);
        self.oldest_reusable = self.round + 1;
    }

    /// Makes tokens fresh until then.
    pub fn suspend_reuse(&mut self, until: Instant) {
        if self.reuse.suspend(until) {
            self.restart_reuse();
        }
    }

    fn rows(&self) -> impl Iterator<Item = &InFlightMessage> {
        self.slots.iter().filter_map(|slot| slot.sent.as_ref())
    }

    /// Positions of all messages.
    pub fn places(&self) -> impl Iterator<Item = u64> {
        self.rows().map(|sent| sent.place)
    }

    /// The oldest of the messages that are wanted.
    pub fn find(&self, want: impl Fn(&InFlightMessage) -> bool) -> Option<&InFlightMessage> {
        self.rows().filter(|sent| want(sent)).min_by_key(|sent| sent.place)
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
