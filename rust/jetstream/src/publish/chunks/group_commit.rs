//! Group commit: the rows that wait while a chunk is on its way are the next chunk.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use tokio::time::{Instant, sleep, timeout_at};

use super::questions::QUESTION_TIMEOUT;
use super::{Chunks, RowSource, Target, Unsent};
use crate::api::Api;
use crate::publish::no_responders::RETRY_INTERVAL;
use crate::publish::window::{ResultSink, Window, run, silence};
use base::error::Result;

/// Fewer rows are published one by one: an atomic batch costs the server files of its own, as much as to sync about as
/// many rows.
const MIN_BATCH: usize = 16;

impl<F: RowSource, R: ResultSink> Chunks<'_, F, R> {
    /// True if the rows that wait are the next chunk.
    pub(super) fn takes_waiting(&self) -> bool {
        self.chunking.live && self.in_flight.is_empty() && !self.filling.is_empty()
    }

    /// True if the next rows are published one by one.
    pub(super) fn is_better_alone(&self) -> bool {
        let Unsent { rows, alone, .. } = self.filling.unsent();
        self.chunking.live && (*alone || rows.len() < MIN_BATCH)
    }

    /// Publishes the rows that wait one by one.
    pub(super) async fn publish_waiting(&mut self) -> Result<()> {
        let Some(unsent) = self.next_chunk() else { return Ok(()) };
        let window = Window { max_inflight: Some(MIN_BATCH), urgent: Arc::default(), ..self.window.clone() };
        let rows = stream::iter(unsent.rows.into_iter().map(Ok));
        run(self.conn, rows, &mut self.results, window).await
    }

    /// Fails the rows that have waited for too long: nothing is sent meanwhile, or it has no answer.
    pub(super) fn fail_overdue(&mut self) {
        let Some(limit) = Instant::now().checked_sub(self.window.timeout) else { return };
        for (row, _) in self.filling.take_earlier(limit) {
            self.results.failed(row, silence(self.window.timeout));
        }
    }

    /// Asks for the stream's configuration, which may have changed since the loop began. Returns the duplicate window that
    /// certainly holds for a chunk that was sent before; zero without an answer.
    pub(super) async fn refresh_target(&mut self, deadline: Instant) -> Duration {
        let api = Api::new(self.conn, &self.window.prefix).within(QUESTION_TIMEOUT);
        let answer = timeout_at(deadline, async {
            loop {
                match api.stream_info(&self.target.stream).await {
                    Err(error) if error.is_transient() && !self.conn.link.borrow().closed => {
                        sleep(RETRY_INTERVAL).await;
                    }
                    answer => break answer,
                }
            }
        });
        match answer.await {
            Ok(Ok(info)) => {
                let before = self.target.duplicate_window;
                self.target = Target::new(self.target.stream.clone(), info);
                before.min(self.target.duplicate_window)
            }
            _ => Duration::ZERO,
        }
    }
}
