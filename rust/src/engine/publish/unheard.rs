//! Messages that met no stream just now. A stream is away while its leader is elected, so each is sent twice more,
//! a quarter of a second apart, before its subject counts as one that no stream takes.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::publish::inflight::Sent;

/// How often a message is sent again to a subject that nobody takes, and how long is waited before.
pub const RETRIES: u8 = 2;
pub const PAUSE: Duration = Duration::from_millis(250);
/// So many subjects that no stream takes are remembered.
const MOST_HOPELESS: usize = 1_024;

struct Group {
    rows: Vec<Sent>,
    due: Instant,
}

/// By subject: what is published to it meanwhile waits behind, and messages of other subjects go on.
#[derive(Default)]
pub struct Unheard {
    groups: HashMap<String, Group>,
    len: usize,
    bytes: usize,
    /// Tried as often as it goes: their further messages fail at once.
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

    /// Takes a message that nobody heard. It comes back where no more is to be tried.
    pub fn take(&mut self, mut sent: Sent, now: Instant) -> Option<Sent> {
        let subject = sent.body.subject().to_string();
        let late = sent.deadline.is_some_and(|deadline| deadline <= now + PAUSE);
        if late || self.hopeless.contains(&subject) {
            return Some(sent);
        }
        if sent.tries == RETRIES {
            if self.hopeless.len() < MOST_HOPELESS {
                self.hopeless.insert(subject);
            }
            return Some(sent);
        }
        sent.tries += 1;
        (self.len, self.bytes) = (self.len + 1, self.bytes + sent.bytes);
        let group = self.groups.entry(subject).or_insert_with(|| Group { rows: Vec::new(), due: now + PAUSE });
        group.rows.push(sent);
        None
    }

    /// Keeps a message back that would overtake others of its subject; any other comes back.
    pub fn hold(&mut self, sent: Sent) -> Option<Sent> {
        let Some(group) = self.groups.get_mut(sent.body.subject().as_str()) else { return Some(sent) };
        (self.len, self.bytes) = (self.len + 1, self.bytes + sent.bytes);
        group.rows.push(sent);
        None
    }

    /// Somebody takes the subject after all.
    pub fn heard(&mut self, sent: &Sent) {
        if !self.hopeless.is_empty() {
            self.hopeless.remove(sent.body.subject().as_str());
        }
    }

    /// What is to be sent again now.
    pub fn due(&mut self, now: Instant) -> Vec<Sent> {
        self.release(|group| group.due <= now)
    }

    pub fn take_all(&mut self) -> Vec<Sent> {
        self.release(|_| true)
    }

    fn release(&mut self, wanted: impl Fn(&Group) -> bool) -> Vec<Sent> {
        if self.is_empty() {
            return Vec::new();
        }
        let rows: Vec<_> = self.groups.extract_if(|_, group| wanted(group)).flat_map(|(_, group)| group.rows).collect();
        self.len -= rows.len();
        self.bytes -= rows.iter().map(|sent| sent.bytes).sum::<usize>();
        rows
    }
}
