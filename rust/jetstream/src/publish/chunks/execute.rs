//! The repair of a chunk.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout_at};

use super::filling::Unsent;
use super::in_flight::Chunk;
use super::questions::{QUESTION_TIMEOUT, Questions};
use super::repair::{Repair, RepairEvent, RepairPolicy, RepairRow, RepairStep, RowEnd};
use super::{Chunks, RowSource};
use crate::api::MAX_ATOMIC_ROWS;
use crate::publish::atomic::{batch_id, send};
use crate::publish::no_responders::{NoResponderRetry, RETRY_INTERVAL};
use crate::publish::window::{ResultSink, RowToPublish, silence};
use base::error::{About, JetError, Result};
use wire::nats::HeaderMap;

/// Time for questions about a chunk whose timeout is over.
const LATE_QUESTIONS: Duration = Duration::from_secs(2);

impl<F: RowSource, R: ResultSink> Chunks<'_, F, R> {
    /// Repairs the first chunk. Returns the reason why no further rows are sent, if there is one.
    pub(super) async fn repair(&mut self, chunk: Chunk, first: RepairEvent) -> Result<Option<JetError>> {
        let Chunk { unsent: Unsent { rows: mut left, since, .. }, committed_at, floor, .. } = chunk;
        let sent = committed_at.unwrap_or_else(Instant::now);
        let timeout = self.window.timeout;
        let deadline = (since.unwrap_or(sent) + timeout).max(Instant::now() + timeout.min(LATE_QUESTIONS));
        let window = match first {
            _ if !self.chunking.live => self.target.duplicate_window,
            RepairEvent::Lost(_) => self.refresh_target(deadline).await,
            // A later attempt may be lost.
            _ => self.refresh_target(deadline.min(Instant::now() + QUESTION_TIMEOUT)).await,
        };
        let policy = RepairPolicy { resend: self.window.resend, split: self.chunking.split, window };
        let rows = left.iter().map(|(row, body)| RepairRow { row: *row, has_id: body.has_id() }).collect();
        self.make_way(&first).await;
        let mut repair = Repair::new(rows, policy, first, sent.elapsed());
        let mut retry = NoResponderRetry::new(self.conn, &self.window.prefix, deadline);
        let mut end = None;
        loop {
            self.end_rows(&mut repair, &mut left);
            let step = repair.step();
            if step == RepairStep::Done {
                return Ok(end);
            }
            let closed = self.conn.link.borrow().closed;
            let event = if closed || Instant::now() >= deadline {
                let cause = if closed { self.conn.closed() } else { silence(timeout) };
                end = Some(cause.clone());
                RepairEvent::Late(repair.last_cause().cloned().unwrap_or(cause))
            } else {
                let questions = Questions { conn: self.conn, target: &self.target, window: self.window, deadline };
                questions.execute(&step, &repair, &left, &mut retry, floor).await?
            };
            self.make_way(&event).await;
            repair.on(event, sent.elapsed());
        }
    }

    /// Gives up the batches behind a refused one: they may take its place in the server, and would expire there.
    async fn make_way(&mut self, event: &RepairEvent) {
        if !matches!(event, RepairEvent::Busy(_)) {
            return;
        }
        self.in_flight.refused(event);
        for chunk in self.in_flight.take_all().into_iter().rev() {
            if let Some(mut last) = chunk.last.filter(|_| chunk.event.is_none() && chunk.breaks == self.conn.breaks()) {
                // A gap in its sequence ends a batch.
                let headers = last.headers.get_or_insert_with(HeaderMap::new);
                headers.insert("Nats-Batch-Sequence", (MAX_ATOMIC_ROWS + 1).to_string());
                (last.reply, last.payload) = (None, Bytes::new());
                // If it is not sent, the batch expires.
                let _sent = send(self.conn, vec![last], self.window.timeout).await;
            }
            self.again.push_front(chunk.unsent);
        }
    }

    /// Records the ends of rows, and removes them from those that are left.
    fn end_rows(&mut self, repair: &mut Repair, left: &mut Vec<RowToPublish>) {
        // A repair finds rows in its own stream only.
        let stream = self.target.stream.clone();
        self.note_stream(&stream);
        for (row, end) in repair.take_ended() {
            match end {
                RowEnd::Stored { seq, duplicate } => self.store(row, seq, duplicate),
                RowEnd::Failed(JetError::Unconfirmed { what: About::Row(_) }) => {
                    let body = left.iter().find(|(number, _)| *number == row);
                    let what = body.map_or(About::Row(row), |(_, body)| body.about(row));
                    self.results.failed(row, JetError::Unconfirmed { what });
                }
                RowEnd::Failed(error) => self.results.failed(row, error),
            }
        }
        self.results.flush();
        let mut kept = repair.left().iter().map(|row| row.row).peekable();
        left.retain(|(row, _)| kept.next_if_eq(row).is_some());
    }
}

impl Questions<'_> {
    async fn execute(
        &self,
        step: &RepairStep,
        repair: &Repair,
        left: &[RowToPublish],
        retry: &mut NoResponderRetry<'_>,
        floor: u64,
    ) -> Result<RepairEvent> {
        let inbox = self.conn.new_inbox()?;
        let subject = left.first().map_or_else(String::new, |(_, body)| body.subject().to_string());
        let action = async {
            match step {
                RepairStep::Send => self.send(&inbox, left).await,
                RepairStep::AskIds => self.ask_ids(left).await,
                RepairStep::FindBatch(batches) => self.find_batch(batches, left, floor).await,
                RepairStep::FindRow => self.find_row(left).await,
                RepairStep::Pause | RepairStep::Done => match repair.last_cause() {
                    Some(JetError::NoStream { .. }) => match retry.more(&subject).await {
                        true => RepairEvent::Paused,
                        false => RepairEvent::Late(retry.error(subject, self.window.timeout)),
                    },
                    _ => {
                        sleep(RETRY_INTERVAL).await;
                        RepairEvent::Paused
                    }
                },
            }
        };
        Ok(match (timeout_at(self.deadline, action).await, step) {
            (Ok(event), _) => event,
            (Err(_), RepairStep::Send) => RepairEvent::Lost(batch_id(&inbox).to_owned()),
            (Err(_), _) => RepairEvent::Late(silence(self.window.timeout)),
        })
    }
}
