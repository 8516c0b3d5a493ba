//! The error of a stream that was rolled back: it holds less than it has acknowledged.

use std::fmt;

use chrono::DateTime;

/// Nanoseconds of a microsecond. A time that is a multiple of it may have been stored in microseconds.
const MICROSECOND: i64 = 1_000;

/// A message that a reader has received: its sequence and the server's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub seq: u64,
    /// Nanoseconds since 1970. A multiple of 1,000 is compared in microseconds, the precision of some tables.
    pub nanos: i64,
}

impl Mark {
    /// True if the stream's message has this time.
    pub fn is_of(&self, nanos: i64) -> bool {
        let coarse = self.nanos.rem_euclid(MICROSECOND) == 0;
        self.nanos == nanos || coarse && self.nanos == nanos - nanos.rem_euclid(MICROSECOND)
    }
}

/// Content of the stream at the position of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The stream ends before the mark.
    End { last_seq: u64 },
    /// The stream has another message at the mark's sequence.
    Other(Mark),
}

/// A stream that was rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollback {
    pub stream: String,
    /// The newest message that was received and that the stream no longer has.
    pub expected: Mark,
    pub found: Found,
    /// The newest message that was received and that the stream still has.
    pub last_good: Option<Mark>,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Some(DateTime::from_timestamp_nanos(self.nanos).naive_utc()) {
            Some(time) => write!(f, "{} of {time} UTC", self.seq),
            None => write!(f, "{}", self.seq),
        }
    }
}

impl fmt::Display for Rollback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rollback { stream, expected, found, last_good } = self;
        write!(f, "stream {stream:?} was rolled back: message {expected} was seen, and ")?;
        match found {
            Found::End { last_seq } => write!(f, "the stream ends at {last_seq} now")?,
            Found::Other(other) => write!(f, "it has {other} now")?,
        }
        last_good.map_or(Ok(()), |good| write!(f, "; message {good} is still there"))
    }
}
