//! Range and options of a read.

use std::str::FromStr;
use std::time::Duration;

use crate::receive::column::Layout;
use crate::receive::rollback::Mark;
use base::choice::choose;
use base::error::{JetError, Result};

#[derive(Clone, Debug)]
pub struct Range {
    pub prefix: String,
    pub stream: String,
    pub start: Bound,
    /// Exclusive. If open or beyond the end: one past the last message at opening.
    pub end: Bound,
    /// Filter subjects; empty: all.
    pub subjects: Vec<String>,
    /// Continues with new messages, without end.
    pub follow: bool,
    pub batch_rows: usize,
    pub batch_bytes: usize,
    /// Starts with small batches that double in size, so that the reader can start early.
    pub grow: bool,
    /// Maximum bytes outstanding at the server.
    pub fetch_bytes: usize,
    pub warn_on_loss: bool,
    /// Direct gets instead of a consumer. `None`: if a consumer would remove the messages.
    pub direct: Option<bool>,
    pub each: Each,
    /// Maximum number of rows, without those omitted as malformed.
    pub limit: Option<u64>,
    pub layout: Layout,
    /// Timeout of one request to the JetStream API.
    pub timeout: Duration,
    /// Maximum time for which the read retries while no server answers.
    pub outage: Duration,
    /// Marks of messages that the caller has received, to be compared with the stream at opening.
    pub marks: Vec<Mark>,
    pub on_rollback: OnRollback,
}

/// Reaction to a rolled back stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRollback {
    Fail,
    /// Continues after the newest message that still exists.
    Continue,
    /// Restarts at the first message.
    Earliest,
}

impl FromStr for OnRollback {
    type Err = JetError;

    fn from_str(word: &str) -> Result<Self> {
        let known =
            [("fail", OnRollback::Fail), ("continue", OnRollback::Continue), ("earliest", OnRollback::Earliest)];
        choose("on_rollback", word, &known)
    }
}

impl Range {
    /// Returns the filters, or `>` if there are none.
    pub fn filters(&self) -> impl Iterator<Item = &str> {
        let all = self.subjects.is_empty().then_some(">");
        self.subjects.iter().map(String::as_str).chain(all)
    }
}

/// Selection of messages in the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Each {
    All,
    /// The last message of each subject (read/latest.rs), with or without the markers of key-value buckets.
    Latest {
        markers: bool,
    },
}

/// Start or end of a range.
#[derive(Clone, Debug)]
pub enum Bound {
    Open,
    Seq(u64),
    /// The first message at or after this time (RFC 3339).
    Time(String),
}
