//! Retries publishes that the server answered with 503 No Responders, because a stream has no leader during an
//! election, or with 429, because a stream's queue is full.
//!
//! Each message is resent after 250 ms. After a second 503 the JetStream API is asked for the subject's stream. Without
//! a stream the message fails; otherwise it is retried until its timeout.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::api::Api;
use crate::publish::ack_tracker::{AckTracker, InFlightMessage};
use base::error::JetError;
use client::Connection;

/// Interval between two attempts at a subject without responders.
pub const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Number of resends if the JetStream API does not answer the lookup either.
const MAX_UNCLEAR_RETRIES: u8 = 2;
/// Timeout of the lookup. During an election of the whole cluster it is not answered.
const STREAM_LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of subjects cached as having no stream, and the time to live: a stream may be created at any time.
const MAX_WITHOUT_STREAM: usize = 1_024;
const WITHOUT_STREAM_TTL: Duration = Duration::from_secs(1);

/// Result of a lookup whether a stream stores a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamLookup {
    /// A stream stores it, or the API is unavailable too.
    Taken,
    Nobody,
    /// The lookup was denied or answered with 503 No Responders.
    Unclear,
}

impl StreamLookup {
    pub async fn ask(conn: &Connection, prefix: &str, subject: &str) -> StreamLookup {
        match timeout(STREAM_LOOKUP_TIMEOUT, Api::new(conn, prefix).stream_of(subject)).await {
            Ok(Err(JetError::NoStream { .. })) => StreamLookup::Nobody,
            Ok(Err(JetError::NoResponders { .. })) => StreamLookup::Unclear,
            Ok(Err(err)) if !err.is_transient() => StreamLookup::Unclear,
            _ => StreamLookup::Taken,
        }
    }

    fn is_end(self, tries: u8) -> bool {
        match self {
            StreamLookup::Taken => false,
            StreamLookup::Nobody => true,
            StreamLookup::Unclear => tries >= MAX_UNCLEAR_RETRIES,
        }
    }
}

/// Retry state of a single message, or of the start of a batch.
pub struct NoResponderRetry<'a> {
    pub conn: &'a Connection,
    pub prefix: &'a str,
    pub deadline: Instant,
    tries: u8,
}

impl<'a> NoResponderRetry<'a> {
    pub fn new(conn: &'a Connection, prefix: &'a str, deadline: Instant) -> Self {
        NoResponderRetry { conn, prefix, deadline, tries: 0 }
    }

    /// Waits for the next attempt; false if none is worthwhile.
    pub async fn more(&mut self, subject: &str) -> bool {
        if Instant::now() + RETRY_INTERVAL >= self.deadline {
            return false;
        }
        if self.tries > 0 && StreamLookup::ask(self.conn, self.prefix, subject).await.is_end(self.tries) {
            return false;
        }
        self.tries = self.tries.saturating_add(1);
        sleep(RETRY_INTERVAL).await;
        true
    }

    /// Builds the final error: no stream stores the subject, or its leader was not elected in time.
    pub fn error(&self, subject: String, after: Duration) -> JetError {
        let late = Instant::now() + RETRY_INTERVAL >= self.deadline;
        if late && self.tries > 1 { JetError::NoLeader { subject, after } } else { JetError::NoStream { subject } }
    }
}

/// Next step for the messages of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    Try(Instant),
    /// A lookup of the subject's stream is due.
    Ask,
    Answer,
    /// The first message is sent alone. Several in flight would lose their order if the stream became available between
    /// them.
    First,
    /// The message at this place is in flight.
    Heard(u64),
}

struct SubjectGroup {
    rows: Vec<InFlightMessage>,
    next: NextStep,
    /// Number of 503 answers.
    tries: u8,
}

impl SubjectGroup {
    fn leave(&mut self, which: impl Fn(&InFlightMessage) -> bool) -> Vec<InFlightMessage> {
        let tries = self.tries;
        let leave = self.rows.extract_if(.., |sent| which(sent));
        // The first message was tried on behalf of all.
        leave.map(|sent| InFlightMessage { tries: sent.tries.max(tries), ..sent }).collect()
    }
}

/// Messages answered with 503 No Responders or 429, by subject. Later messages of such a subject wait behind them; other
/// subjects continue.
#[derive(Default)]
pub struct NoResponders {
    groups: HashMap<String, SubjectGroup>,
    len: usize,
    bytes: usize,
    /// Subjects without a stream, with the end of the cache entry. A further message fails with its first 503.
    without_stream: HashMap<String, Instant>,
}

impl NoResponders {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if no subject has state.
    pub fn is_idle(&self) -> bool {
        self.groups.is_empty() && self.without_stream.is_empty()
    }

    /// Holds a message that was answered with 503. Returns it if no retry follows.
    pub fn hold_back(&mut self, sent: InFlightMessage, now: Instant) -> Option<InFlightMessage> {
        let subject = sent.body.subject().to_string();
        let late = sent.deadline.is_some_and(|deadline| deadline <= now + RETRY_INTERVAL);
        if late || self.without_stream.get(&subject).is_some_and(|until| now < *until) {
            return Some(sent);
        }
        let next = if sent.tries == 0 { NextStep::Try(now + RETRY_INTERVAL) } else { NextStep::Ask };
        let tries = sent.tries.saturating_add(1);
        self.push(sent, subject, next, tries);
        None
    }

    /// Holds a message whose stream is too busy to store it. Returns it if no retry follows.
    pub fn hold_busy(&mut self, sent: InFlightMessage, now: Instant) -> Option<InFlightMessage> {
        if sent.deadline.is_some_and(|deadline| deadline <= now + RETRY_INTERVAL) {
            return Some(sent);
        }
        let (subject, tries) = (sent.body.subject().to_string(), sent.tries);
        self.push(InFlightMessage { busy: true, ..sent }, subject, NextStep::Try(now + RETRY_INTERVAL), tries);
        None
    }

    fn push(&mut self, sent: InFlightMessage, subject: String, next: NextStep, tries: u8) {
        (self.len, self.bytes) = (self.len + 1, self.bytes + sent.bytes);
        let group = self.groups.entry(subject).or_insert(SubjectGroup { rows: Vec::new(), next, tries: 0 });
        if group.next == NextStep::Heard(sent.place) {
            group.next = next;
        }
        group.tries = group.tries.max(tries);
        group.rows.push(sent);
    }

    /// Holds a message that would overtake others of its subject; returns any other.
    pub fn hold(&mut self, sent: InFlightMessage) -> Option<InFlightMessage> {
        let Some(group) = self.groups.get_mut(sent.body.subject().as_str()) else { return Some(sent) };
        if group.next == NextStep::First {
            group.next = NextStep::Heard(sent.place);
        }
        if group.next == NextStep::Heard(sent.place) {
            return Some(sent);
        }
        (self.len, self.bytes) = (self.len + 1, self.bytes + sent.bytes);
        group.rows.push(sent);
        None
    }

    /// Records an answer of a stream: returns the messages that waited behind this one.
    pub fn heard(&mut self, sent: &InFlightMessage) -> Vec<InFlightMessage> {
        let subject = sent.body.subject();
        self.without_stream.remove(subject.as_str());
        match self.groups.get(subject.as_str()) {
            Some(group) if group.next == NextStep::Heard(sent.place) => {}
            _ => return Vec::new(),
        }
        let behind = self.groups.remove(subject.as_str()).map_or_else(Vec::new, |mut group| group.leave(|_| true));
        self.forget(&behind);
        behind
    }

    /// Finds first messages that ended in another way than by an answer, and lets the next ones follow.
    pub fn recall(&mut self, now: Instant, inflight: &AckTracker, again: &VecDeque<InFlightMessage>) {
        if !self.groups.values().any(|group| matches!(group.next, NextStep::First | NextStep::Heard(_))) {
            return;
        }
        let places: HashSet<_> = inflight.places().chain(again.iter().map(|sent| sent.place)).collect();
        let subjects: HashSet<_> = again.iter().map(|sent| sent.body.subject().to_string()).collect();
        self.groups.retain(|subject, group| {
            let under_way = match group.next {
                NextStep::Heard(place) => places.contains(&place),
                NextStep::First => subjects.contains(subject),
                _ => return true,
            };
            if !under_way {
                group.next = NextStep::Try(now);
            }
            under_way || !group.rows.is_empty()
        });
    }

    /// Returns a subject whose stream is to be looked up.
    pub fn question(&mut self) -> Option<String> {
        let (subject, group) = self.groups.iter_mut().find(|(_, group)| group.next == NextStep::Ask)?;
        group.next = NextStep::Answer;
        Some(subject.clone())
    }

    /// Handles a lookup's result. Returns the failed messages, each of which got a 503 itself, and the unsent ones that
    /// waited behind them.
    pub fn answer(
        &mut self,
        subject: &str,
        verdict: StreamLookup,
        now: Instant,
    ) -> (Vec<InFlightMessage>, Vec<InFlightMessage>) {
        let Some(group) = self.groups.get_mut(subject) else { return Default::default() };
        if !verdict.is_end(group.tries) {
            group.next = NextStep::Try(now + RETRY_INTERVAL);
            return Default::default();
        }
        self.without_stream.retain(|_, until| now < *until);
        if self.without_stream.len() < MAX_WITHOUT_STREAM {
            self.without_stream.insert(subject.to_owned(), now + WITHOUT_STREAM_TTL);
        }
        let rows = self.groups.remove(subject).map_or_else(Vec::new, |group| group.rows);
        self.forget(&rows);
        rows.into_iter().partition(|sent| sent.sent_at.is_some())
    }

    /// Returns the messages that are due. `hold` then lets only the first of each subject pass.
    pub fn due(&mut self, now: Instant) -> Vec<InFlightMessage> {
        let mut due = Vec::new();
        for group in self.groups.values_mut() {
            if matches!(group.next, NextStep::Try(at) if at <= now) {
                group.next = NextStep::First;
                due.extend(group.leave(|_| true));
            }
        }
        self.forget(&due);
        due
    }

    pub fn take_all(&mut self) -> Vec<InFlightMessage> {
        (self.len, self.bytes) = (0, 0);
        self.groups.drain().flat_map(|(_, mut group)| group.leave(|_| true)).collect()
    }

    /// Returns the messages whose timeout has expired.
    pub fn expire(&mut self, now: Instant) -> Vec<InFlightMessage> {
        let late: Vec<_> = self.groups.values_mut().flat_map(|group| group.leave(|sent| sent.is_late(now))).collect();
        self.forget(&late);
        late
    }

    fn forget(&mut self, gone: &[InFlightMessage]) {
        self.len -= gone.len();
        self.bytes -= gone.iter().map(|sent| sent.bytes).sum::<usize>();
    }
}

#[cfg(test)]
mod tests;
