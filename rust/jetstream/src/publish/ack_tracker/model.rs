//! A random server against a random client: the bookkeeping never credits a message with the answer of another one, and
//! leaves a message without a result only if the answers on its own token were lost, late or ambiguous.
//!
//! The stream of the same name acknowledges from a world's first message on, or never. If it began later, a few
//! messages could be credited with its sequences, until an answer to a message that has ended shows that it exists.
//!
//! `JETARROW_MODEL_STEPS` or `JETARROW_MODEL_SECONDS` run it for longer, `JETARROW_MODEL_SEED` again.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::time::{Duration, Instant};

use super::reply_reuse::REUSABLE_TOKENS;
use super::{AckTracker, Effect, InFlightMessage, Reply, SUSPENSION};
use crate::publish::body::{Body, Single};
use crate::publish::puback::Origin;
use crate::random::Random;
use base::error::JetError;
use wire::nats::HeaderMap;

mod server;

use server::{Answer, Kind, Published, Stream, TROUBLES, Trouble, streams};

const STEPS: u64 = 2_000_000;
/// Steps of one world, which has one connection.
const WORLD: u64 = 50_000;
const TIMEOUT: Duration = Duration::from_millis(2_000);
/// Milliseconds that a trouble lasts at most.
const TROUBLE: u64 = 300;

/// The same facts as the client has at the moment of a publish, from the model's own account.
struct Handed {
    reused: bool,
    origin: Arc<Origin>,
    highest: u64,
}

#[derive(Default, Debug)]
struct Counts {
    sent: u64,
    reused: u64,
    stored: u64,
    rejected: u64,
    resent: u64,
    waits: u64,
    strays: u64,
    unknown: u64,
    troubles: BTreeMap<Trouble, u64>,
}

struct World {
    random: Random,
    start: Instant,
    ms: u64,
    book: AckTracker,
    window: usize,
    streams: Vec<Stream>,
    /// Subjects that have a stream each.
    singles: u64,
    has_twin: bool,
    trouble: Option<(Trouble, u64)>,
    wire: VecDeque<Published>,
    replies: VecDeque<Answer>,
    late: BTreeMap<(u64, u64), Answer>,
    last_replies: VecDeque<Answer>,
    again: VecDeque<InFlightMessage>,
    rows: u64,
    used: HashSet<u64>,
    handed: HashMap<u64, Handed>,
    /// The last plain acknowledgement of each stream that counted, and the stream that acknowledged on a token.
    acked: HashMap<Arc<Origin>, u64>,
    acknowledged_by: HashMap<u64, Arc<Origin>>,
    suspended_until: u64,
    counts: Counts,
}

fn sent(row: u64, subject: char, id: Option<u64>, deadline: Instant) -> InFlightMessage {
    let headers = id.map(|id| {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", id.to_string());
        headers
    });
    let single = Single { subject: subject.to_string().into(), payload: "".into(), headers, timeout: None };
    InFlightMessage { bytes: 1, ..InFlightMessage::new(row, row, Body::Single(Box::new(single)), Some(deadline)) }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let window = [1, 7, 60, 200, 450, 600][random.below(6) as usize];
        let singles = [0, 3, 12][random.below(3) as usize];
        let has_twin = random.once_in(6);
        World {
            acked: HashMap::new(),
            acknowledged_by: HashMap::new(),
            random,
            start: Instant::now(),
            ms: 0,
            book: AckTracker::new(window, true),
            window,
            streams: streams(singles),
            singles,
            has_twin,
            trouble: None,
            wire: VecDeque::new(),
            replies: VecDeque::new(),
            late: BTreeMap::new(),
            last_replies: VecDeque::new(),
            again: VecDeque::new(),
            rows: 0,
            used: HashSet::new(),
            handed: HashMap::new(),
            suspended_until: 0,
            counts: Counts::default(),
        }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.ms)
    }

    fn is(&self, trouble: Trouble) -> bool {
        self.trouble.is_some_and(|(now, _)| now == trouble)
    }

    fn step(&mut self) {
        match self.random.below(8) {
            0..=2 => self.publish(),
            3..=4 => self.serve(),
            5..=6 => self.deliver(),
            _ => self.tick(),
        }
    }

    fn publish(&mut self) {
        if self.book.len() >= self.window {
            return;
        }
        let mut message = match self.again.pop_front() {
            Some(message) => message,
            None => {
                self.rows += 1;
                let subject = match self.random.below(4) {
                    _ if self.is(Trouble::Mapped) => 'm',
                    0 if self.is(Trouble::OtherStream) => 'c',
                    1 => 'b',
                    2 if self.singles > 0 => (b'n' + self.random.below(self.singles) as u8) as char,
                    _ => 'a',
                };
                let duplicate = self.is(Trouble::Duplicates) && self.random.once_in(3);
                let id = match self.random.below(2) {
                    0 => None,
                    _ if duplicate => Some(self.random.below(self.rows)),
                    _ => Some(self.rows),
                };
                sent(self.rows, subject, id, self.now() + TIMEOUT)
            }
        };
        message.earlier = message.first;
        message.first = message.first.or(Some(self.now()));
        let (row, subject) = (message.row, message.body.subject_text().chars().next().unwrap());
        let id = message.body.msg_id().map(|id| id.parse().unwrap());
        let token = self.book.sent(message, self.now());
        let reused = !self.used.insert(token);
        self.counts.sent += 1;
        self.counts.reused += u64::from(reused);
        assert!(!reused || self.ms >= self.suspended_until, "a token is used again while that is suspended");
        assert!(!reused || self.book.moving().0 <= REUSABLE_TOKENS * self.streams.len());
        let origin = self.acknowledged_by.get(&token).cloned().unwrap_or_default();
        assert!(!reused || !origin.stream.is_empty(), "a token is used again without a plain acknowledgement");
        let highest = self.acked.get(&origin).copied().unwrap_or_default();
        self.handed.insert(token, Handed { reused, origin, highest });
        self.wire.push_back(Published { token, row, subject, id });
    }

    fn deliver(&mut self) {
        let due = self.late.first_key_value().map(|(key, _)| *key).filter(|(at, _)| *at <= self.ms);
        let reply = match due {
            Some(key) => self.late.remove(&key),
            None => self.replies.pop_front(),
        };
        if let Some(reply) = reply {
            self.apply_reply(&reply);
        }
    }

    fn apply_reply(&mut self, reply: &Answer) {
        let held = self.book.get(reply.token).map(|sent| sent.row);
        let bytes = reply.kind.bytes();
        let received = bytes.as_deref().map_or(Reply::NoResponders, Reply::Payload);
        match self.book.on_reply(Some(reply.token), received, self.now()) {
            Effect::Stored { sent, seq, duplicate } => {
                let origin = self.book.origin().clone();
                self.is_stored(reply, &sent, &Kind::Ack { origin, seq, duplicate });
            }
            Effect::StoredInFull { sent, ack } => {
                let origin = Arc::new(Origin { stream: ack.stream, domain: ack.domain });
                self.is_stored(reply, &sent, &Kind::Ack { origin, seq: ack.seq, duplicate: ack.duplicate });
            }
            Effect::NoResponders(sent) => {
                self.is_own(reply, &sent);
                assert_eq!(reply.kind, Kind::NoResponders);
                self.again.push_back(InFlightMessage { first: sent.earlier, ..sent });
            }
            Effect::Rejected { sent, error } => {
                self.is_own(reply, &sent);
                assert!(matches!(reply.kind, Kind::Rejected { .. } | Kind::Unreadable), "{reply:?}");
                let unknown = sent.earlier.is_some() && !sent.body.has_id() && reply.kind != Kind::Unreadable;
                assert_eq!(matches!(error, JetError::Ambiguous { .. }), unknown, "{reply:?}: {error}");
                self.counts.rejected += 1;
            }
            Effect::Resend(sent) => {
                self.is_ambiguous(reply, Some(sent.row));
                assert!(sent.body.has_id());
                self.counts.resent += 1;
                self.again.push_back(sent);
            }
            Effect::Ambiguous => {
                self.is_ambiguous(reply, held);
                self.counts.waits += 1;
            }
            Effect::Foreign => {
                assert!(held.is_none());
                self.counts.strays += 1;
                self.suspended_until = self.ms + SUSPENSION.as_millis() as u64;
            }
        }
    }

    fn is_own(&self, reply: &Answer, sent: &InFlightMessage) {
        assert_eq!(sent.row, reply.row, "credited with the answer of another message: {reply:?}");
    }

    /// The message has its own acknowledgement, and the tracker read from the bytes what the stream wrote.
    fn is_stored(&mut self, reply: &Answer, sent: &InFlightMessage, read: &Kind) {
        self.is_own(reply, sent);
        assert_eq!(&reply.kind, read);
        self.counts.stored += 1;
        if let Kind::Ack { origin, seq, duplicate: false } = &reply.kind {
            self.acked.insert(origin.clone(), *seq);
            let before = self.acknowledged_by.insert(reply.token, origin.clone());
            assert!(before.is_none_or(|before| before == *origin), "two streams share a token");
        }
    }

    /// A message's own answer may be left open only if nothing in it shows whose it is.
    fn is_ambiguous(&self, reply: &Answer, held: Option<u64>) {
        let handed = &self.handed[&reply.token];
        assert!(handed.reused, "the first answer on a fresh token is the message's own: {reply:?}");
        if held != Some(reply.row) || self.has_twin {
            return;
        }
        let shows_nothing = match &reply.kind {
            Kind::Ack { origin, seq, duplicate } => *duplicate || *seq <= handed.highest || **origin != *handed.origin,
            Kind::Rejected { stream } => stream.as_deref() != Some(handed.origin.stream.as_str()),
            Kind::NoResponders => false,
            Kind::Unreadable => true,
        };
        assert!(shows_nothing, "the answer is clearly the message's own: {reply:?}");
    }

    fn tick(&mut self) {
        self.ms += self.random.below(3);
        let now = self.now();
        if self.random.once_in(20) {
            let age = Duration::from_millis(self.random.below(50));
            self.book.mark_overtaken(now.checked_sub(age).unwrap_or(now));
        }
        if self.random.once_in(50) {
            for late in self.book.take_matching(|sent| sent.is_late(now)) {
                self.end(&late);
            }
            let (late, rest) = self.again.drain(..).partition::<Vec<_>, _>(|sent| sent.is_late(now));
            self.again = rest.into();
            late.iter().for_each(|sent| self.end(sent));
        }
        if self.trouble.is_some_and(|(_, until)| until <= self.ms) {
            self.trouble = None;
            // Quiet for long enough for tokens to be used again, most times.
            if self.suspended_until > self.ms && !self.random.once_in(4) {
                self.drain();
                self.ms = self.suspended_until;
            }
        }
        if self.trouble.is_none() && self.random.once_in(800) {
            let trouble = TROUBLES[self.random.below(TROUBLES.len() as u64) as usize];
            self.trouble = Some((trouble, self.ms + 1 + self.random.below(TROUBLE)));
            *self.counts.troubles.entry(trouble).or_default() += 1;
            self.begin(trouble);
        }
    }

    /// A message ends without a result.
    fn end(&mut self, sent: &InFlightMessage) {
        self.counts.unknown += u64::from(sent.first.is_some());
    }

    /// All that is under way comes to its end.
    fn drain(&mut self) {
        while !(self.wire.is_empty() && self.replies.is_empty() && self.late.is_empty()) {
            self.serve();
            self.deliver();
            self.ms += u64::from(self.wire.is_empty() && self.replies.is_empty());
        }
        self.ms += TIMEOUT.as_millis() as u64;
        let now = self.now();
        for sent in self.book.take_matching(|sent| sent.is_late(now)) {
            self.end(&sent);
        }
        assert!(self.book.is_empty() && self.book.bytes() == 0);
        assert!(self.book.moving() == (0, 0) && self.book.overtaken_bytes() == 0);
        assert_eq!(self.book.reuse.claimed, 0);
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_message_is_credited_with_the_answer_of_another() {
    let (first, begun) = (number("JETARROW_MODEL_SEED").unwrap_or(1), std::time::Instant::now());
    let worlds = number("JETARROW_MODEL_STEPS").unwrap_or(STEPS).div_ceil(WORLD);
    let seconds = number("JETARROW_MODEL_SECONDS").map(std::time::Duration::from_secs);
    let (mut all, mut world) = (Counts::default(), 0);
    while seconds.map_or(world < worlds, |seconds| begun.elapsed() < seconds) {
        let seed = first + world;
        world += 1;
        let result = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..WORLD {
                world.step();
            }
            world.trouble = None;
            world.drain();
            world.counts
        });
        let counts = result.unwrap_or_else(|_| panic!("seed {seed}, within {} steps", world * WORLD));
        all.sent += counts.sent;
        all.reused += counts.reused;
        all.stored += counts.stored;
        all.rejected += counts.rejected;
        all.resent += counts.resent;
        all.waits += counts.waits;
        all.strays += counts.strays;
        all.unknown += counts.unknown;
        counts.troubles.into_iter().for_each(|(trouble, times)| *all.troubles.entry(trouble).or_default() += times);
    }
    println!("seed {first}, {} steps: {all:?}", world * WORLD);
    // It tried something: tokens were used again, and every trouble came with answers of each kind.
    assert!(all.reused > all.sent / 10, "{all:?}");
    assert!(all.resent > 0 && all.waits > 0 && all.strays > 0 && all.unknown > 0 && all.rejected > 0, "{all:?}");
    assert_eq!(all.troubles.len(), TROUBLES.len(), "{all:?}");
    assert!(all.stored > all.sent * 3 / 4, "{all:?}");
}
