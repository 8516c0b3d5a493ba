//! Rows of a fast ingest: which one is next, and what becomes of those that a batch did not confirm.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt;

use super::batch::{FastBatch, FastRow};
use super::{BatchEnd, Fast};
use crate::publish::window::ResultSink;
use base::error::{About, JetError, Result};
use client::traffic::Verb;

const LAST_MSG_ID: &str = "Nats-Expected-Last-Msg-Id";

impl FastRow {
    /// The error of this row after its batch ended with `cause`: it was sent, and may be stored, now or later.
    pub(super) fn ended_by(&self, cause: &JetError) -> JetError {
        match cause {
            JetError::Timeout { after, .. } => {
                let subject = self.body.subject().to_string();
                JetError::Unanswered { verb: "publish", subject, after: *after, sent: true }
            }
            other => other.clone().of_sent(About::Row(self.number)),
        }
    }
}

impl Fast<'_, '_> {
    /// Returns the next valid row. Invalid rows before it get their errors. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Option<FastRow>> {
        loop {
            // Before the row is taken, because it may wait.
            let window = self.duplicate_window().await;
            let row = match self.again.pop_front() {
                Some(row) => row,
                None => match self.feed.next().await.transpose()? {
                    Some(item) => FastRow::from(item),
                    None => return Ok(None),
                },
            };
            if let Some(error) = self.error_of(&row, window) {
                self.results.failed(row.number, error);
            } else {
                return Ok(Some(row));
            }
        }
    }

    /// The error of a row that cannot be sent.
    fn error_of(&self, FastRow { number, body, first }: &FastRow, window: Option<Duration>) -> Option<JetError> {
        if let Some((first, window)) = first.zip(window)
            && first.elapsed() >= window
        {
            return Some(JetError::Forgotten { what: About::Row(*number), window });
        }
        // nats-server 2.15.1 counts a row that fails this check as stored, and then never ends its batch.
        if body.has_header(LAST_MSG_ID) {
            let reason = format!("mode=\"fast\" cannot take the header {LAST_MSG_ID}");
            return Some(JetError::Row { row: *number, reason });
        }
        match body.check(*number, self.conn.client.max_payload()) {
            Ok(()) => body.payload().is_none().then(|| body.no_payload(*number)),
            Err(error) => Some(error),
        }
    }

    /// The duplicate window, if the next row may be stored already: it is not sent again after the window.
    async fn duplicate_window(&mut self) -> Option<Duration> {
        let row = self.again.front().filter(|row| row.first.is_some() && self.window.resend.is_none())?;
        if self.duplicates.known().is_none() {
            if let Some(stream) = row.body.expected_stream() {
                self.duplicates.note(stream);
            }
            let (prefix, subject) = (self.window.prefix.clone(), row.body.subject().to_string());
            let shortest = self.duplicates.ask(self.conn, prefix, subject).await;
            self.duplicates.learn(shortest);
        }
        self.duplicates.known()
    }

    /// Ends the unconfirmed rows before `seq`, whose result is unknown. Rows with a message ID are resent as long as
    /// the server knows it; the others get an error. The server stored no row from `seq` on.
    pub(super) fn end_unconfirmed(&self, batch: &mut FastBatch, seq: u64) {
        for (place, (row, sent)) in (batch.confirmed + 1..seq).zip(&mut batch.rows) {
            if self.window.resend.unwrap_or_else(|| row.body.has_id()) {
                row.first.get_or_insert(*sent);
            } else {
                let unconfirmed = || JetError::Unconfirmed { what: About::Row(row.number) };
                batch.refused.entry(place).or_insert_with(unconfirmed);
            }
        }
    }

    /// Assigns errors to rejected rows. The other rows are resent in order.
    pub(super) fn finish(&mut self, batch: &mut FastBatch) {
        let mut rest = VecDeque::new();
        for (index, (row, _)) in batch.rows.drain(..).enumerate() {
            match batch.refused.remove(&(batch.confirmed + 1 + index as u64)) {
                Some(err) => self.results.failed(row.number, err),
                None => {
                    self.conn.traffic.resent(Verb::PublishBatch);
                    rest.push_back(row);
                }
            }
        }
        rest.append(&mut self.again);
        self.again = rest;
    }

    /// Abandons a batch: its unconfirmed rows get the cause as their error.
    pub(super) fn abandon(&mut self, batch: &mut FastBatch, cause: JetError) -> BatchEnd {
        for (row, _) in batch.rows.drain(..) {
            self.results.failed(row.number, row.ended_by(&cause));
        }
        BatchEnd::Abandoned(cause)
    }
}
