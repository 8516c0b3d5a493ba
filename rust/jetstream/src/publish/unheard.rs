//! Messages that met no stream just now. A stream is away while its leader is elected: each is sent again a quarter of a
//! second later, and where nobody answers then either JetStream is asked whether a stream takes the subject. Where none
//! does it has its error; where one does it is tried until its time is over.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::api::Api;
use crate::publish::inflight::{Inflight, Sent};
use base::error::JetError;
use client::Connection;

/// How long is waited before a message is sent again to a subject that nobody takes.
pub const PAUSE: Duration = Duration::from_millis(250);
/// How often it is sent again where JetStream does not answer the question either.
const RETRIES: u8 = 2;
/// How long the answer may take. During an election of the whole cluster there is none.
const ASK: Duration = Duration::from_secs(2);
/// Maximum number of subjects cached as having no stream, and for how long: a stream may be created any time.
const MAX_WITHOUT_STREAM: usize = 1_024;
const WITHOUT_STREAM: Duration = Duration::from_secs(1);

/// Whether a stream takes a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One does, or whoever would know is away too.
    Taken,
    Nobody,
    /// The question was not let through, or nobody listens.
    Unclear,
}

impl Verdict {
    pub async fn ask(conn: &Connection, prefix: &str, subject: &str) -> Verdict {
        match timeout(ASK, Api::new(conn, prefix).stream_of(subject)).await {
            Ok(Err(JetError::NoStream { .. })) => Verdict::Nobody,
            Ok(Err(JetError::NoResponders { .. })) => Verdict::Unclear,
            Ok(Err(err)) if !err.is_transient() => Verdict::Unclear,
            _ => Verdict::Taken,
        }
    }

    fn is_end(self, tries: u8) -> bool {
        match self {
            Verdict::Taken => false,
            Verdict::Nobody => true,
            Verdict::Unclear => tries >= RETRIES,
        }
    }
}

/// The same for what is sent as a whole: one message, or the beginning of a batch.
pub struct Patience<'a> {
    pub conn: &'a Connection,
    pub prefix: &'a str,
    pub deadline: Instant,
    tries: u8,
}

impl<'a> Patience<'a> {
    pub fn new(conn: &'a Connection, prefix: &'a str, deadline: Instant) -> Self {
        Patience { conn, prefix, deadline, tries: 0 }
    }

    /// Waits, and is true where it is worth to try once more.
    pub async fn more(&mut self, subject: &str) -> bool {
        if Instant::now() + PAUSE >= self.deadline {
            return false;
        }
        if self.tries > 0 && Verdict::ask(self.conn, self.prefix, subject).await.is_end(self.tries) {
            return false;
        }
        self.tries = self.tries.saturating_add(1);
        sleep(PAUSE).await;
        true
    }

    /// Why there is no more: nobody takes the subject, or who takes it did not come back in time.
    pub fn error(&self, subject: String, after: Duration) -> JetError {
        let late = Instant::now() + PAUSE >= self.deadline;
        if late && self.tries > 1 { JetError::NoLeader { subject, after } } else { JetError::NoStream { subject } }
    }
}

/// What the messages of a subject wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Try(Instant),
    /// It is to be found out first whether any stream takes the subject.
    Ask,
    Answer,
    /// The first of them that comes along goes by itself: all of them together would not keep their order where the
    /// stream comes back while they are on their way.
    First,
    /// It has this place, and is on its way.
    Heard(u64),
}

struct Group {
    rows: Vec<Sent>,
    next: Next,
    /// How often nobody was there.
    tries: u8,
}

impl Group {
    fn leave(&mut self, which: impl Fn(&Sent) -> bool) -> Vec<Sent> {
        let tries = self.tries;
        let leave = self.rows.extract_if(.., |sent| which(sent));
        // The first one was tried for all.
        leave.map(|sent| Sent { tries: sent.tries.max(tries), ..sent }).collect()
    }
}

/// By subject: what is published to it meanwhile waits behind, and messages of other subjects go on.
#[derive(Default)]
pub struct Unheard {
    groups: HashMap<String, Group>,
    len: usize,
    bytes: usize,
    /// Subjects that no stream takes, and until when that is believed: a further message fails with its first answer "no
    /// responders".
    without_stream: HashMap<String, Instant>,
}

impl Unheard {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Nothing is known of any subject.
    pub fn is_idle(&self) -> bool {
        self.groups.is_empty() && self.without_stream.is_empty()
    }

    /// Takes a message that nobody heard. It comes back where no more is to be tried.
    pub fn take(&mut self, sent: Sent, now: Instant) -> Option<Sent> {
        let subject = sent.body.subject().to_string();
        let late = sent.deadline.is_some_and(|deadline| deadline <= now + PAUSE);
        if late || self.without_stream.get(&subject).is_some_and(|until| now < *until) {
            return Some(sent);
        }
        (self.len, self.bytes) = (self.len + 1, self.bytes + sent.bytes);
        let next = if sent.tries == 0 { Next::Try(now + PAUSE) } else { Next::Ask };
        let group = self.groups.entry(subject).or_insert(Group { rows: Vec::new(), next, tries: 0 });
        if group.next == Next::Heard(sent.place) {
            group.next = next;
        }
        group.tries = group.tries.max(sent.tries.saturating_add(1));
        group.rows.push(sent);
        None
    }

    /// Keeps a message back that would overtake others of its subject; any other comes back.
    pub fn hold(&mut self, sent: Sent) -> Option<Sent> {
        let Some(group) = self.groups.get_mut(sent.body.subject().as_str()) else { return Some(sent) };
        if group.next == Next::First {
            group.next = Next::Heard(sent.place);
        }
        if group.next == Next::Heard(sent.place) {
            return Some(sent);
        }
        (self.len, self.bytes) = (self.len + 1, self.bytes + sent.bytes);
        group.rows.push(sent);
        None
    }

    /// Somebody takes the subject after all: what waited behind this message may go.
    pub fn heard(&mut self, sent: &Sent) -> Vec<Sent> {
        let subject = sent.body.subject();
        self.without_stream.remove(subject.as_str());
        match self.groups.get(subject.as_str()) {
            Some(group) if group.next == Next::Heard(sent.place) => {}
            _ => return Vec::new(),
        }
        let behind = self.groups.remove(subject.as_str()).map_or_else(Vec::new, |mut group| group.leave(|_| true));
        self.forget(&behind);
        behind
    }

    /// First messages that are not under way any more have had another end: it is the next ones' turn.
    pub fn recall(&mut self, now: Instant, inflight: &Inflight, again: &VecDeque<Sent>) {
        if !self.groups.values().any(|group| matches!(group.next, Next::First | Next::Heard(_))) {
            return;
        }
        let places: HashSet<_> = inflight.places().chain(again.iter().map(|sent| sent.place)).collect();
        let subjects: HashSet<_> = again.iter().map(|sent| sent.body.subject().to_string()).collect();
        self.groups.retain(|subject, group| {
            let under_way = match group.next {
                Next::Heard(place) => places.contains(&place),
                Next::First => subjects.contains(subject),
                _ => return true,
            };
            if !under_way {
                group.next = Next::Try(now);
            }
            under_way || !group.rows.is_empty()
        });
    }

    /// A subject of which it is to be found out whether a stream takes it.
    pub fn question(&mut self) -> Option<String> {
        let (subject, group) = self.groups.iter_mut().find(|(_, group)| group.next == Next::Ask)?;
        group.next = Next::Answer;
        Some(subject.clone())
    }

    /// Takes the answer. Returned are the messages that have failed, each of which was answered "no responders" itself, and
    /// those that only waited behind them and are to be sent.
    pub fn answer(&mut self, subject: &str, verdict: Verdict, now: Instant) -> (Vec<Sent>, Vec<Sent>) {
        let Some(group) = self.groups.get_mut(subject) else { return Default::default() };
        if !verdict.is_end(group.tries) {
            group.next = Next::Try(now + PAUSE);
            return Default::default();
        }
        self.without_stream.retain(|_, until| now < *until);
        if self.without_stream.len() < MAX_WITHOUT_STREAM {
            self.without_stream.insert(subject.to_owned(), now + WITHOUT_STREAM);
        }
        let rows = self.groups.remove(subject).map_or_else(Vec::new, |group| group.rows);
        self.forget(&rows);
        rows.into_iter().partition(|sent| sent.sent_at.is_some())
    }

    /// What may go now, if it is not to be held again: the first one of each subject.
    pub fn due(&mut self, now: Instant) -> Vec<Sent> {
        let mut due = Vec::new();
        for group in self.groups.values_mut() {
            if matches!(group.next, Next::Try(at) if at <= now) {
                group.next = Next::First;
                due.extend(group.leave(|_| true));
            }
        }
        self.forget(&due);
        due
    }

    pub fn take_all(&mut self) -> Vec<Sent> {
        (self.len, self.bytes) = (0, 0);
        self.groups.drain().flat_map(|(_, mut group)| group.leave(|_| true)).collect()
    }

    /// What has no time any more.
    pub fn expire(&mut self, now: Instant) -> Vec<Sent> {
        let late: Vec<_> = self.groups.values_mut().flat_map(|group| group.leave(|sent| sent.is_late(now))).collect();
        self.forget(&late);
        late
    }

    fn forget(&mut self, gone: &[Sent]) {
        self.len -= gone.len();
        self.bytes -= gone.iter().map(|sent| sent.bytes).sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::body::{Body, Single};

    fn sent(place: u64, subject: &str) -> Sent {
        let single = Single { subject: subject.into(), payload: "".into(), headers: None, timeout: None };
        let body = Body::Single(Box::new(single));
        Sent { bytes: 10, ..Sent::new(place, place, body, None) }
    }

    fn places(sent: impl IntoIterator<Item = Sent>) -> Vec<u64> {
        let mut places: Vec<_> = sent.into_iter().map(|sent| sent.place).collect();
        places.sort_unstable();
        places
    }

    /// Three messages of one subject that nobody heard, when they may go again; out of order, as answers come.
    fn three(now: Instant) -> (Unheard, Vec<Sent>) {
        let mut unheard = Unheard::default();
        for place in [3, 1, 2] {
            assert!(unheard.take(sent(place, "a"), now).is_none());
        }
        assert!(unheard.due(now).is_empty());
        let mut due = unheard.due(now + PAUSE);
        due.sort_unstable_by_key(|sent| sent.place);
        assert!(due.len() == 3 && unheard.is_empty());
        (unheard, due)
    }

    /// The one that may go.
    fn alone(unheard: &mut Unheard, due: Vec<Sent>) -> Sent {
        let mut first: Vec<_> = due.into_iter().filter_map(|sent| unheard.hold(sent)).collect();
        assert_eq!(first.len(), 1);
        first.remove(0)
    }

    #[test]
    fn one_goes_again_and_the_others_behind_it_once_it_is_heard() {
        let now = Instant::now();
        let (mut unheard, due) = three(now);
        let first = alone(&mut unheard, due);
        assert_eq!((first.place, unheard.len(), unheard.bytes()), (1, 2, 20));
        assert!(unheard.due(now + 2 * PAUSE).is_empty() && unheard.question().is_none());
        // The link had no room for it at first; what comes meanwhile waits, and others say nothing.
        let first = unheard.hold(first).unwrap();
        assert!(unheard.hold(sent(4, "a")).is_none() && unheard.hold(sent(5, "b")).is_some());
        assert!(unheard.heard(&sent(9, "a")).is_empty() && unheard.heard(&sent(1, "b")).is_empty());
        assert_eq!(places(unheard.heard(&first)), [2, 3, 4]);
        assert!(unheard.hold(sent(6, "a")).is_some() && unheard.is_empty() && unheard.bytes() == 0);
    }

    #[test]
    fn one_that_nobody_heard_again_was_tried_for_all() {
        let now = Instant::now();
        let (mut unheard, due) = three(now);
        let first = alone(&mut unheard, due);
        assert!(unheard.hold(sent(4, "a")).is_none());
        assert!(unheard.take(first, now).is_none());
        assert_eq!(unheard.question().as_deref(), Some("a"));
        assert!(unheard.question().is_none() && unheard.answer("a", Verdict::Taken, now).0.is_empty());
        let due = unheard.due(now + PAUSE);
        assert_eq!(due.iter().map(|sent| sent.tries).collect::<Vec<_>>(), [2; 4]);
    }

    #[test]
    fn only_messages_that_were_answered_themselves_are_refused() {
        let now = Instant::now();
        let (mut unheard, due) = three(now);
        let sent_once = |sent: Sent| Sent { sent_at: Some(now), ..sent };
        let first = alone(&mut unheard, due.into_iter().map(sent_once).collect());
        assert!(unheard.hold(sent(4, "a")).is_none() && unheard.take(first, now).is_none());
        assert_eq!(unheard.question().as_deref(), Some("a"));
        let (failed, unsent) = unheard.answer("a", Verdict::Nobody, now);
        assert_eq!((places(failed), places(unsent)), (vec![1, 2, 3], vec![4]));
        // A further one fails with its own first answer, for a second: then a stream may have been created.
        let late = now + WITHOUT_STREAM;
        assert!(unheard.take(sent_once(sent(5, "a")), late - Duration::from_millis(1)).is_some());
        assert!(unheard.take(sent_once(sent(6, "a")), late).is_none());
    }

    #[test]
    fn where_it_had_another_end_the_next_one_goes() {
        let now = Instant::now();
        let (mut unheard, due) = three(now);
        let first = alone(&mut unheard, due);
        let (mut inflight, mut again) = (Inflight::new(8, true), VecDeque::from([first]));
        unheard.recall(now, &inflight, &again);
        for first in again.drain(..) {
            inflight.insert(first, now);
        }
        unheard.recall(now, &inflight, &again);
        assert!(unheard.due(now).is_empty());
        inflight.take_all();
        unheard.recall(now, &inflight, &again);
        again.extend(unheard.due(now));
        unheard.recall(now, &inflight, &again);
        assert!(again.len() == 2 && unheard.due(now).is_empty(), "they are at hand");
        // These had no time any more; what was published before is not left alone, whatever else is under way.
        again.clear();
        inflight.insert(sent(9, "b"), now);
        assert!(unheard.take(sent(0, "a"), now).is_none());
        unheard.recall(now, &inflight, &again);
        assert_eq!(places(unheard.due(now)), [0]);
        unheard.recall(now, &inflight, &again);
        assert!(unheard.groups.is_empty());
    }
}
