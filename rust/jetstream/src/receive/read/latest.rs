//! Reads only the last message of each subject: the state of a stream at the range's end.
//!
//! A consumer with `last_per_subject` returns the messages that are last at its creation, in order of sequence. It also
//! returns messages stored later, and these may be of subjects already returned. So the range ends at the stream's last
//! sequence after the consumer's creation. Messages stored since its request are indexed first (stage `Index`, headers
//! only). For subjects in the index only that last message counts. All messages below the end are then still to be
//! read, once each and in order.
//!
//! Such a consumer cannot be recreated after the stream has changed. Then, and for an end in the past, the rest of the
//! range is indexed. It is read as an ordinary range, without messages that are not the last of their subject. The
//! index takes about 50 bytes per subject, whatever the size of the messages.
//!
//! Messages deleted during the read are omitted. If a later message replaced one (`max_msgs_per_subject`, a rollup),
//! its subject would be missing. If the stream reports deletions, the messages after the end are read too (stage
//! `Replaced`), for subjects without a row.

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

/// Maximum number of messages by which the consumer's replica may lag behind the stream's leader.
const MOST_BEHIND: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Indexes the last message of each subject, from `next` to the end.
    Index,
    /// Reads from a consumer that returns only last messages.
    Lasts,
    /// Reads all messages up to the end, with a complete index.
    Range,
    /// Reads the messages stored after the end, for subjects whose message was deleted.
    Replaced,
}

pub struct Latest {
    /// Includes deletion markers.
    markers: bool,
    /// The range ends in the past, so later messages are not part of it.
    past: bool,
    stage: Stage,
    /// First sequence of the rows, while the stream is indexed.
    start: u64,
    /// Consumer of `Lasts`, created before the index.
    lasts: Option<Consumer>,
    /// Last sequence of each indexed subject.
    index: HashMap<Key, u64>,
    /// Subjects that were returned.
    given: HashSet<Key>,
    hashers: [RandomState; 2],
    /// Number of messages of the stream when it was opened, and its last sequence.
    opened: (u64, u64),
    /// Messages that `Lasts` returned, and their bytes.
    came: (usize, usize),
    /// The server may have omitted a message of `Lasts`.
    doubt: bool,
}

/// Hash of a subject: twice 64 bits, so that a collision is out of reach of any stream.
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

    /// True while the consumer returns last messages, so that the next sequence is unknown.
    pub fn by_subject(&self) -> bool {
        self.stage == Stage::Lasts
    }

    /// True if no payload is needed.
    pub fn headers_only(&self) -> bool {
        self.stage == Stage::Index
    }

    /// True if the read ends at the consumer's last message instead of at a sequence.
    pub fn open_end(&self) -> bool {
        self.stage == Stage::Replaced
    }

    /// Returns the number of messages of the next request, for about a quarter of `bytes`.
    ///
    /// The server skips the last message that exceeds a request's `max_bytes`: it steps back by one sequence, which is
    /// wrong for such a consumer. The limit must not be reached, so the number grows with the known sizes of the
    /// messages.
    pub fn rows(&self, bytes: usize, largest: usize) -> usize {
        let (count, sum) = self.came;
        let mean = (sum / count.max(1)).max(1);
        (count * 2).max(bytes / largest).min(bytes / 4 / mean).clamp(1, PULL_ROWS)
    }

    /// Records a request that ended early. Omitted messages are found when the rest is read as a range.
    pub fn cut_short(&mut self) {
        self.doubt = true;
    }

    /// Returns the consumer that waits for the index.
    pub fn parked(&mut self) -> Option<Consumer> {
        self.lasts.take()
    }

    /// Starts the index. The rows from `start` on follow, from the waiting consumer or as a range.
    fn index_before(&mut self, start: u64, lasts: Option<Consumer>) {
        self.stage = Stage::Index;
        self.start = start;
        self.lasts = lasts;
        self.index.clear();
    }
}

impl ReadLoop {
    /// Fixes the end of the read: the stream's current end, or the requested point in the past.
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
        // On the stream's leader the consumer has all messages stored before its request.
        let leads = info.cluster.replicas.is_empty() || made.cluster.leader == info.cluster.leader;
        let behind = if leads { 0 } else { MOST_BEHIND };
        let first = (last_seq + 1).saturating_sub(behind).max(self.next);
        if after.state.last_seq == last_seq && behind == 0 {
            if made.num_pending == 0 {
                // An empty consumer is recreated at the read and reports 0 pending again, so the read does not wait.
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

    /// Reads the rest as an ordinary range.
    fn index_rest(&mut self) {
        let next = self.next;
        if let Some(latest) = &mut self.latest {
            latest.index_before(next, None);
        }
    }

    /// Handles the loss of the read's consumer.
    pub(super) async fn renew_latest(&mut self) -> Result<()> {
        let Some(latest) = &mut self.latest else { return Ok(()) };
        if latest.stage == Stage::Index && latest.lasts.is_some() {
            // The waiting consumer may no longer exist.
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

    /// Moves to the next stage; false at the end of the read.
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

    /// True if all subjects were returned. A value that is overwritten repeatedly may stay ahead of the read, so only
    /// the number of subjects is conclusive.
    async fn complete(&self) -> Result<bool> {
        let given = self.latest.as_ref().map_or(0, |latest| latest.given.len() as u64);
        let mut there = 0;
        for filter in self.range.filters() {
            there += self.api().subjects(&self.range.stream, filter).await?;
        }
        Ok(given >= there)
    }

    /// Accepts a message, like `accept` for a range.
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
        self.stall = None;
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
