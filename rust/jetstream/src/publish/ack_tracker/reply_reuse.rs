//! When reply subjects may be used again.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::time::{Duration, Instant};

use super::attribution::Claim;
use crate::publish::puback::Origin;

/// Acknowledgements in order, all from one stream and on fresh tokens, before tokens are used again. More than
/// `REUSABLE_TOKENS`, so that a second answer to one of them arrives on a token that stays unused.
pub(super) const ACKS_BEFORE_REUSE: u32 = 1_024;
/// Tokens that are in flight or may be used again. nats-server caches the routes of 1,024 subjects per account
/// (`slCacheMax`, server/sublist.go), and more subjects than that cost it 10 % more CPU (benches/history/diary.md).
pub const REUSABLE_TOKENS: usize = 960;
/// Time without reuse of tokens on a connection after a reply to a message that had ended.
pub const SUSPENSION: Duration = Duration::from_secs(60);
/// Most subjects that are remembered as the stream's. Messages of others have fresh tokens.
const MAX_SUBJECTS: usize = 4_096;

#[derive(Default)]
pub struct ReplyReuse {
    /// The stream that acknowledged last.
    origin: Arc<Origin>,
    /// Acknowledgements in order.
    in_order: u32,
    /// The sequence that was acknowledged last.
    highest: u64,
    /// The highest one that ever was.
    peak: u64,
    /// Subjects of which a message was acknowledged by the stream: the last one, and all.
    subject: String,
    subjects: HashSet<String>,
    suspended: Option<Instant>,
    /// Messages in flight whose claim is not void.
    pub claimed: usize,
}

impl ReplyReuse {
    /// Forgets the acknowledgements so far.
    pub fn restart(&mut self) {
        self.in_order = 0;
        self.subject.clear();
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

    /// The claim of a message that goes out now under a token that was used before. `None`: it needs a fresh one.
    pub fn claim(&mut self, subject: &str, now: Instant) -> Option<Claim> {
        if self.in_order < ACKS_BEFORE_REUSE || self.suspended.is_some_and(|until| now < until) {
            return None;
        }
        if self.subject != subject {
            if !self.subjects.contains(subject) {
                return None;
            }
            subject.clone_into(&mut self.subject);
        }
        self.claimed += 1;
        Some(Claim { origin: self.origin.clone(), floor: self.highest, void: false })
    }

    /// True if an acknowledgement has the stream of those before, and a higher sequence.
    pub fn is_in_order(&self, origin: &Arc<Origin>, seq: u64) -> bool {
        seq > self.highest && (Arc::ptr_eq(origin, &self.origin) || **origin == *self.origin)
    }

    /// Notes a plain acknowledgement, after a restart where it is not in order.
    pub fn acknowledged(&mut self, origin: &Arc<Origin>, seq: u64) {
        if !Arc::ptr_eq(origin, &self.origin) {
            self.origin = origin.clone();
        }
        (self.highest, self.peak) = (seq, self.peak.max(seq));
        self.in_order = self.in_order.saturating_add(1);
    }

    /// Notes the subject of a message that the stream acknowledged on a fresh token.
    pub fn learn(&mut self, subject: &str) {
        if self.subject != subject {
            if !self.subjects.contains(subject) && self.subjects.len() < MAX_SUBJECTS {
                self.subjects.insert(subject.to_owned());
            }
            if self.subjects.contains(subject) {
                subject.clone_into(&mut self.subject);
            }
        }
    }

    /// True if the sequence is above all that were acknowledged.
    pub fn is_new(&self, seq: u64) -> bool {
        seq > self.peak
    }
}
