//! Only the last message of each subject: the state of a stream as it was at the range's end.
//!
//! A consumer with `last_per_subject` gives what is last when it is made, in order of sequence; what is stored from then
//! on it gives too, and that may be a later message of a subject that it has given. So the range ends at the stream's last
//! sequence once the consumer is there, and what was stored since it was asked for is looked through beforehand (stage
//! `Index`, headers only): of a subject in there, that last message is the one, and any before it is left out. Everything
//! below the end is still to come exactly once, and in order.
//!
//! Such a consumer cannot be made a second time when the stream has changed: then, and for an end in the past, the rest of
//! the range is indexed, and read as an ordinary range without what the index says is not a subject's last. The index has
//! some 50 bytes a subject, whatever the messages hold.
//!
//! Messages that are deleted during the read are left out. Where a later one took their place (`max_msgs_per_subject`,
//! a rollup) the subject would be missing: when the stream says that anything was deleted, what came after the end is
//! read too (stage `Replaced`), and a subject without a row gets it from there.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::consumer::Consumer;
use super::{Bound, ReadLoop, ReadStop};
use crate::api::{StreamInfo, StreamState};
use crate::receive::marker::KvOperation;
use crate::receive::pull::PULL_ROWS;
use crate::receive::rollback::Mark;
use base::error::{JetError, Loss, Result};
use wire::ack_subject::AckSubject;
use wire::message::Message;

/// Messages by which a replica of the stream, on which the consumer is, may be behind its leader.
const MOST_BEHIND: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Learns which message is its subject's last, from `next` to the end.
    Index,
    /// By a consumer that gives the last messages only.
    Lasts,
    /// All messages up to the end; which are the last is known.
    Range,
    /// What was stored after the end, for subjects whose message is gone.
    Replaced,
}

pub struct Latest {
    /// Deletion markers come too.
    markers: bool,
    /// The range ends in the past: nothing that came later has its place in it.
    past: bool,
    stage: Stage,
    /// Where the rows begin, while the stream is indexed.
    start: u64,
    /// The consumer of `Lasts`, made before the index.
    lasts: Option<Consumer>,
    /// The last sequence of each subject that was indexed.
    index: HashMap<Key, u64>,
    /// Subjects that have come.
    given: HashSet<Key>,
    hashers: [RandomState; 2],
    /// Messages in the stream when it was opened, and its last sequence.
    opened: (u64, u64),
    /// Messages that `Lasts` gave, and their bytes.
    came: (usize, usize),
    /// The server may have left out a message of `Lasts`.
    doubt: bool,
}

/// A subject. Two hashes of 64 bits: that two subjects have the same is beyond any stream.
type Key = (u64, u64);

impl Latest {
    pub fn new(markers: bool) -> Self {
        Latest {
            markers,
            past: false,
            stage: Stage::Lasts,
            start: 0,
            lasts: None,
            index: HashMap::new(),
            given: HashSet::new(),
            hashers: [RandomState::new(), RandomState::new()],
            opened: (0, 0),
            came: (0, 0),
            doubt: false,
        }
    }

    fn key(&self, subject: &str) -> Key {
        (self.hashers[0].hash_one(subject), self.hashers[1].hash_one(subject))
    }

    /// The consumer gives the last messages, and which comes next is not known.
    pub fn by_subject(&self) -> bool {
        self.stage == Stage::Lasts
    }

    /// No payload is looked at.
    pub fn headers_only(&self) -> bool {
        self.stage == Stage::Index
    }

    /// Ends where the consumer has no more, instead of at a sequence.
    pub fn open_end(&self) -> bool {
        self.stage == Stage::Replaced
    }

    /// How many messages to ask for at once, for about a quarter of `bytes`. The server forgets the last message that it
    /// has no room for in a request's `max_bytes` (it steps back by a sequence, which is not where such a consumer stands):
    /// that limit must not be reached, so the number grows with what is known of the messages.
    pub fn rows(&self, bytes: usize, largest: usize) -> usize {
        let (count, sum) = self.came;
        let mean = (sum / count.max(1)).max(1);
        (count * 2).max(bytes / largest).min(bytes / 4 / mean).clamp(1, PULL_ROWS)
    }

    /// A request has ended with less than it asked for. What was left out comes when the rest is read as a range.
    pub fn cut_short(&mut self) {
        self.doubt = true;
    }

    /// The consumer that waits for the index.
    pub fn parked(&mut self) -> Option<Consumer> {
        self.lasts.take()
    }

    /// Then the rows from `start` on, by the consumer that waits for it or else as a range.
    fn index_before(&mut self, start: u64, lasts: Option<Consumer>) {
        self.stage = Stage::Index;
        self.start = start;
        self.lasts = lasts;
        self.index.clear();
    }
}

impl ReadLoop {
    /// Fixes the end of the read: everything that is stored by now, or the point in the past that was asked for.
    pub(super) async fn open_latest(&mut self, info: &StreamInfo) -> Result<()> {
        let Some(latest) = &mut self.latest else { return Ok(()) };
        let StreamState { messages, first_seq, last_seq, .. } = info.state;
        latest.opened = (messages, last_seq);
        latest.past = !matches!(self.range.end, Bound::Open);
        if latest.past && self.end > 1 && first_seq > 1 && self.end <= first_seq {
            let loss = Loss { stream: self.range.stream.clone(), asked: (1, self.end), available: first_seq };
            return Err(JetError::DataLoss(Box::new(loss)));
        }
        if self.end <= last_seq {
            latest.index_before(self.next, None);
            return Ok(());
        }
        let made = self.make_consumer().await?;
        let after = self.stream_info().await?;
        if after.created != self.created {
            return Err(JetError::StreamRecreated { stream: self.range.stream.clone() });
        }
        let Some(latest) = &mut self.latest else { return Ok(()) };
        if !latest.past {
            latest.opened = (after.state.messages, after.state.last_seq);
            self.end = after.state.last_seq + 1;
        }
        // On the stream's leader the consumer knows all that was stored before it was asked for.
        let leads = info.cluster.replicas.is_empty() || made.cluster.leader == info.cluster.leader;
        let behind = if leads { 0 } else { MOST_BEHIND };
        let first = (last_seq + 1).saturating_sub(behind).max(self.next);
        if after.state.last_seq == last_seq && behind == 0 {
            if made.num_pending == 0 {
                // Made again when it is read, it says so again: then nothing is waited for.
                self.drop_consumer();
            }
        } else if latest.past {
            self.drop_consumer();
            self.index_rest();
        } else {
            latest.index_before(self.next, self.consumer.take());
            self.next = first;
        }
        Ok(())
    }

    /// What is left is read as an ordinary range.
    fn index_rest(&mut self) {
        let next = self.next;
        if let Some(latest) = &mut self.latest {
            latest.index_before(next, None);
        }
    }

    /// The read cannot go on with the consumer that it had.
    pub(super) async fn renew_latest(&mut self) -> Result<()> {
        let Some(latest) = &mut self.latest else { return Ok(()) };
        if latest.stage == Stage::Index && latest.lasts.is_some() {
            // Whether the consumer that waits lives on is not known.
            self.next = latest.start;
            self.index_rest();
        } else if latest.stage == Stage::Lasts {
            let (doubt, opened) = (latest.doubt, latest.opened);
            let changed = match self.stream_info().await {
                Ok(info) => (info.state.messages, info.state.last_seq) != opened,
                Err(err) if err.is_transient() => true,
                Err(err) => return Err(err),
            };
            if doubt || changed {
                self.index_rest();
            }
        }
        Ok(())
    }

    /// The stage has come to its end; false where that is the end of the read.
    pub(super) async fn next_stage(&mut self) -> Result<bool> {
        if !self.latest.as_ref().is_some_and(Latest::open_end) {
            self.drop_consumer();
        }
        let Some(latest) = &mut self.latest else { return Ok(false) };
        match latest.stage {
            Stage::Index => {
                self.next = latest.start;
                self.consumer = latest.lasts.take();
                latest.stage = if self.consumer.is_some() { Stage::Lasts } else { Stage::Range };
                Ok(true)
            }
            Stage::Lasts | Stage::Range if !latest.past => {
                let (messages, last) = latest.opened;
                let now = self.stream_info().await?.state;
                let deleted = (messages + now.last_seq.saturating_sub(last)).saturating_sub(now.messages);
                if deleted == 0 || now.last_seq < self.end || self.complete().await? {
                    return Ok(false);
                }
                if let Some(latest) = &mut self.latest {
                    latest.stage = Stage::Replaced;
                }
                (self.next, self.end) = (self.end, now.last_seq + 1);
                Ok(true)
            }
            Stage::Replaced => {
                let last = self.stream_info().await?.state.last_seq;
                self.end = last + 1;
                Ok(self.next <= last && !self.complete().await?)
            }
            _ => Ok(false),
        }
    }

    /// Whether all subjects have come. A value that is overwritten again and again may always be ahead of whoever reads
    /// after it, so their number is what tells.
    async fn complete(&self) -> Result<bool> {
        let given = self.latest.as_ref().map_or(0, |latest| latest.given.len() as u64);
        let mut there = 0;
        for filter in self.range.filters() {
            there += self.api().subjects(&self.range.stream, filter).await?;
        }
        Ok(given >= there)
    }

    /// What `accept` is for a range.
    pub(super) fn accept_latest(&mut self, message: &Message, meta: &AckSubject<'_>) -> Result<Option<ReadStop>> {
        let seq = meta.seq as u64;
        let Some(latest) = &mut self.latest else { return Ok(None) };
        latest.came = (latest.came.0 + 1, latest.came.1 + message.size());
        let dry = (meta.pending == 0).then_some(ReadStop::Dry);
        if seq < self.next {
            return Ok(dry);
        }
        if seq >= self.end && !latest.open_end() {
            self.next = self.end;
            return Ok(Some(ReadStop::End));
        }
        self.next = seq + 1;
        self.last = Some(Mark { seq, nanos: meta.nanos });
        let stop = if self.next >= self.end { Some(ReadStop::End) } else { dry };
        let key = latest.key(&message.subject());
        let wanted = match latest.stage {
            Stage::Index => {
                latest.index.insert(key, seq);
                false
            }
            Stage::Replaced => !latest.given.contains(&key),
            Stage::Lasts | Stage::Range => latest.index.get(&key).is_none_or(|last| *last == seq),
        };
        if !wanted {
            return Ok(stop);
        }
        if !latest.past {
            latest.given.insert(key);
        }
        if latest.markers || KvOperation::of(message.headers().as_ref()) == KvOperation::Put {
            self.keep(message, meta)?;
        }
        Ok(stop)
    }
}
