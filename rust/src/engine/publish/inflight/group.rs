//! Rows that share a token, in the order in which they were sent, and what came for them.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::{Duration, Instant};

use super::{MOST_SHARED, Sent};
use crate::engine::api::Stored;
use crate::engine::headers;
use crate::engine::publish::puback::{Origin, PubAck};
use crate::error::JetError;

/// How long a row's own ack may come after that of another stream, or of a row that was sent with it.
pub const DECIDE: Duration = Duration::from_millis(250);

/// Whoever else answers does not fill the memory.
const MOST_ANSWERS: usize = 2 * MOST_SHARED;

/// What came for one of the rows.
pub enum Answer {
    /// It is stored by the stream that took the rows before, and after them. Which stream that is may have changed.
    Stored(u64, Arc<Origin>),
    StoredInFull(Box<PubAck>, Arc<Origin>),
    /// A duplicate, or an ack out of turn.
    Odd(Box<PubAck>),
    /// An ack of another stream.
    Foreign(Box<PubAck>),
    /// Nobody was there to take it.
    Nobody,
    Failed(Box<JetError>),
}

impl Answer {
    pub fn is_plain(&self) -> bool {
        self.origin().is_some()
    }

    fn origin(&self) -> Option<&Arc<Origin>> {
        match self {
            Answer::Stored(_, origin) | Answer::StoredInFull(_, origin) => Some(origin),
            _ => None,
        }
    }

    fn is_ack(&self) -> bool {
        self.place().is_some()
    }

    /// The stream and the sequence that it says, where it is an ack.
    fn place(&self) -> Option<(&str, u64)> {
        match self {
            Answer::Stored(seq, origin) => Some((&origin.stream, *seq)),
            Answer::StoredInFull(ack, _) | Answer::Odd(ack) | Answer::Foreign(ack) => Some((&ack.stream, ack.seq)),
            Answer::Nobody | Answer::Failed(_) => None,
        }
    }
}

/// The sequence of an answer of this number, and its stream.
pub type Place = (usize, String, u64);
/// What is stored under the sequences of acks, by the numbers of the answers.
pub type Found = HashMap<usize, Stored>;

/// Whether it is known by now which row each answer is for.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// Not all have come.
    Some,
    /// Every row is stored in its turn, or none is: answers are in the order of the rows.
    All,
    /// The stream is to be asked.
    Unclear,
}

#[derive(Default)]
pub struct Group {
    pub rows: Vec<Sent>,
    pub answers: Vec<Answer>,
    /// When the last came.
    heard_at: Option<Instant>,
    /// The stream was asked for so many, or is just now.
    asked: usize,
    asking: bool,
}

impl Group {
    pub fn is_shared(&self) -> bool {
        self.rows.len() > 1 || !self.answers.is_empty()
    }

    pub fn is_unheard(&self) -> bool {
        self.answers.is_empty()
    }

    pub fn hear(&mut self, answer: Answer, now: Instant) -> Heard {
        self.heard_at = Some(now);
        if answer.is_plain() || self.answers.len() < MOST_ANSWERS {
            self.answers.push(answer);
        }
        self.heard()
    }

    pub fn heard(&mut self) -> Heard {
        if self.answers.len() < self.rows.len() {
            return Heard::Some;
        }
        let first = self.answers.iter().find_map(Answer::origin).cloned();
        let in_turn = |answer: &Answer| {
            let origins = answer.origin().zip(first.as_ref());
            origins.is_some_and(|(origin, first)| Arc::ptr_eq(origin, first))
        };
        if self.answers.iter().filter(|answer| in_turn(answer)).count() == self.rows.len() {
            self.answers.retain(in_turn);
            Heard::All
        } else if !self.answers.iter().any(Answer::is_ack) {
            Heard::All
        } else if self.answers.iter().any(|answer| matches!(answer, Answer::Foreign(_))) {
            // That may be one too many.
            Heard::Some
        } else {
            Heard::Unclear
        }
    }

    /// An answer is missing that should have come with the others.
    pub fn is_puzzling(&self, now: Instant) -> bool {
        !self.asking
            && self.asked < self.answers.len()
            && self.heard_at.is_some_and(|at| now.duration_since(at) >= DECIDE)
    }

    /// What the stream is to be asked for, once at a time.
    pub fn ask(&mut self) -> Option<Vec<Place>> {
        if std::mem::replace(&mut self.asking, true) {
            return None;
        }
        self.asked = self.answers.len();
        let acks = self.answers.iter().enumerate();
        Some(acks.filter_map(|(at, answer)| answer.place().map(|(stream, seq)| (at, stream.to_owned(), seq))).collect())
    }

    /// Takes out the rows that were found, with their answers; and those of which it will never be known. An ack of something
    /// else is not of these rows.
    pub fn learn(&mut self, found: &Found) -> (Vec<(Sent, Answer)>, Vec<Sent>) {
        let complete = self.answers.len() >= self.rows.len();
        let mut rows: Vec<_> = std::mem::take(&mut self.rows).into_iter().map(Some).collect();
        let (mut known, mut unknown) = (Vec::new(), false);
        for (at, answer) in std::mem::take(&mut self.answers).into_iter().enumerate() {
            let stored = found.get(&at);
            match stored.and_then(|stored| find(&rows, stored)).and_then(|row| rows[row].take()) {
                Some(sent) => known.push((sent, answer)),
                None if stored.is_some() => {}
                None => {
                    unknown |= at < self.asked && answer.is_ack();
                    self.answers.push(answer);
                }
            }
        }
        self.rows = rows.into_iter().flatten().collect();
        (self.asked, self.asking) = (self.answers.len(), false);
        let hopeless = complete && unknown;
        (known, if hopeless { std::mem::take(&mut self.rows) } else { Vec::new() })
    }

    pub fn clear(&mut self) {
        self.rows.clear();
        self.answers.clear();
        (self.heard_at, self.asked, self.asking) = (None, 0, false);
    }
}

/// Whether this is the row: by its id, where it has one, as a duplicate's payload may be another.
fn is(sent: &Sent, stored: &Stored) -> bool {
    match sent.body.msg_id() {
        Some(id) => headers::value(&stored.headers, "Nats-Msg-Id").is_some_and(|value| value == id),
        None => sent.body.payload() == Some(&stored.payload),
    }
}

/// The row that is stored there, out of those that are left. A stream may have changed the subject: then rows that only
/// differ in that cannot be told apart.
fn find(rows: &[Option<Sent>], stored: &Stored) -> Option<usize> {
    let subject = |at: &usize| rows[*at].as_ref().map(|sent| sent.body.subject_text());
    let alike = || (0..rows.len()).filter(|at| rows[*at].as_ref().is_some_and(|sent| is(sent, stored)));
    let first = alike().next();
    let unclear = || alike().any(|at| subject(&at) != first.as_ref().and_then(subject));
    alike().find(|at| subject(at) == Some(&stored.subject)).or_else(|| first.filter(|_| !unclear()))
}

#[cfg(test)]
mod tests;
