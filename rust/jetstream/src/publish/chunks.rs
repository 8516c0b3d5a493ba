//! Atomic batches for any number of rows (ADR-50): chunks of rows, each stored whole or not at all, in row order.
//!
//! The rows of several chunks are in flight, and the server stages them. The last row of a chunk commits it, and has its
//! answer; it is sent when the chunk before has ended. So a chunk that is repaired (`repair`) keeps its place, and after a
//! lost connection at most one chunk may be stored. A round trip for each chunk is the price: the server stages rows
//! meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep_until};

use crate::publish::atomic::{AtomicAck, batch_id, prepare, send};
use crate::publish::outcome::RowSource;
use crate::publish::puback::Origin;
use crate::publish::window::{ResultSink, RowToPublish, Window};
use base::error::{JetError, Result};
use client::Connection;
use client::refusals::Refusals;
use client::traffic::{InFlightGuard, Verb};
use wire::message::Message;

mod execute;
mod filling;
mod group_commit;
mod in_flight;
mod questions;
mod repair;
mod target;

use filling::{Arrival, Filling, Unsent};
use in_flight::{Chunk, InFlight};
use questions::event_of;
use repair::RepairEvent;
pub use target::Target;

/// Begin of the last token of the reply subject of a chunk's first row.
const FIRST_ROW: &str = "f";

/// How rows are grouped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chunking {
    /// Rows of a chunk.
    pub rows: usize,
    /// A rejected row leaves its chunk, which is sent again; otherwise the whole chunk is rejected.
    pub split: bool,
    /// Rows arrive one by one, each with a caller of its own: a chunk takes those that wait (`group_commit`), and a chunk
    /// without an answer does not end the feed.
    pub live: bool,
}

/// Publishes the whole feed.
pub async fn chunked(
    conn: &Connection,
    feed: impl RowSource,
    results: impl ResultSink,
    window: &Window,
    chunking: Chunking,
    target: Target,
) -> Result<()> {
    let inbox = conn.new_short_inbox()?;
    let mut answers = conn.subscribe(format!("{inbox}.*"))?;
    let (mut link, mut refusals, mut flying) = (conn.link.clone(), conn.refusals(), InFlightGuard::new(&conn.traffic));
    let mut chunks = Chunks {
        conn,
        feed,
        results,
        origin: Arc::new(Origin { stream: target.stream.clone(), domain: None }),
        is_noted: false,
        floor: target.last_seq + 1,
        window,
        chunking,
        target,
        inbox,
        places: 0,
        filling: Filling::default(),
        exhausted: false,
        again: VecDeque::new(),
        in_flight: InFlight::new(window),
        ended: None,
    };
    conn.in_order().await;
    loop {
        if let Some((chunk, event)) = chunks.ended.take() {
            match chunks.repair(chunk, event).await? {
                Some(cause) if !chunking.live || conn.link.borrow().closed => return chunks.give_up(&cause).await,
                _ => continue,
            }
        }
        chunks.send_at_hand().await?;
        chunks.results.flush();
        if chunks.ended.is_some() {
            continue;
        }
        if chunks.in_flight.is_empty() && chunks.exhausted && chunks.filling.is_empty() {
            return Ok(());
        }
        match chunking.live {
            true => flying.tell_publisher(chunks.in_flight.rows()),
            false => flying.tell(chunks.in_flight.rows(), chunks.in_flight.bytes()),
        }
        let deadline = chunks.in_flight.overdue_at(window.timeout);
        let waits = chunks.wants_rows();
        tokio::select! {
            biased;
            message = answers.next() => match message {
                Some(message) => chunks.take_answer(&message),
                None => return chunks.give_up(&conn.closed()).await,
            },
            item = chunks.feed.next(), if waits => chunks.take(item.transpose()?),
            Ok(()) = link.changed() => {
                if let Some(cause) = chunks.link_changed(&mut refusals) {
                    return chunks.give_up(&cause).await;
                }
            }
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => chunks.lose(),
        }
    }
}

struct Chunks<'a, F, R> {
    conn: &'a Connection,
    feed: F,
    results: R,
    window: &'a Window,
    chunking: Chunking,
    target: Target,
    origin: Arc<Origin>,
    /// The sink knows the stream.
    is_noted: bool,
    /// Inbox of the answers; the number of a chunk follows.
    inbox: String,
    /// Chunks so far.
    places: u64,
    filling: Filling,
    exhausted: bool,
    /// Chunks that were lost with a connection before their last row was sent.
    again: VecDeque<Unsent>,
    in_flight: InFlight,
    /// The first chunk and its result, if it was not simply stored.
    ended: Option<(Chunk, RepairEvent)>,
    /// Rows that are sent now are stored from this sequence on.
    floor: u64,
}

impl<F: RowSource, R: ResultSink> Chunks<'_, F, R> {
    fn is_full(&self) -> bool {
        self.filling.is_full(self.chunking.rows) || self.exhausted && !self.filling.is_empty()
    }

    fn wants_rows(&self) -> bool {
        !self.exhausted && !self.is_full()
    }

    /// Sends what there is room for: chunks without their last rows, and the last row of the first chunk.
    async fn send_at_hand(&mut self) -> Result<()> {
        while self.ended.is_none() {
            self.commit_first().await?;
            // After a refusal the next ones would be refused too, or take the place of this one.
            if self.in_flight.has_refused() || self.conn.link.borrow().moving {
                return Ok(());
            }
            if let Some(unsent) = self.again.pop_front() {
                if !self.in_flight.has_room(&unsent) {
                    self.again.push_front(unsent);
                    return Ok(());
                }
                self.stage(unsent).await?;
                continue;
            }
            while self.wants_rows()
                && let Some(item) = self.feed.next().now_or_never()
            {
                self.take(item.transpose()?);
            }
            if !self.is_full() && !self.takes_waiting() || !self.in_flight.has_room(self.filling.unsent()) {
                return Ok(());
            }
            if self.chunking.live {
                self.fail_overdue();
            }
            if self.filling.is_empty() {
                continue;
            }
            if self.is_better_alone() {
                if !self.in_flight.is_empty() {
                    return Ok(());
                }
                self.publish_waiting().await?;
            } else if let Some(unsent) = self.next_chunk() {
                self.stage(unsent).await?;
            }
        }
        Ok(())
    }

    /// Takes a row of the feed, or its end.
    fn take(&mut self, item: Option<RowToPublish>) {
        let Some((row, body)) = item else {
            self.exhausted = true;
            return;
        };
        let checked = filling::check(row, &body, self.conn.client.max_payload());
        match checked {
            Err(error) if self.chunking.split => self.results.failed(row, error),
            checked => {
                let alone = self.chunking.live && body.has_own_publish();
                self.filling.push(Arrival { row: (row, body), bad: checked.err(), at: self.feed.arrived(), alone });
            }
        }
    }

    /// The rows that are recorded next are in this stream.
    fn note_stream(&mut self, stream: &str) {
        if stream != self.origin.stream {
            (self.origin, self.is_noted) = (Arc::new(Origin { stream: stream.to_owned(), domain: None }), false);
        }
    }

    /// Records a row that the stream has.
    fn store(&mut self, row: u64, seq: u64, duplicate: bool) {
        // The sink notes the stream by the first one.
        if std::mem::replace(&mut self.is_noted, true) {
            self.results.stored(row, &self.origin, seq, duplicate);
        } else {
            self.results.stored_in_full(row, self.origin.ack(seq, duplicate));
        }
    }

    /// Takes the rows of the next chunk; none if it is rejected here.
    fn next_chunk(&mut self) -> Option<Unsent> {
        let (mut unsent, bad) = self.filling.take();
        unsent.since = self.chunking.live.then(Instant::now);
        let Some((bad, error)) = bad else { return Some(unsent) };
        for (row, _) in unsent.rows {
            self.results.failed(row, of_chunk(row, bad, &error));
        }
        None
    }

    /// Sends all rows of a chunk but the last.
    async fn stage(&mut self, unsent: Unsent) -> Result<()> {
        self.places += 1;
        let (place, id) = (self.places, format!("{}-{}", batch_id(&self.inbox), self.places));
        let (rows, last) = (&unsent.rows, unsent.rows.len());
        // The first row has an answer too: whether the server takes another batch.
        let reply = |row: usize| match row {
            row if row == last => Some(format!("{}.{place}", self.inbox)),
            1 => Some(format!("{}.{FIRST_ROW}{place}", self.inbox)),
            _ => None,
        };
        let prepared = prepare(rows, &id, self.conn.client.max_payload(), self.target.expected_by(rows), reply);
        let mut chunk = Chunk::new(unsent, id, place, self.conn.breaks());
        match prepared {
            Ok(mut messages) => {
                chunk.last = messages.pop();
                // A row that is not sent leaves the batch incomplete, and its last row is refused.
                if let Err(error) = send(self.conn, messages, chunk.unsent.time_left(self.window)).await {
                    chunk.event = Some(RepairEvent::Busy(error));
                }
            }
            Err(JetError::Batch { row, cause }) => {
                let at = chunk.rows().iter().position(|(number, _)| Some(*number) == row);
                chunk.event = Some(RepairEvent::Refused(at, *cause));
            }
            Err(error) => return Err(error),
        }
        self.in_flight.push(chunk);
        Ok(())
    }

    /// Sends the last row of the first chunk.
    async fn commit_first(&mut self) -> Result<()> {
        let (floor, window) = (self.floor, self.window);
        let Some(chunk) = self.in_flight.first_mut().filter(|chunk| chunk.committed_at.is_none()) else {
            return Ok(());
        };
        chunk.committed_at = Some(Instant::now());
        chunk.floor = floor;
        let event = match (chunk.event.take(), chunk.last.take()) {
            (None, Some(last)) => match send(self.conn, vec![last], chunk.unsent.time_left(window)).await {
                Ok(()) => return Ok(()),
                Err(error @ JetError::Timeout { .. }) => RepairEvent::Busy(error),
                Err(_) => RepairEvent::Lost(chunk.id.clone()),
            },
            (Some(event), _) => event,
            (None, None) => RepairEvent::Lost(chunk.id.clone()),
        };
        self.end_first(event);
        Ok(())
    }

    fn end_first(&mut self, event: RepairEvent) {
        self.ended = self.in_flight.pop().map(|chunk| (chunk, event));
    }

    /// Gives up the answer of the first chunk.
    fn lose(&mut self) {
        if let Some(event) = self.in_flight.first_mut().map(|chunk| RepairEvent::Lost(chunk.id.clone())) {
            self.end_first(event);
        }
    }

    /// Returns the reason why no further rows are sent, if there is one.
    fn link_changed(&mut self, refusals: &mut Refusals) -> Option<JetError> {
        let breaks = self.conn.breaks();
        if self.in_flight.has_committed() && self.in_flight.first_mut().is_some_and(|chunk| chunk.breaks != breaks) {
            self.lose();
        }
        // The batches of the others have no last row: they are not stored.
        for chunk in self.in_flight.take_broken(breaks).into_iter().rev() {
            self.again.push_front(chunk.unsent);
        }
        let refused = refusals.take_all();
        if let Some(cause) = refused.subscription(&format!("{}.*", self.inbox)) {
            return Some(cause.clone());
        }
        let chunk = self.in_flight.first_mut()?;
        let (at, (_, body)) = chunk.rows().iter().enumerate().next_back()?;
        let event = RepairEvent::Refused(Some(at), refused.publish(body.subject_text())?.clone());
        match chunk.committed_at {
            Some(_) => self.end_first(event),
            // The chunk before has ended, and is not repaired yet.
            None => chunk.event = Some(event),
        }
        None
    }

    fn take_answer(&mut self, message: &Message) {
        self.conn.traffic.received(Verb::PublishBatch, message.payload().len());
        let subject = message.subject();
        let place = subject.rsplit('.').next().unwrap_or_default();
        if let Some(place) = place.strip_prefix(FIRST_ROW) {
            return self.in_flight.answered_first(place, |chunk| first_event(message, chunk));
        }
        let place: Option<u64> = place.parse().ok();
        let Some(chunk) = self.in_flight.first_mut().filter(|chunk| Some(chunk.place) == place) else { return };
        let count = chunk.rows().len() as u64;
        let event = match serde_json::from_slice(message.payload()) {
            _ if message.status().is_some() => RepairEvent::Busy(chunk.no_stream()),
            Ok(AtomicAck { error: Some(error), stream, .. }) => {
                chunk.event.take().unwrap_or_else(|| event_of(None, error.of_stream(stream)))
            }
            Ok(AtomicAck { stream: Some(stream), seq: Some(last), count: Some(stored), .. }) if stored == count => {
                self.floor = self.floor.max(last + 1);
                // Its subjects may belong to another stream by now.
                self.note_stream(&stream);
                let Some(chunk) = self.in_flight.stored() else { return };
                for (seq, (row, _)) in ((last + 1).saturating_sub(count)..).zip(&chunk.unsent.rows) {
                    self.store(*row, seq, false);
                }
                return;
            }
            _ => RepairEvent::Lost(chunk.id.clone()),
        };
        self.end_first(event);
    }

    /// Fails the rows that are not stored and will not be.
    async fn give_up(mut self, cause: &JetError) -> Result<()> {
        if self.in_flight.has_committed() {
            self.lose();
        }
        if let Some((chunk, event)) = self.ended.take() {
            self.repair(chunk, event).await?;
        }
        let staged = self.in_flight.take_all().into_iter().map(|chunk| chunk.unsent);
        let staged = staged.chain(std::mem::take(&mut self.again)).flat_map(|unsent| unsent.rows);
        for (row, _) in staged.chain(self.filling.take_all()) {
            self.results.failed(row, cause.clone());
        }
        self.results.flush();
        while let Some((row, _)) = self.feed.next().await.transpose()? {
            self.results.failed(row, cause.clone());
            if self.chunking.live {
                self.results.flush();
            }
        }
        Ok(())
    }
}

/// Returns the refusal of a chunk by the answer to its first row.
fn first_event(message: &Message, chunk: &Chunk) -> Option<RepairEvent> {
    if message.status().is_some() {
        return Some(RepairEvent::Busy(chunk.no_stream()));
    }
    let AtomicAck { error, stream, .. } = serde_json::from_slice(message.payload()).ok()?;
    Some(event_of(Some(0), error?.of_stream(stream)))
}

/// The error of a row whose chunk has a bad row.
fn of_chunk(row: u64, bad: u64, error: &JetError) -> JetError {
    match row == bad {
        true => error.clone(),
        false => JetError::Batch { row: Some(bad), cause: Box::new(error.clone()) },
    }
}
