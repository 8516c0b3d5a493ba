//! Rows of a fast ingest: which one is next, and what becomes of those that a batch did not confirm.

use std::collections::VecDeque;

use futures_util::StreamExt;
use tokio::time::Instant;

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

    /// The error of this row before it is sent, perhaps again.
    pub(super) fn unsent(&self, cause: &JetError) -> JetError {
        if self.first.is_some() { self.ended_by(cause) } else { cause.clone() }
    }
}

impl Fast<'_, '_> {
    /// Returns the next valid row. Invalid rows before it get their errors. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Option<FastRow>> {
        if let Some(row) = self.next_again().await {
            return Ok(Some(row));
        }
        while let Some(item) = self.feed.next().await.transpose()? {
            if let Some(row) = self.valid(FastRow::from(item)) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// As `next`, of the rows that are sent again.
    pub(super) async fn next_again(&mut self) -> Option<FastRow> {
        loop {
            // Before the row is taken, because it may wait.
            self.learn_duplicate_window().await;
            let row = self.again.pop_front()?;
            if let Some(row) = self.valid(row) {
                return Some(row);
            }
        }
    }

    fn valid(&mut self, row: FastRow) -> Option<FastRow> {
        let Some(error) = self.error_of(&row) else { return Some(row) };
        self.results.failed(row.number, error);
        None
    }

    /// The error of a row that cannot be sent.
    fn error_of(&self, FastRow { number, body, first }: &FastRow) -> Option<JetError> {
        if let Some(first) = first.filter(|_| self.window.resend.is_none())
            && let Some(window) = self.duplicates.known()
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

    /// Looks up the duplicate window, if the next row may be stored already: it is not sent again after the window.
    /// Without an answer within the timeout all such rows end.
    async fn learn_duplicate_window(&mut self) {
        let until = Instant::now() + self.window.timeout;
        while self.duplicates.known().is_none()
            && self.window.resend.is_none()
            && let Some(row) = self.again.front().filter(|row| row.first.is_some())
        {
            if let Some(stream) = row.body.expected_stream() {
                self.duplicates.note(stream);
            }
            let (prefix, subject) = (self.window.prefix.clone(), row.body.subject().to_string());
            let shortest = self.duplicates.ask(self.conn, prefix, subject).await;
            self.duplicates.learn(shortest);
            if shortest.is_none() && (Instant::now() >= until || self.conn.link.borrow().closed) {
                let (unknown, rest): (VecDeque<_>, _) = self.again.drain(..).partition(|row| row.first.is_some());
                self.again = rest;
                for row in unknown {
                    self.results.failed(row.number, JetError::Unconfirmed { what: About::Row(row.number) });
                }
            }
        }
    }

    /// Ends the unconfirmed rows before `seq`, whose result is unknown. Rows with a message ID are resent as long as
    /// the server knows it; the others get an error. The server stored no row from `seq` on.
    pub(super) fn end_unconfirmed(&mut self, batch: &mut FastBatch, seq: u64) {
        for (place, (row, sent)) in (batch.confirmed + 1..seq).zip(&mut batch.rows) {
            // It may be stored: a later error is not one of the whole call.
            self.any = true;
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
        self.any = true;
        for (place, (row, _)) in (batch.confirmed + 1..).zip(batch.rows.drain(..)) {
            let error = batch.refused.remove(&place).unwrap_or_else(|| row.ended_by(&cause));
            self.results.failed(row.number, error);
        }
        BatchEnd::Abandoned(cause)
    }
}
