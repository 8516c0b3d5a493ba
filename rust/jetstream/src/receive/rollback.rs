//! Whether a stream is still the one that a position was kept of.
//!
//! A server can come back with less than it had acknowledged: a restored backup, a replica that lost its disk, a power
//! failure before `sync_interval`. It then stores other messages under the same sequences. So whatever keeps a position
//! keeps marks with it: sequence and server time of the last message that it saw, and of a few older ones. They are
//! compared with the stream when the position is used again, and after each break. `decide` is a pure function; it names
//! the message that has to be looked up next.

pub use base::error::rollback::{Found, Mark, Rollback};

mod verify;

pub use verify::{look_up, verify};

/// Marks that are kept of a position: distances grow towards the older ones.
pub const MAX_MARKS: usize = 8;

/// The marks of one position, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(Vec<Mark>);

impl Marks {
    /// Of kept marks, in any order.
    pub fn new(marks: impl IntoIterator<Item = Mark>) -> Self {
        let mut all = Marks::default();
        let mut marks: Vec<_> = marks.into_iter().collect();
        marks.sort_unstable_by_key(|mark| mark.seq);
        marks.into_iter().for_each(|mark| all.push(mark));
        all
    }

    pub fn as_slice(&self) -> &[Mark] {
        &self.0
    }

    pub fn newest(&self) -> Option<Mark> {
        self.0.first().copied()
    }

    /// Notes a message that was seen; one at or below the newest mark is ignored.
    pub fn push(&mut self, mark: Mark) {
        if self.0.first().is_some_and(|newest| mark.seq <= newest.seq) {
            return;
        }
        self.0.insert(0, mark);
        if self.0.len() <= MAX_MARKS {
            return;
        }
        // Out goes the one whose neighbours are nearest for its age.
        let crowded = (1..self.0.len() - 1).min_by(|one, two| {
            let closeness = |at: &usize| {
                let (newer, older) = (self.0[at - 1].seq, self.0[at + 1].seq);
                (newer - older) as f64 / (mark.seq - older) as f64
            };
            closeness(one).total_cmp(&closeness(two))
        });
        if let Some(crowded) = crowded {
            self.0.remove(crowded);
        }
    }

    /// Forgets the marks above a sequence.
    pub fn truncate(&mut self, last: u64) {
        self.0.retain(|mark| mark.seq <= last);
    }
}

/// What a stream says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub first_seq: u64,
    pub last_seq: u64,
    /// The time of the last message, if that is known.
    pub last_nanos: Option<i64>,
}

/// What is known after some messages were looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RollbackVerdict {
    /// No mark contradicts the stream.
    Holds,
    /// The message of this sequence has to be looked up.
    Look(u64),
    RolledBack {
        expected: Mark,
        found: Found,
        last_good: Option<Mark>,
    },
}

/// Compares marks, the newest first, with a stream. `looked_up` has the time of each message that was looked up, and `None`
/// for those that are not there: deleted, purged or expired, so that an older mark decides.
pub fn decide(marks: &[Mark], extent: &Extent, looked_up: &[(u64, Option<i64>)]) -> RollbackVerdict {
    let mut contradiction: Option<(Mark, Found)> = None;
    let mut last_good = None;
    for mark in marks {
        if mark.seq > extent.last_seq {
            contradiction.get_or_insert((*mark, Found::End { last_seq: extent.last_seq }));
            continue;
        }
        if mark.seq < extent.first_seq {
            // Nor is anything older.
            break;
        }
        let is_last = mark.seq == extent.last_seq && extent.last_nanos.is_some_and(|nanos| mark.is_of(nanos));
        let known = looked_up.iter().find(|(seq, _)| *seq == mark.seq);
        match (is_last, known) {
            (true, _) => last_good = Some(*mark),
            (false, None) => return RollbackVerdict::Look(mark.seq),
            (false, Some((_, None))) => continue,
            (false, Some((_, Some(nanos)))) if mark.is_of(*nanos) => last_good = Some(*mark),
            (false, Some((seq, Some(nanos)))) => {
                contradiction.get_or_insert((*mark, Found::Other(Mark { seq: *seq, nanos: *nanos })));
                continue;
            }
        }
        break;
    }
    match contradiction {
        None => RollbackVerdict::Holds,
        Some((expected, found)) => RollbackVerdict::RolledBack { expected, found, last_good },
    }
}

#[cfg(test)]
mod tests;
