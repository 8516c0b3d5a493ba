//! Repair of a chunk that was not simply stored: the decisions, without I/O.
//!
//! A chunk is one atomic batch. `step` is the next action, `on` takes its result. A row ends as stored only if the server
//! confirms it, by an ack, by its duplicate detection or by the batch id of a stored message; as failed only if no
//! attempt can have stored it; otherwise its outcome is unknown.

use std::time::Duration;

use base::error::{About, JetError};

/// Attempts that failed although a trial of the same rows found nothing wrong.
const MAX_CLEAN_TRIALS: u8 = 3;

/// A row of the chunk.
#[derive(Clone, Debug, PartialEq)]
pub struct RepairRow {
    /// The number of its result.
    pub row: u64,
    pub has_id: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct RepairPolicy {
    /// `None` sends chunks again that have an id, `Some` forces it either way.
    pub resend: Option<bool>,
    /// A rejected row leaves its chunk, which is sent again; otherwise the chunk is rejected.
    pub split: bool,
    /// The stream's duplicate window.
    pub window: Duration,
}

/// The next action. Positions count in the rows that are left.
#[derive(Clone, Debug, PartialEq)]
pub enum RepairStep {
    /// Send the rows that are left as a batch.
    Send,
    /// Wait before the next attempt.
    Pause,
    /// Ask whether the stream has the ids of the rows that are left.
    AskIds,
    /// Look for a message of one of these batches.
    FindBatch(Vec<String>),
    /// Find the first row that makes the stream reject the rows that are left; nothing is stored by it.
    FindRow,
    Done,
}

/// Result of an action.
#[derive(Clone, Debug, PartialEq)]
pub enum RepairEvent {
    /// The batch is stored; the sequence of its last row.
    Stored(u64),
    /// The batch is not stored: one of its ids is known to the stream.
    Duplicate,
    /// The batch is not stored, for a reason that may pass.
    Busy(JetError),
    /// The batch is not stored, because of this row if it is known.
    Refused(Option<usize>, JetError),
    /// The batch is not stored, and none of its rows is the reason.
    Rejected(JetError),
    /// There is no answer: the batch with this id may be stored.
    Lost(String),
    /// The sequence of each row whose id the stream knows.
    Ids(Vec<Option<u64>>),
    /// A message of an open batch: the batch, the position of its row in it, and its sequence.
    Found(String, usize, u64),
    /// There is no message of these batches where they can be.
    NotFound,
    /// The question could not be answered.
    Unanswered(JetError),
    /// The first row that the stream rejects.
    BadRow(usize, JetError),
    /// The stream rejects none of the rows any more.
    NoBadRow,
    Paused,
    /// There is no time for another action.
    Late(JetError),
}

/// The end of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowEnd {
    Stored { seq: u64, duplicate: bool },
    Failed(JetError),
}

/// A batch that may be stored, because its answer is lost.
struct OpenBatch {
    id: String,
    rows: Vec<u64>,
}

pub struct Repair {
    policy: RepairPolicy,
    left: Vec<RepairRow>,
    ended: Vec<(u64, RowEnd)>,
    open: Vec<OpenBatch>,
    next: RepairStep,
    /// The last attempt was rejected while others were open.
    refused: bool,
    /// Answers about the ids, while an open batch is looked for.
    known: Vec<Option<u64>>,
    /// The reason of the last attempt that stored nothing.
    last: Option<JetError>,
    clean_trials: u8,
}

impl Repair {
    /// Begins with the rows of a chunk and the result of its first attempt.
    pub fn new(rows: Vec<RepairRow>, policy: RepairPolicy, first: RepairEvent, age: Duration) -> Self {
        let mut repair = Repair {
            policy,
            left: rows,
            ended: Vec::new(),
            open: Vec::new(),
            refused: false,
            known: Vec::new(),
            last: None,
            clean_trials: 0,
            next: RepairStep::Done,
        };
        repair.on(first, age);
        repair
    }

    pub fn step(&self) -> RepairStep {
        if self.left.is_empty() { RepairStep::Done } else { self.next.clone() }
    }

    /// The rows that are left.
    pub fn left(&self) -> &[RepairRow] {
        &self.left
    }

    /// The reason of the last attempt that stored nothing.
    pub fn last_cause(&self) -> Option<&JetError> {
        self.last.as_ref()
    }

    /// Takes the ends of rows so far.
    pub fn take_ended(&mut self) -> Vec<(u64, RowEnd)> {
        std::mem::take(&mut self.ended)
    }

    /// Takes the result of the action. `age` is the time since the first attempt.
    pub fn on(&mut self, event: RepairEvent, age: Duration) {
        let next = self.after(event, age);
        // Duplicate detection has ended: another attempt could store the rows of an open batch again.
        let late = next == RepairStep::Send && !self.open.is_empty() && !self.detects_duplicates(age);
        self.next = if late && self.policy.resend != Some(true) { self.find_batch() } else { next };
    }

    fn after(&mut self, event: RepairEvent, age: Duration) -> RepairStep {
        match event {
            RepairEvent::Stored(last) => self.stored((last + 1).saturating_sub(self.left.len() as u64)),
            RepairEvent::Found(batch, at, seq) => self.found(&batch, seq.saturating_sub(at as u64)),
            RepairEvent::Paused => RepairStep::Send,
            RepairEvent::Duplicate => RepairStep::AskIds,
            RepairEvent::Busy(error) => {
                self.last = Some(error);
                RepairStep::Pause
            }
            RepairEvent::Lost(batch) => {
                self.open.push(OpenBatch { id: batch, rows: self.left.iter().map(|row| row.row).collect() });
                self.look(age)
            }
            // The reason of the rejection may be an earlier attempt that was stored.
            RepairEvent::Refused(_, error) | RepairEvent::Rejected(error) if !self.open.is_empty() => {
                (self.last, self.refused) = (Some(error), true);
                self.look(age)
            }
            RepairEvent::Refused(None, error) => {
                self.last = Some(error);
                RepairStep::FindRow
            }
            RepairEvent::Refused(Some(at), error) | RepairEvent::BadRow(at, error) => self.reject(at, &error),
            RepairEvent::Rejected(error) => {
                self.fail_all(|_| JetError::Batch { row: None, cause: Box::new(error.clone()) })
            }
            RepairEvent::NoBadRow => self.no_bad_row(),
            RepairEvent::Ids(seqs) => self.on_ids(&seqs, age),
            RepairEvent::NotFound => self.not_found(),
            RepairEvent::Unanswered(error) | RepairEvent::Late(error) => match self.open.is_empty() {
                true => self.fail_all(|_| error.clone()),
                false => self.unknown(),
            },
        }
    }

    /// True while the stream certainly knows the ids of the first attempt, also of one that was on its way for long, and
    /// of one that is sent now.
    fn detects_duplicates(&self, age: Duration) -> bool {
        age < self.policy.window / 2
    }

    /// The next action for a chunk that may be stored.
    fn look(&self, age: Duration) -> RepairStep {
        match self.left.iter().any(|row| row.has_id) && self.detects_duplicates(age) {
            true => RepairStep::AskIds,
            false => self.find_batch(),
        }
    }

    fn find_batch(&self) -> RepairStep {
        RepairStep::FindBatch(self.open.iter().map(|batch| batch.id.clone()).collect())
    }

    fn on_ids(&mut self, seqs: &[Option<u64>], age: Duration) -> RepairStep {
        let any = seqs.iter().any(Option::is_some);
        if any && !self.open.is_empty() && self.left.iter().any(|row| !row.has_id) {
            // The rows without ids are stored if this is an open batch, and not if it is another publisher's message.
            self.known = seqs.to_vec();
            return self.find_batch();
        }
        self.end_known(seqs);
        if self.open.is_empty() {
            return if any { RepairStep::Send } else { RepairStep::Pause };
        }
        if !self.detects_duplicates(age) {
            // The stream may have forgotten the other ids.
            return self.unknown_unless_forced();
        }
        if any && self.policy.resend != Some(false) {
            // The rejection was for the rows that the stream knows.
            self.refused = false;
        }
        // Another attempt and an open batch that arrives late exclude each other: they have the same ids. A rejection
        // is not retried, and proves nothing about an open batch.
        if self.refused || self.policy.resend == Some(false) { self.unknown() } else { RepairStep::Send }
    }

    /// Ends the rows that the stream knows.
    fn end_known(&mut self, seqs: &[Option<u64>]) {
        let mut seqs = seqs.iter().copied();
        let Repair { left, ended, .. } = self;
        left.retain(|row| {
            let seq = seqs.next().flatten();
            ended.extend(seq.map(|seq| (row.row, RowEnd::Stored { seq, duplicate: true })));
            seq.is_none()
        });
    }

    fn not_found(&mut self) -> RepairStep {
        let known = std::mem::take(&mut self.known);
        self.end_known(&known);
        self.unknown_unless_forced()
    }

    fn unknown_unless_forced(&mut self) -> RepairStep {
        match self.policy.resend == Some(true) && !self.refused {
            true => RepairStep::Send,
            false => self.unknown(),
        }
    }

    fn no_bad_row(&mut self) -> RepairStep {
        self.clean_trials += 1;
        match self.last.clone().filter(|_| self.clean_trials >= MAX_CLEAN_TRIALS) {
            Some(cause) => self.fail_all(|_| JetError::Batch { row: None, cause: Box::new(cause.clone()) }),
            None => RepairStep::Send,
        }
    }

    fn found(&mut self, batch: &str, first: u64) -> RepairStep {
        let Some(open) = self.open.iter().find(|open| open.id == batch) else { return self.unknown() };
        for (at, row) in open.rows.iter().enumerate() {
            if self.left.iter().any(|left| left.row == *row) {
                self.ended.push((*row, RowEnd::Stored { seq: first + at as u64, duplicate: false }));
            }
        }
        self.left.clear();
        RepairStep::Done
    }

    fn stored(&mut self, first: u64) -> RepairStep {
        let left = std::mem::take(&mut self.left).into_iter().enumerate();
        self.ended.extend(left.map(|(at, row)| (row.row, RowEnd::Stored { seq: first + at as u64, duplicate: false })));
        RepairStep::Done
    }

    fn reject(&mut self, at: usize, error: &JetError) -> RepairStep {
        if at >= self.left.len() {
            return self.fail_all(|_| JetError::Batch { row: None, cause: Box::new(error.clone()) });
        }
        let bad = self.left.remove(at);
        self.ended.push((bad.row, RowEnd::Failed(error.clone())));
        match self.policy.split {
            true => RepairStep::Send,
            false => self.fail_all(|_| JetError::Batch { row: Some(bad.row), cause: Box::new(error.clone()) }),
        }
    }

    fn unknown(&mut self) -> RepairStep {
        self.fail_all(|row| JetError::Unconfirmed { what: About::Row(row) })
    }

    fn fail_all(&mut self, error: impl Fn(u64) -> JetError) -> RepairStep {
        let left = std::mem::take(&mut self.left).into_iter();
        self.ended.extend(left.map(|row| (row.row, RowEnd::Failed(error(row.row)))));
        RepairStep::Done
    }
}

#[cfg(test)]
mod model;
