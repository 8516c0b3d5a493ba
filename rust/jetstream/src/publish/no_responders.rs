//! Retries publishes that the server answered with 503 No Responders, because a stream has no leader during an
//! election.
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

/// Messages answered with 503 No Responders, by subject. Later messages of such a subject wait behind them; other
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
        (self.len, self.bytes) = (self.len + 1, self.bytes + sent.bytes);
        let next = if sent.tries == 0 { NextStep::Try(now + RETRY_INTERVAL) } else { NextStep::Ask };
        let group = self.groups.entry(subject).or_insert(SubjectGroup { rows: Vec::new(), next, tries: 0 });
        if group.next == NextStep::Heard(sent.place) {
            group.next = next;
        }
        group.tries = group.tries.max(sent.tries.saturating_add(1));
        group.rows.push(sent);
        None
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
mod tests {
    use super::*;
    use crate::publish::body::{Body, Single};

    fn sent(place: u64, subject: &str) -> InFlightMessage {
        let single = Single { subject: subject.into(), payload: "".into(), headers: None, timeout: None };
        let body = Body::Single(Box::new(single));
        InFlightMessage { bytes: 10, ..InFlightMessage::new(place, place, body, None) }
    }

    fn places(sent: impl IntoIterator<Item = InFlightMessage>) -> Vec<u64> {
        let mut places: Vec<_> = sent.into_iter().map(|sent| sent.place).collect();
        places.sort_unstable();
        places
    }

    /// Returns three held messages of one subject and their due list. They are out of order, as replies arrive.
    fn three(now: Instant) -> (NoResponders, Vec<InFlightMessage>) {
        let mut no_responders = NoResponders::default();
        for place in [3, 1, 2] {
            assert!(no_responders.hold_back(sent(place, "a"), now).is_none());
        }
        assert!(no_responders.due(now).is_empty());
        let mut due = no_responders.due(now + RETRY_INTERVAL);
        due.sort_unstable_by_key(|sent| sent.place);
        assert!(due.len() == 3 && no_responders.is_empty());
        (no_responders, due)
    }

    /// Returns the only message that may be sent.
    fn alone(no_responders: &mut NoResponders, due: Vec<InFlightMessage>) -> InFlightMessage {
        let mut first: Vec<_> = due.into_iter().filter_map(|sent| no_responders.hold(sent)).collect();
        assert_eq!(first.len(), 1);
        first.remove(0)
    }

    #[test]
    fn one_message_is_retried_and_the_others_follow_its_ack() {
        let now = Instant::now();
        let (mut no_responders, due) = three(now);
        let first = alone(&mut no_responders, due);
        assert_eq!((first.place, no_responders.len(), no_responders.bytes()), (1, 2, 20));
        assert!(no_responders.due(now + 2 * RETRY_INTERVAL).is_empty() && no_responders.question().is_none());
        // The link had no room for it at first. Later messages wait, and answers to others have no effect.
        let first = no_responders.hold(first).unwrap();
        assert!(no_responders.hold(sent(4, "a")).is_none() && no_responders.hold(sent(5, "b")).is_some());
        assert!(no_responders.heard(&sent(9, "a")).is_empty() && no_responders.heard(&sent(1, "b")).is_empty());
        assert_eq!(places(no_responders.heard(&first)), [2, 3, 4]);
        assert!(no_responders.hold(sent(6, "a")).is_some() && no_responders.is_empty() && no_responders.bytes() == 0);
    }

    #[test]
    fn second_no_responders_counts_for_all_messages_of_the_subject() {
        let now = Instant::now();
        let (mut no_responders, due) = three(now);
        let first = alone(&mut no_responders, due);
        assert!(no_responders.hold(sent(4, "a")).is_none());
        assert!(no_responders.hold_back(first, now).is_none());
        assert_eq!(no_responders.question().as_deref(), Some("a"));
        assert!(no_responders.question().is_none() && no_responders.answer("a", StreamLookup::Taken, now).0.is_empty());
        let due = no_responders.due(now + RETRY_INTERVAL);
        assert_eq!(due.iter().map(|sent| sent.tries).collect::<Vec<_>>(), [2; 4]);
    }

    #[test]
    fn only_messages_with_their_own_503_fail() {
        let now = Instant::now();
        let (mut no_responders, due) = three(now);
        let sent_once = |sent: InFlightMessage| InFlightMessage { sent_at: Some(now), ..sent };
        let first = alone(&mut no_responders, due.into_iter().map(sent_once).collect());
        assert!(no_responders.hold(sent(4, "a")).is_none() && no_responders.hold_back(first, now).is_none());
        assert_eq!(no_responders.question().as_deref(), Some("a"));
        let (failed, unsent) = no_responders.answer("a", StreamLookup::Nobody, now);
        assert_eq!((places(failed), places(unsent)), (vec![1, 2, 3], vec![4]));
        // A further message fails with its first 503 for one second. After that a stream may have been created.
        let late = now + WITHOUT_STREAM_TTL;
        assert!(no_responders.hold_back(sent_once(sent(5, "a")), late - Duration::from_millis(1)).is_some());
        assert!(no_responders.hold_back(sent_once(sent(6, "a")), late).is_none());
    }

    #[test]
    fn next_message_is_sent_if_the_first_ended_otherwise() {
        let now = Instant::now();
        let (mut no_responders, due) = three(now);
        let first = alone(&mut no_responders, due);
        let (mut inflight, mut again) = (AckTracker::new(8, true), VecDeque::from([first]));
        no_responders.recall(now, &inflight, &again);
        for first in again.drain(..) {
            inflight.sent(first, now);
        }
        no_responders.recall(now, &inflight, &again);
        assert!(no_responders.due(now).is_empty());
        inflight.on_disconnect();
        no_responders.recall(now, &inflight, &again);
        again.extend(no_responders.due(now));
        no_responders.recall(now, &inflight, &again);
        assert!(again.len() == 2 && no_responders.due(now).is_empty(), "they are at hand");
        // Messages whose timeout expired end here; earlier ones continue in order, whatever else is in flight.
        again.clear();
        inflight.sent(sent(9, "b"), now);
        assert!(no_responders.hold_back(sent(0, "a"), now).is_none());
        no_responders.recall(now, &inflight, &again);
        assert_eq!(places(no_responders.due(now)), [0]);
        no_responders.recall(now, &inflight, &again);
        assert!(no_responders.groups.is_empty());
    }
}
