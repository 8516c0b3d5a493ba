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
        let new = || Group { rows: Vec::new(), due, asked: false };
        self.groups.entry(subject).or_insert_with(new).rows.push(sent);
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

    /// A subject of which it is to be found out whether a stream takes it.
    pub fn question(&mut self) -> Option<String> {
        let (subject, group) = self.groups.iter_mut().find(|(_, group)| group.due.is_none() && !group.asked)?;
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

    /// What is to be sent again now.
    pub fn due(&mut self, now: Instant) -> Vec<Sent> {
        self.release(|group| group.due.is_some_and(|due| due <= now))
    }

    pub fn take_all(&mut self) -> Vec<Sent> {
        self.release(|_| true)
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

    fn release(&mut self, wanted: impl Fn(&Group) -> bool) -> Vec<Sent> {
        if self.groups.is_empty() {
            return Vec::new();
        }
        let rows: Vec<_> = self.groups.extract_if(|_, group| wanted(group)).flat_map(|(_, group)| group.rows).collect();
        self.forget(&rows);
        rows
    }

    fn forget(&mut self, gone: &[Sent]) {
        self.len -= gone.len();
        self.bytes -= gone.iter().map(|sent| sent.bytes).sum::<usize>();
    }
}
