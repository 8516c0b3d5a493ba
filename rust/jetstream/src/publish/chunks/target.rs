//! The stream of the rows.

use std::time::Duration;

use crate::api::StreamInfo;
use crate::publish::window::RowToPublish;
use wire::subject;

pub struct Target {
    pub stream: String,
    pub subjects: Vec<String>,
    pub duplicate_window: Duration,
    /// Its last sequence before the first chunk.
    pub last_seq: u64,
}

impl Target {
    pub fn new(stream: String, info: StreamInfo) -> Self {
        let duplicate_window = info.config.duplicate_window();
        Target { stream, subjects: info.config.subjects, duplicate_window, last_seq: info.state.last_seq }
    }

    /// The stream, as an expectation of rows whose subject may belong to another stream; `None` if all are its own.
    pub fn expected_by(&self, rows: &[RowToPublish]) -> Option<&str> {
        let mut last = "";
        let mut is_ours = |subject| {
            let ours = subject == last || self.subjects.iter().any(|filter| subject::matches(filter, subject));
            last = subject;
            ours
        };
        match rows.iter().all(|(_, body)| is_ours(body.subject_text())) {
            true => None,
            false => Some(&self.stream),
        }
    }
}
