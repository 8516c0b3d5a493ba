//! Detection of rolled back streams: whether a stream still has the history that a position belongs to.
//!
//! A server may return with fewer messages than it had acknowledged: after a restored backup, a replica's lost disk, or
//! a power failure before `sync_interval`. It then stores other messages under the same sequences.
//!
//! Owners of a position therefore keep marks with it: sequence and server time of the last message seen and of a few
//! older ones. They are compared with the stream before the position is used again, and after each disconnect. `decide`
//! is a pure function; it returns the next message to look up.

pub use base::error::rollback::{Found, Mark, Rollback};

mod verify;

pub use verify::{look_up, verify};

/// Maximum number of marks of a position. Their distances grow with age.
pub const MAX_MARKS: usize = 8;

/// Marks of one position, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(Vec<Mark>);

impl Marks {
    /// Creates marks from stored ones in any order.
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

    /// Adds the mark of a received message. A mark at or below the newest one is ignored.
    pub fn push(&mut self, mark: Mark) {
        if self.0.first().is_some_and(|newest| mark.seq <= newest.seq) {
            return;
        }
        self.0.insert(0, mark);
        if self.0.len() <= MAX_MARKS {
            return;
        }
        // Removes the mark with the smallest distance between its neighbours in relation to its age.
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

    /// Removes the marks above a sequence.
    pub fn truncate(&mut self, last: u64) {
        self.0.retain(|mark| mark.seq <= last);
    }
}

/// First and last sequence of a stream, as its leader reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub first_seq: u64,
    pub last_seq: u64,
    /// Time of the last message, if known.
    pub last_nanos: Option<i64>,
}

/// Verdict after some lookups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RollbackVerdict {
    /// No mark contradicts the stream.
    Holds,
    /// The message of this sequence must be looked up.
    Look(u64),
    RolledBack {
        expected: Mark,
        found: Found,
        last_good: Option<Mark>,
    },
}

/// Compares marks, newest first, with a stream.
///
/// `looked_up` has the time of each message that was looked up. `None` is a deleted, purged or expired message, so that
/// an older mark decides.
pub fn decide(marks: &[Mark], extent: &Extent, looked_up: &[(u64, Option<i64>)]) -> RollbackVerdict {
    let mut contradiction: Option<(Mark, Found)> = None;
    let mut last_good = None;
    for mark in marks {
        if mark.seq > extent.last_seq {
            contradiction.get_or_insert((*mark, Found::End { last_seq: extent.last_seq }));
            continue;
        }
        if mark.seq < extent.first_seq {
            // Older marks are below it too.
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
