//! Fuzzes the tracker of acks with any replies on any tokens, in any order.
//!
//! No message is resolved twice. A reply on a reused token resolves a message only if it is proven to belong to it.
#![no_main]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tokio::time::{Duration, Instant};

use jetstream::publish::ack_tracker::attribution::{AckReply, Attribution};
use jetstream::publish::ack_tracker::{AckTracker, InFlightMessage};
use jetstream::publish::body::{Body, Single};
use jetstream::publish::puback::Origin;

#[derive(Arbitrary, Debug)]
enum Step {
    Publish {
        with_id: bool,
        subject: u8,
    },
    /// A reply on the token of one of the last messages.
    AckReply {
        token: u8,
        kind: Kind,
    },
    /// Messages that a stream acknowledges in order, after which tokens are reused.
    InOrder {
        times: u8,
        stream: u8,
    },
    Withdraw {
        token: u8,
    },
    Break,
    Wait {
        millis: u16,
    },
}

#[derive(Arbitrary, Debug)]
enum Kind {
    /// An ack of a stream: its next sequence, or another one.
    Ack {
        origin: u8,
        other_seq: Option<u16>,
        duplicate: bool,
    },
    Rejected {
        stream: Option<u8>,
    },
    NoResponders,
    Unreadable,
}

/// A token's last message, the stream that acknowledged those before it, and the stream's last ack then.
struct Handed {
    row: u64,
    reused: bool,
    origin: Option<usize>,
    floor: u64,
}

const SUBJECTS: [&str; 3] = ["s", "t", "u"];

fn message(row: u64, with_id: bool, subject: u8) -> InFlightMessage {
    let headers = with_id.then(|| {
        let mut headers = wire::nats::HeaderMap::new();
        headers.insert("Nats-Msg-Id", row.to_string());
        headers
    });
    let single = Single {
        subject: SUBJECTS[usize::from(subject) % SUBJECTS.len()].into(),
        payload: "".into(),
        headers,
        timeout: None,
    };
    InFlightMessage { bytes: 1, ..InFlightMessage::new(row, row, Body::Single(Box::new(single)), None) }
}

/// The tracker under test with a model of it.
struct World {
    book: AckTracker,
    origins: Vec<Arc<Origin>>,
    now: Instant,
    rows: u64,
    tokens: Vec<u64>,
    used: HashSet<u64>,
    flying: HashSet<u64>,
    handed: HashMap<u64, Handed>,
    next: [u64; 3],
    /// The last ack of each stream, and the stream that acknowledged on a token.
    acked: [u64; 3],
    acknowledged_by: HashMap<u64, usize>,
}

impl World {
    fn new(window: usize) -> Self {
        let origins = [("S", None), ("T", None), ("S", Some("leaf"))].map(|(stream, domain): (&str, Option<&str>)| {
            Arc::new(Origin { stream: stream.into(), domain: domain.map(str::to_owned) })
        });
        World {
            book: AckTracker::new(window, true),
            origins: origins.into(),
            now: Instant::now(),
            rows: 0,
            tokens: Vec::new(),
            used: HashSet::new(),
            flying: HashSet::new(),
            handed: HashMap::new(),
            next: [1; 3],
            acked: [0; 3],
            acknowledged_by: HashMap::new(),
        }
    }

    /// Returns the token of one of the last messages, counted from the last.
    fn token(&self, back: u8) -> Option<u64> {
        self.tokens.get(self.tokens.len().wrapping_sub(1 + usize::from(back))).copied()
    }

    fn publish(&mut self, with_id: bool, subject: u8) {
        if self.book.len() >= self.book.window() {
            return;
        }
        self.rows += 1;
        let token = self.book.sent(message(self.rows, with_id, subject), self.now);
        let reused = !self.used.insert(token);
        assert!(self.handed.get(&token).is_none_or(|old| !self.flying.contains(&old.row)));
        let origin = self.acknowledged_by.get(&token).copied();
        let floor = origin.map_or(0, |origin| self.acked[origin]);
        self.handed.insert(token, Handed { row: self.rows, reused, origin, floor });
        self.flying.insert(self.rows);
        self.tokens.push(token);
    }

    fn answer(&mut self, token: u64, kind: &Kind) {
        let answer = match kind {
            Kind::Ack { origin, other_seq, duplicate } => {
                let origin = usize::from(*origin) % self.origins.len();
                let seq = other_seq.map_or(self.next[origin], u64::from);
                self.next[origin] = seq + 1;
                AckReply::Ack { origin: &self.origins[origin], seq, duplicate: *duplicate }
            }
            Kind::Rejected { stream } => {
                let named = stream.map(|stream| self.origins[usize::from(stream) % self.origins.len()].stream.as_str());
                AckReply::Rejected { stream: named }
            }
            Kind::NoResponders => AckReply::NoResponders,
            Kind::Unreadable => AckReply::Unreadable,
        };
        let handed = &self.handed[&token];
        let flew = self.flying.contains(&handed.row);
        match self.book.attribute(Some(token), &answer, self.now) {
            Attribution::Own(sent) => {
                assert!(self.flying.remove(&sent.row) && sent.row == handed.row);
                if let AckReply::Ack { origin, seq, duplicate: false } = answer {
                    let origin = self.origins.iter().position(|one| Arc::ptr_eq(one, origin));
                    assert!(!handed.reused || handed.origin == origin && seq > handed.floor);
                    if let Some(origin) = origin {
                        self.acked[origin] = seq;
                        self.acknowledged_by.insert(token, origin);
                    }
                } else {
                    assert!(!handed.reused || !matches!(answer, AckReply::Ack { .. } | AckReply::Unreadable));
                }
            }
            Attribution::Resend(sent) => assert!(handed.reused && sent.body.has_id() && self.flying.remove(&sent.row)),
            Attribution::Ambiguous => assert!(handed.reused && flew),
            Attribution::Foreign => assert!(!flew),
        }
        assert!(self.book.len() == self.flying.len() && self.book.bytes() == self.flying.len());
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Publish { with_id, subject } => self.publish(with_id, subject),
            Step::AckReply { token, kind } => {
                if let Some(token) = self.token(token) {
                    self.answer(token, &kind);
                }
            }
            Step::InOrder { times, stream } => {
                for _ in 0..u32::from(times) * 16 {
                    let rows = self.rows;
                    self.publish(false, stream);
                    if let Some(token) = self.token(0).filter(|_| self.rows > rows) {
                        self.answer(token, &Kind::Ack { origin: stream, other_seq: None, duplicate: false });
                    }
                }
            }
            Step::Withdraw { token } => {
                if let Some(sent) = self.token(token).and_then(|token| self.book.withdraw(token)) {
                    assert!(self.flying.remove(&sent.row));
                }
            }
            Step::Break => {
                self.book.on_disconnect().iter().for_each(|sent| assert!(self.flying.remove(&sent.row)));
            }
            Step::Wait { millis } => self.now += Duration::from_millis(millis.into()),
        }
    }
}

fuzz_target!(|input: (u8, Vec<Step>)| {
    let (window, steps) = input;
    let mut world = World::new(usize::from(window) + 1);
    steps.into_iter().for_each(|step| world.step(step));
    world.book.on_disconnect();
    assert!(world.book.is_empty() && world.book.bytes() == 0);
});
