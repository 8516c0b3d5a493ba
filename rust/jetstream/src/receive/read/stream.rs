//! Checks of a read at the stream: lost messages, messages left, and its identity.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{Item, READ_SILENCE_TIMEOUT, ReadLoop};
use crate::api::{Api, StreamInfo};
use base::error::{JetError, Loss, Result};

impl ReadLoop {
    /// Reports a loss if the head of the stream has moved past the gap. Otherwise its messages were deleted, which is
    /// no loss.
    pub(super) async fn report_loss_since(&mut self, gap: u64, rows: usize) -> Result<()> {
        let first = self.stream_info().await?.state.first_seq;
        if first > gap { self.lost(gap, first, rows).await } else { Ok(()) }
    }

    /// Reports a loss behind this many rows of the builder. They are sent before the error: the stream may not have them
    /// any more.
    pub(super) async fn lost(&mut self, from: u64, first: u64, rows: usize) -> Result<()> {
        let loss = Loss { stream: self.range.stream.clone(), asked: (from, self.end), available: first };
        // With a filter it is unknown whether the lost messages would have matched.
        if !self.range.warn_on_loss && self.range.subjects.is_empty() {
            self.flush_first(rows).await?;
            return Err(JetError::DataLoss(Box::new(loss)));
        }
        let _ = self.out.send(Ok((Item::Loss(loss), None))).await;
        Ok(())
    }

    pub(super) fn api(&self) -> Api<'_> {
        Api::new(&self.conn, &self.range.prefix).within(self.range.timeout.min(self.range.outage))
    }

    /// Returns the maximum silence of a server.
    pub(super) fn silence(&self) -> Duration {
        READ_SILENCE_TIMEOUT.min(self.range.outage)
    }

    /// Returns the rest of the outage time. The outage starts now if it has not started.
    pub(super) fn outage_left(&mut self) -> Duration {
        let since = self.away.get_or_insert_with(Instant::now);
        self.range.outage.saturating_sub(since.elapsed())
    }

    /// Waits for the link, until the outage has lasted too long.
    pub(super) async fn until_linked(&mut self) -> Result<()> {
        let (left, mut link) = (self.outage_left(), self.conn.link.clone());
        match timeout(left, link.wait_for(|link| link.up || link.closed)).await {
            Ok(Ok(link)) if !link.closed => Ok(()),
            Err(_) => Err(self.away_too_long()),
            _ => Err(self.conn.closed()),
        }
    }

    pub(super) fn away_too_long(&self) -> JetError {
        JetError::Timeout { what: format!("a read of stream {:?}", self.range.stream), after: self.range.outage }
    }

    pub(super) async fn stream_info(&self) -> Result<StreamInfo> {
        self.api().stream_info(&self.range.stream).await
    }

    /// Asks the stream's leader for the next message of each filter; true if there is none.
    pub(super) async fn nothing_left(&self) -> Result<bool> {
        for filter in self.range.filters() {
            let next = self
                .api()
                .find_message(&self.range.stream, &json!({"seq": self.next, "next_by_subj": filter}))
                .await?
                .map(|found| found.seq);
            if next.is_some_and(|seq| seq < self.end) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
