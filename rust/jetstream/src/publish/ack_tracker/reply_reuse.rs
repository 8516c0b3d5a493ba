//! When reply subjects may be used again.
//!
//! Each stream has tokens of its own: a token is used again only for a message to the stream that acknowledged all
//! earlier messages of the token.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;
use tokio::time::{Duration, Instant};

use super::attribution::Claim;
use crate::publish::puback::{MAX_STREAMS, Origin};

/// Acknowledgements on fresh tokens, each in the order of its stream, after which tokens are used again; and how many of
/// them each stream must have. The tokens of these stay unused: a second answer to one of them shows that messages are
/// answered twice.
pub(super) const ACKS_BEFORE_REUSE: u32 = 512;
pub(super) const ACKS_OF_STREAM: u32 = 8;
/// Tokens of one stream that are in flight or may be used again. nats-server caches the routes of 1,024 subjects per
/// account (`slCacheMax`, server/sublist.go), and more subjects than that cost it 10 % more CPU
/// (benches/history/diary.md).
pub const REUSABLE_TOKENS: usize = 960;
/// The same of all streams. Each stream of the server has a cache of its own beside that of the account.
pub const MOST_REUSABLE_TOKENS: usize = 16_384;
/// Time without reuse of tokens on a connection after a reply to a message that had ended.
pub const SUSPENSION: Duration = Duration::from_secs(60);
/// Most subjects whose stream is remembered. Messages of others have fresh tokens.
const MAX_SUBJECTS: usize = 4_096;

/// The acknowledgements of a stream.
struct StreamAcks {
    origin: Arc<Origin>,
    /// The sequence that was acknowledged last.
    highest: u64,
    /// The highest one that ever was.
    peak: u64,
    /// Those on fresh tokens since the restart.
    fresh: u32,
    /// Slots whose token may be used again, the one that rested longest first.
    reusable: VecDeque<u32>,
}

/// A stream by its position.
pub type StreamIndex = usize;

#[derive(Default)]
pub struct ReplyReuse {
    streams: Vec<StreamAcks>,
    indices: HashMap<Arc<Origin>, StreamIndex, FxBuildHasher>,
    /// The stream that acknowledged last.
    last: StreamIndex,
    /// Streams that acknowledged since the restart.
    active: Vec<StreamIndex>,
    /// Acknowledgements in order on fresh tokens since the restart.
    in_order: u32,
    /// Subjects, and the stream that acknowledged a message of each: the subject used last, and all.
    subject: (String, StreamIndex),
    subjects: HashMap<String, StreamIndex, FxBuildHasher>,
    suspended: Option<Instant>,
    /// Tokens that may be used again.
    reusable: usize,
    /// Messages in flight whose claim is not void.
    pub claimed: usize,
}

impl ReplyReuse {
    /// Forgets the acknowledgements so far. Slots whose token could have been used again become spare.
    pub fn restart(&mut self, spare: &mut Vec<u32>) {
        for index in self.active.drain(..) {
            let stream = &mut self.streams[index];
            stream.fresh = 0;
            spare.extend(stream.reusable.drain(..));
        }
        (self.in_order, self.reusable) = (0, 0);
        self.subject.0.clear();
        self.subjects.clear();
    }

    /// False if it was suspended for as long already.
    pub fn suspend(&mut self, until: Instant) -> bool {
        let longer = self.suspended.is_none_or(|known| known < until);
        if longer {
            self.suspended = Some(until);
        }
        longer
    }

    fn is_suspended(&self, now: Instant) -> bool {
        self.suspended.is_some_and(|until| now < until)
    }

    /// Most tokens in turn with which reuse saves the server something.
    pub fn most_tokens(&self) -> usize {
        MOST_REUSABLE_TOKENS.min(REUSABLE_TOKENS * self.active.len().max(1))
    }

    /// The slot and the claim of a message that goes out now under a token that was used before. `None`: it needs a
    /// fresh one.
    pub fn claim(&mut self, subject: &str, now: Instant) -> Option<(u32, Claim)> {
        if self.reusable == 0 || self.is_suspended(now) {
            return None;
        }
        if self.subject.0 != subject {
            self.subject.1 = *self.subjects.get(subject)?;
            subject.clone_into(&mut self.subject.0);
        }
        let stream = self.streams.get_mut(self.subject.1)?;
        let slot = stream.reusable.pop_front()?;
        self.reusable -= 1;
        self.claimed += 1;
        Some((slot, Claim { origin: stream.origin.clone(), floor: stream.highest, void: false }))
    }

    /// The stream of this origin; `None` if there are too many.
    pub fn stream(&mut self, origin: &Arc<Origin>) -> Option<StreamIndex> {
        if self.streams.get(self.last).is_some_and(|stream| Arc::ptr_eq(&stream.origin, origin)) {
            return Some(self.last);
        }
        if let Some(index) = self.indices.get(origin) {
            return Some(*index);
        }
        if self.streams.len() == MAX_STREAMS {
            return None;
        }
        let (origin, reusable) = (origin.clone(), VecDeque::new());
        self.indices.insert(origin.clone(), self.streams.len());
        self.streams.push(StreamAcks { origin, highest: 0, peak: 0, fresh: 0, reusable });
        Some(self.streams.len() - 1)
    }

    /// True if the stream acknowledged no higher sequence, and no other stream a message of the subject.
    pub fn is_in_order(&self, stream: StreamIndex, seq: u64, subject: Option<&str>) -> bool {
        let known = subject.and_then(|subject| self.subjects.get(subject));
        seq > self.streams[stream].highest && known.is_none_or(|known| *known == stream)
    }

    /// Notes a plain acknowledgement, after a restart where it is not in order; with its subject if the token was fresh.
    /// Returns true if the token may be used again.
    pub fn acknowledged(&mut self, index: StreamIndex, seq: u64, subject: Option<&str>) -> bool {
        self.last = index;
        let stream = &mut self.streams[index];
        (stream.highest, stream.peak) = (seq, stream.peak.max(seq));
        let Some(subject) = subject else { return true };
        if stream.fresh == 0 {
            self.active.push(index);
        }
        stream.fresh = stream.fresh.saturating_add(1);
        self.in_order = self.in_order.saturating_add(1);
        let is_first = self.in_order <= ACKS_BEFORE_REUSE || stream.fresh <= ACKS_OF_STREAM;
        let mut is_known = self.subject.0 == subject || self.subjects.contains_key(subject);
        if !is_known && self.subjects.len() < MAX_SUBJECTS {
            self.subjects.insert(subject.to_owned(), index);
            is_known = true;
        }
        is_known && !is_first
    }

    /// Keeps a slot whose token may be used again. False if no token is used again now, or if enough of them are kept.
    pub fn keep(&mut self, slot: u32, moving: usize, now: Instant) -> bool {
        if moving + self.reusable >= self.most_tokens() || self.is_suspended(now) {
            return false;
        }
        // The stream that acknowledged it.
        self.streams[self.last].reusable.push_back(slot);
        self.reusable += 1;
        true
    }

    /// True if the sequence is above all that the stream acknowledged.
    pub fn is_new(&self, origin: &Origin, seq: u64) -> bool {
        self.indices.get(origin).is_none_or(|index| seq > self.streams[*index].peak)
    }
}
