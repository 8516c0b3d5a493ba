//! What is to be read.

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
    /// Exclusive. Open, or beyond the end: one past the last message at opening.
    pub end: Bound,
    /// Filters; none is all.
    pub subjects: Vec<String>,
    /// Goes on with new messages, without end.
    pub follow: bool,
    pub batch_rows: usize,
    pub batch_bytes: usize,
    /// Begins with small batches, so that whoever takes them has something to do, and doubles them.
    pub grow: bool,
    /// Most bytes outstanding at the server.
    pub fetch_bytes: usize,
    pub warn_on_loss: bool,
    /// By direct gets instead of a consumer. None: where a consumer would take the messages away.
    pub direct: Option<bool>,
    pub each: Each,
    /// Most rows, those that malformed payloads leave out not counted.
    pub limit: Option<u64>,
    pub layout: Layout,
    /// How long JetStream's answer to one question may take.
    pub timeout: Duration,
    /// How long the read goes on trying while no server answers.
    pub outage: Duration,
    /// Messages that whoever reads has seen, to be compared with the stream when it is opened.
    pub marks: Vec<Mark>,
    pub on_rollback: OnRollback,
}

/// What a read does where the stream has gone back behind what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRollback {
    Fail,
    /// Go on after the newest message that is still there.
    Continue,
    /// Begin anew with the first message.
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
    /// The filters; one that takes everything where there are none.
    pub fn filters(&self) -> impl Iterator<Item = &str> {
        let all = self.subjects.is_empty().then_some(">");
        self.subjects.iter().map(String::as_str).chain(all)
    }
}

/// Which messages of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Each {
    All,
    /// The last of each subject (read/latest.rs); with or without the markers of key-value buckets.
    Latest {
        markers: bool,
    },
}

/// Where a range begins or ends.
#[derive(Clone, Debug)]
pub enum Bound {
    Open,
    Seq(u64),
    /// The first message at or after this time (RFC 3339).
    Time(String),
}
