//! Fast ingest (ADR-50): one ack for several hundred rows, and a final ack with the number of stored rows.
//!
//! Rows are sent under a window, and kept until they are confirmed. Gap mode `fail` makes the count of the final ack
//! exact: the first rejected or lost row ends the batch. The server has stored none of the rows after it, so they are
//! sent in a new batch. Every row therefore ends as stored or as an error, in order and without duplicates.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until};

use crate::publish::dedup::DuplicateWindows;
use crate::publish::no_responders::{NoResponderRetry, RETRY_INTERVAL};
use crate::publish::outcome::{Fill, RowFeed};
use crate::publish::window::{ResultSink, Window, run};
use base::error::{JetError, Result};
use client::Connection;
use client::refusals::Refusals;
use client::traffic::{InFlightGuard, Verb};
use wire::message::Message;

mod batch;
mod growth;
mod rows;

use batch::{BatchOperation, FastBatch, FastRow, FlowReply};
use growth::Growth;

/// Silence after which the batch is pinged. The server drops a batch that is idle for 10 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3);
/// Consecutive batches without a stored row, after which the rest is sent in mode window. That mode reports every
/// rejected row, a batch only the first.
const MAX_EMPTY_BATCHES: u32 = 3;

/// Result of a batch.
enum BatchEnd {
    /// Its rows are stored or assigned to the next batch.
    Complete,
    /// The batch did not start: its first row was answered with 503 No Responders.
    Unheard,
    /// It ended early because of rows that have their errors.
    Refused,
    /// Unanswered rows got this error, and no further batch follows.
    Abandoned(JetError),
}

/// Publishes the whole feed.
pub async fn fast(conn: &Connection, feed: RowFeed, results: &mut Fill<'_>, window: &Window) -> Result<()> {
    let growth = Growth::new(conn, window);
    let duplicates = DuplicateWindows::default();
    let mut fast =
        Fast { conn, feed, results, window, growth, again: VecDeque::new(), duplicates, any: false, heard: true };
    let (mut empty, mut retry) = (0, None);
    while let Some(item) = fast.next().await? {
        let (before, subject) = (fast.results.outcome.stored(), item.body.subject().to_string());
        let end = unconstrained(fast.one_batch(item)).await?;
        if matches!(end, BatchEnd::Unheard) {
            let new = || NoResponderRetry::new(conn, &window.prefix, Instant::now() + window.timeout);
            // If a retry is pointless, the next attempt is the last.
            fast.heard = retry.get_or_insert_with(new).more(&subject).await;
            continue;
        }
        (retry, fast.heard) = (None, true);
        empty = if fast.results.outcome.stored() > before { 0 } else { empty + 1 };
        match end {
            // The window mode would not know that a row may be stored already.
            BatchEnd::Refused if empty >= MAX_EMPTY_BATCHES && fast.again.iter().all(|row| row.first.is_none()) => {
                let Fast { feed, results, again, .. } = fast;
                let again = again.into_iter().map(|row| Ok((row.number, row.body)));
                let rest = futures_util::stream::iter(again).chain(feed);
                return run(conn, rest, results.reborrow(), window.clone()).await;
            }
            BatchEnd::Complete | BatchEnd::Unheard | BatchEnd::Refused => {}
            // The connection is closed, or the server is silent.
            BatchEnd::Abandoned(cause) => {
                while let Some(row) = fast.next().await? {
                    fast.results.failed(row.number, row.unsent(&cause));
                }
            }
        }
    }
    Ok(())
}

struct Fast<'a, 'o> {
    conn: &'a Connection,
    feed: RowFeed,
    results: &'a mut Fill<'o>,
    window: &'a Window,
    growth: Growth,
    /// Rows that a batch which ended early did not store, or may have stored.
    again: VecDeque<FastRow>,
    duplicates: DuplicateWindows,
    /// A row was stored, so later errors belong to single rows.
    any: bool,
    /// If the first row of a batch is answered with 503 No Responders, it is retried.
    heard: bool,
}

impl Fast<'_, '_> {
    /// Publishes one batch that starts with `first`.
    async fn one_batch(&mut self, first: FastRow) -> Result<BatchEnd> {
        let mut refusals = self.conn.refusals();
        let mut batch = match FastBatch::open(self.conn, self.window, &first).await {
            Ok(batch) => batch,
            Err(cause) if self.any => {
                self.results.failed(first.number, first.unsent(&cause));
                return Ok(BatchEnd::Abandoned(cause));
            }
            Err(cause) => return Err(cause),
        };
        if let Err(cause) = batch.send(self.conn, first, BatchOperation::Start).await {
            return Ok(self.abandon(&mut batch, cause));
        }
        // Read after the first row is sent: an earlier disconnect lost no row of the batch.
        batch.breaks = self.conn.breaks();
        (batch.begun, batch.last_answer) = (Instant::now(), Instant::now());
        self.growth.begin(&batch);
        let mut link = self.conn.link.clone();
        let pause = IDLE_TIMEOUT.min(self.window.timeout / 3);
        let mut asked = batch.last_answer;
        let mut flying = InFlightGuard::new(&self.conn.traffic);
        loop {
            let sent = match self.send_at_hand(&mut batch).await? {
                Ok(()) => batch.close_if_done(self.conn).await,
                stuck => stuck,
            };
            if let Err(cause) = sent {
                return Ok(self.abandon(&mut batch, cause));
            }
            flying.tell(batch.rows.len(), batch.bytes);
            let end = tokio::select! {
                biased;
                message = batch.answers.next() => match message {
                    Some(message) => self.take_answer(&mut batch, &message)?,
                    None => Some(self.abandon(&mut batch, self.conn.closed())),
                },
                // The feed is slower than the server: its next row is sent as soon as it arrives.
                item = self.next(), if batch.is_hungry(self.window, self.growth.bytes()) => {
                    batch.now = Instant::now();
                    let sent = self.add(&mut batch, item?).await;
                    sent.err().map(|cause| self.abandon(&mut batch, cause))
                }
                Ok(()) = link.changed() => self.link_changed(&mut batch, &mut refusals)?,
                () = sleep_until(batch.last_answer.max(asked) + if batch.no_responders { RETRY_INTERVAL } else { pause }) => {
                    asked = Instant::now();
                    self.silence(&mut batch).await?
                }
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// Sends the available rows.
    ///
    /// It waits until the server has accepted the batch: an older server would store every row separately. The outer
    /// error is the feed's, the inner one a failed send.
    async fn send_at_hand(&mut self, batch: &mut FastBatch) -> Result<Result<()>> {
        batch.now = Instant::now();
        while batch.is_hungry(self.window, self.growth.bytes()) {
            let ready = match self.next_again().await {
                Some(row) => Some(Some(row)),
                None => self.next().now_or_never().transpose()?,
            };
            match ready {
                Some(item) => {
                    let sent = self.add(batch, item).await;
                    if sent.is_err() {
                        return Ok(sent);
                    }
                }
                None => return Ok(Ok(())),
            }
        }
        if batch.accepted && !batch.exhausted {
            self.growth.is_full(batch);
        }
        Ok(Ok(()))
    }

    /// Sends the row, or keeps it until others are confirmed.
    async fn add(&mut self, batch: &mut FastBatch, item: Option<FastRow>) -> Result<()> {
        match item {
            Some(item) if batch.fits(&item, self.window) => batch.send(self.conn, item, BatchOperation::Add).await,
            Some(item) => {
                self.again.push_front(item);
                batch.wait_for_room();
                Ok(())
            }
            None => {
                batch.exhausted = true;
                Ok(())
            }
        }
    }

    fn link_changed(&mut self, batch: &mut FastBatch, refusals: &mut Refusals) -> Result<Option<BatchEnd>> {
        if self.conn.breaks() != batch.breaks {
            // The server keeps the batch for 10 s. The final ack reports the stored rows.
            (batch.broken, batch.accepted) = (true, true);
        }
        if self.conn.link.borrow().closed {
            return Ok(Some(self.abandon(batch, self.conn.closed())));
        }
        let refused = refusals.take_all();
        let Some(cause) = refused.publish(&batch.subject).or_else(|| refused.subscription(&batch.inbox)) else {
            return Ok(None);
        };
        let cause = cause.clone();
        if batch.accepted {
            return Ok(Some(self.abandon(batch, cause)));
        }
        self.end_at_start(batch, cause)
    }

    /// Handles a period without an answer.
    async fn silence(&mut self, batch: &mut FastBatch) -> Result<Option<BatchEnd>> {
        if batch.last_answer.elapsed() > self.window.timeout {
            let what = "the publish (the server has been silent)".to_owned();
            let end = self.abandon(batch, JetError::Timeout { what, after: self.window.timeout });
            // A server that rejects all messages does so with the next batch too, and with the cause for each row.
            return Ok(Some(if batch.rejected { BatchEnd::Refused } else { end }));
        }
        if batch.accepted && self.conn.link.borrow().up {
            // A ping recovers a lost ack and keeps the batch. A lost end is repeated.
            if let Err(cause) = batch.ping_or_close(self.conn).await {
                return Ok(Some(self.abandon(batch, cause)));
            }
            if !batch.closing && batch.rows.is_empty() {
                // The feed was slow, not the server.
                batch.last_answer = Instant::now();
            }
        }
        Ok(None)
    }

    fn take_answer(&mut self, batch: &mut FastBatch, message: &Message) -> Result<Option<BatchEnd>> {
        self.conn.traffic.received(Verb::PublishBatch, message.payload().len());
        let (now, before) = (Instant::now(), batch.last_answer);
        batch.last_answer = now;
        match batch.parse(message) {
            FlowReply::Note => Ok(None),
            FlowReply::Ack(seq) => {
                self.on_ack(batch, seq);
                Ok(None)
            }
            FlowReply::Nobody(_) if !batch.accepted && self.heard => {
                // The stream has no leader, perhaps only for a moment. The batch did not start, so no row is stored.
                self.finish(batch);
                Ok(Some(BatchEnd::Unheard))
            }
            FlowReply::Nobody(place) if batch.accepted => {
                batch.lost = batch.lost.min(place.unwrap_or(u64::MAX));
                // The leader is gone. The batch ends as soon as there is a new one. 503 No Responders does not count as
                // an answer.
                (batch.last_answer, batch.no_responders, batch.broken) = (before, true, true);
                Ok(None)
            }
            FlowReply::Nobody(_) => {
                let err = JetError::NoStream { subject: batch.subject.to_string() };
                self.end_at_start(batch, err)
            }
            FlowReply::Refused(1, err) => self.end_at_start(batch, err),
            FlowReply::Refused(seq, err) => {
                batch.refused.insert(seq, err);
                Ok(None)
            }
            FlowReply::Rejected => {
                // For the timeout it is no answer.
                (batch.last_answer, batch.rejected) = (before, true);
                Ok(None)
            }
            FlowReply::RowUnknown(place) => {
                // The end reports what another server, or another stream, has stored of the batch.
                (batch.lost, batch.broken) = (batch.lost.min(place), true);
                Ok(None)
            }
            FlowReply::EndUnknown => {
                // The server stored neither these rows nor any row after them.
                let refused = batch.refused.keys().next().copied();
                self.end_unconfirmed(batch, batch.lost.min(refused.unwrap_or(u64::MAX)));
                let end = batch.end();
                self.finish(batch);
                Ok(Some(end))
            }
            FlowReply::BatchEnd { stream, seq, count } => Ok(Some(self.on_batch_end(batch, &stream, seq, count))),
        }
    }

    fn on_ack(&mut self, batch: &mut FastBatch, seq: u64) {
        if !std::mem::replace(&mut batch.accepted, true) {
            self.growth.accepted(batch, self.conn);
        }
        self.growth.confirmed(seq, batch, self.conn);
        self.any |= seq > 0;
        batch.no_responders = false;
        self.confirm(batch, seq);
    }

    fn on_batch_end(&mut self, batch: &mut FastBatch, stream: &str, seq: u64, count: u64) -> BatchEnd {
        self.any = true;
        self.results.outcome.note_stream(stream);
        self.duplicates.note(stream);
        self.confirm(batch, count);
        // The server reports only the sequence of the last row that it stored, and only if it rejected none.
        if count == batch.sent
            && let Some(row) = batch.last_row
        {
            self.results.outcome.set_seq(row, seq);
        }
        let end = batch.end();
        self.finish(batch);
        end
    }

    /// Ends a batch that was rejected at its start. It has no final ack.
    fn end_at_start(&mut self, batch: &mut FastBatch, err: JetError) -> Result<Option<BatchEnd>> {
        if !self.any {
            return Err(JetError::Batch { row: None, cause: Box::new(err) });
        }
        batch.refused.insert(1, err);
        self.finish(batch);
        Ok(Some(BatchEnd::Refused))
    }

    fn confirm(&mut self, batch: &mut FastBatch, seq: u64) {
        while batch.confirmed < seq {
            let Some((row, _)) = batch.rows.pop_front() else { return };
            batch.confirmed += 1;
            batch.bytes = batch.bytes.saturating_sub(row.body.size());
            batch.no_room = false;
            // With an id it may be a duplicate, whose sequence is another one.
            batch.last_row = (!row.body.has_id()).then_some(row.number);
            self.results.set_stored(row.number, 0, false);
        }
    }
}
