//! Messages that met no stream just now. A stream is away while its leader is elected: each is sent again a quarter of a
//! second later, and where nobody answers then either JetStream is asked whether a stream takes the subject. Where none
//! does it has its error; where one does it is tried until its time is over.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::engine::api::Api;
use crate::engine::connection::Connection;
use crate::engine::publish::inflight::Sent;
use crate::error::JetError;

/// How long is waited before a message is sent again to a subject that nobody takes.
pub const PAUSE: Duration = Duration::from_millis(250);
/// How often it is sent again where JetStream does not answer the question either.
const RETRIES: u8 = 2;
/// How long the answer may take. During an election of the whole cluster there is none.
const ASK: Duration = Duration::from_secs(2);
/// So many subjects that no stream takes are remembered.
const MOST_HOPELESS: usize = 1_024;

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

struct Group {
    rows: Vec<Sent>,
    /// None where it is to be found out first whether any stream takes the subject.
    due: Option<Instant>,
    asked: bool,
    /// The place of the message that was sent again by itself. All that went together would not keep its order, where the
    /// stream comes back among it.
    probe: Option<u64>,
}

/// By subject: what is published to it meanwhile waits behind, and messages of other subjects go on.
#[derive(Default)]
pub struct Unheard {
    groups: HashMap<String, Group>,
    len: usize,
    bytes: usize,
    /// No stream takes them: their further messages fail at once.
    hopeless: HashSet<String>,
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

    /// Some subject's messages have to wait.
    pub fn holds_any(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Takes a message that nobody heard. It comes back where no more is to be tried.
    pub fn take(&mut self, mut sent: Sent, now: Instant) -> Option<Sent> {
        let subject = sent.body.subject().to_string();
        let late = sent.deadline.is_some_and(|deadline| deadline <= now + PAUSE);
        if late || self.hopeless.contains(&subject) {
            return Some(sent);
        }
        let due = (sent.tries == 0).then_some(now + PAUSE);
        sent.tries = sent.tries.saturating_add(1);
        (self.len, self.bytes) = (self.len + 1, self.bytes + sent.bytes);
        let group =
            self.groups.entry(subject).or_insert_with(|| Group { rows: Vec::new(), due, asked: false, probe: None });
        if group.probe.take_if(|probe| *probe == sent.place).is_some() {
            (group.due, group.asked) = (due, false);
            // It was tried for all that have been sent before.
            group.rows.iter_mut().filter(|row| row.tries > 0).for_each(|row| row.tries = row.tries.max(sent.tries));
        }
        group.rows.push(sent);
        None
    }

    /// Keeps a message back that would overtake others of its subject; any other comes back.
    pub fn hold(&mut self, sent: Sent) -> Option<Sent> {
        let group = self.groups.get_mut(sent.body.subject().as_str());
        let Some(group) = group.filter(|group| group.probe != Some(sent.place)) else { return Some(sent) };
        (self.len, self.bytes) = (self.len + 1, self.bytes + sent.bytes);
        group.rows.push(sent);
        None
    }

    /// Somebody takes the subject after all: what waited behind this message may go.
    pub fn heard(&mut self, sent: &Sent) -> Vec<Sent> {
        if !self.hopeless.is_empty() {
            self.hopeless.remove(sent.body.subject().as_str());
        }
        if self.groups.is_empty() {
            return Vec::new();
        }
        let subject = sent.body.subject();
        match self.groups.get(subject.as_str()) {
            Some(group) if group.probe == Some(sent.place) => {}
            _ => return Vec::new(),
        }
        let behind = self.groups.remove(subject.as_str()).map_or_else(Vec::new, |group| group.rows);
        self.forget(&behind);
        behind
    }

    /// Messages that went by themselves and are under way no more have had another end: the next ones go at once.
    pub fn recall(&mut self, now: Instant, under_way: impl Fn() -> HashSet<u64>) {
        if !self.groups.values().any(|group| group.probe.is_some()) {
            return;
        }
        let under_way = under_way();
        for group in self.groups.values_mut() {
            if group.probe.take_if(|probe| !under_way.contains(probe)).is_some() {
                group.due = Some(now);
            }
        }
    }

    /// A subject of which it is to be found out whether a stream takes it.
    pub fn question(&mut self) -> Option<String> {
        let (subject, group) =
            self.groups.iter_mut().find(|(_, group)| group.due.is_none() && !group.asked && group.probe.is_none())?;
        group.asked = true;
        Some(subject.clone())
    }

    /// The answer; what comes back has failed.
    pub fn answer(&mut self, subject: &str, verdict: Verdict, now: Instant) -> Vec<Sent> {
        let Some(group) = self.groups.get_mut(subject) else { return Vec::new() };
        let tries = group.rows.iter().map(|sent| sent.tries).max().unwrap_or_default();
        if !verdict.is_end(tries) {
            (group.due, group.asked) = (Some(now + PAUSE), false);
            return Vec::new();
        }
        if self.hopeless.len() < MOST_HOPELESS {
            self.hopeless.insert(subject.to_owned());
        }
        let ended: Vec<_> = self.groups.remove(subject).into_iter().flat_map(|group| group.rows).collect();
        self.forget(&ended);
        ended
    }

    /// Subjects of which something is to be sent again now.
    pub fn due(&self, now: Instant) -> HashSet<String> {
        let due = self.groups.iter().filter(|(_, group)| group.due.is_some_and(|due| due <= now));
        due.map(|(subject, _)| subject.clone()).collect()
    }

    /// The first message of a subject: it goes by itself, and the others wait until it is heard.
    pub fn probe(&mut self, subject: &str) -> Option<Sent> {
        let group = self.groups.get_mut(subject)?;
        let first = group.rows.iter().enumerate().min_by_key(|(_, sent)| sent.place).map(|(index, _)| index);
        let Some(first) = first.map(|index| group.rows.swap_remove(index)) else {
            // Their time was over.
            self.groups.remove(subject);
            return None;
        };
        (group.due, group.probe) = (None, Some(first.place));
        self.forget(std::slice::from_ref(&first));
        Some(first)
    }

    pub fn take_all(&mut self) -> Vec<Sent> {
        (self.len, self.bytes) = (0, 0);
        self.groups.drain().flat_map(|(_, group)| group.rows).collect()
    }

    /// What has no time any more.
    pub fn expire(&mut self, now: Instant) -> Vec<Sent> {
        let mut late = Vec::new();
        for group in self.groups.values_mut() {
            late.extend(group.rows.extract_if(.., |sent| sent.is_late(now)));
        }
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
    use crate::engine::publish::rows::{Body, Single};

    fn sent(place: u64, subject: &str) -> Sent {
        let single = Single { subject: subject.into(), payload: "".into(), headers: None, timeout: None };
        let body = Body::Single(Box::new(single));
        Sent { row: place, place, body, bytes: 10, deadline: None, first: None, sent_at: None, tries: 0 }
    }

    fn places(sent: impl IntoIterator<Item = Sent>) -> Vec<u64> {
        let mut places: Vec<_> = sent.into_iter().map(|sent| sent.place).collect();
        places.sort_unstable();
        places
    }

    #[test]
    fn one_goes_again_and_the_others_behind_it_once_it_is_heard() {
        let (mut unheard, now) = (Unheard::default(), Instant::now());
        for place in [3, 1, 2] {
            assert!(unheard.take(sent(place, "a"), now).is_none());
        }
        assert!(unheard.due(now).is_empty());
        let later = now + PAUSE;
        assert_eq!(unheard.due(later), HashSet::from(["a".to_owned()]));
        let first = unheard.probe("a").unwrap();
        assert_eq!((first.place, unheard.len(), unheard.bytes()), (1, 2, 20));
        // It is sent, what comes meanwhile waits, and what is heard of others says nothing.
        assert!(unheard.due(later).is_empty() && unheard.question().is_none() && unheard.holds_any());
        let first = unheard.hold(first).unwrap();
        assert!(unheard.hold(sent(4, "a")).is_none() && unheard.hold(sent(5, "b")).is_some());
        assert!(unheard.heard(&sent(9, "a")).is_empty() && unheard.heard(&sent(1, "b")).is_empty());
        assert_eq!(places(unheard.heard(&first)), [2, 3, 4]);
        assert!(!unheard.holds_any() && unheard.is_empty() && unheard.bytes() == 0);
    }

    #[test]
    fn one_that_nobody_heard_again_was_tried_for_all() {
        let (mut unheard, now) = (Unheard::default(), Instant::now());
        for place in [1, 2] {
            unheard.take(sent(place, "a"), now);
        }
        unheard.hold(sent(3, "a"));
        let first = unheard.probe("a").unwrap();
        assert!(unheard.take(first, now).is_none());
        assert_eq!(unheard.question().as_deref(), Some("a"));
        assert!(unheard.answer("a", Verdict::Taken, now).is_empty());
        let mut all = unheard.take_all();
        all.sort_unstable_by_key(|sent| sent.place);
        assert_eq!(all.iter().map(|sent| sent.tries).collect::<Vec<_>>(), [2, 2, 0]);
    }

    #[test]
    fn where_it_had_another_end_the_next_one_goes() {
        let (mut unheard, now) = (Unheard::default(), Instant::now());
        for place in [1, 2] {
            unheard.take(sent(place, "a"), now);
        }
        unheard.probe("a").unwrap();
        unheard.recall(now, || HashSet::from([1]));
        assert!(unheard.due(now).is_empty());
        unheard.recall(now, HashSet::new);
        assert_eq!(unheard.due(now).len(), 1);
        assert_eq!(unheard.probe("a").map(|sent| sent.place), Some(2));
        // The last one had another end, too: nobody waits any more.
        unheard.recall(now, HashSet::new);
        assert!(unheard.probe("a").is_none() && !unheard.holds_any());
    }
}
