//! A stream that holds less than it had acknowledged, as an error.

use std::fmt;

use chrono::DateTime;

/// A time that is a multiple of this was stored in microseconds.
const MICROSECOND: i64 = 1_000;

/// A message that was seen, by its sequence and the server's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub seq: u64,
    /// Nanoseconds since 1970. A multiple of 1,000 is compared in microseconds, as some tables have no more.
    pub nanos: i64,
}

impl Mark {
    /// True if the stream's message has this time.
    pub fn is_of(&self, nanos: i64) -> bool {
        let coarse = self.nanos.rem_euclid(MICROSECOND) == 0;
        self.nanos == nanos || coarse && self.nanos == nanos - nanos.rem_euclid(MICROSECOND)
    }
}

/// What the stream has where a mark should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It ends before.
    End { last_seq: u64 },
    /// Another message.
    Other(Mark),
}

/// A stream that went back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollback {
    pub stream: String,
    /// The newest message that was seen and is not there any more.
    pub expected: Mark,
    pub found: Found,
    /// The newest message that was seen and is still there.
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
        write!(f, "stream {stream:?} went back: message {expected} was seen, and ")?;
        match found {
            Found::End { last_seq } => write!(f, "the stream ends at {last_seq} now")?,
            Found::Other(other) => write!(f, "there is {other} now")?,
        }
        last_good.map_or(Ok(()), |good| write!(f, "; message {good} is still there"))
    }
}
