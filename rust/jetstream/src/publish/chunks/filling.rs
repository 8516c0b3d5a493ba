//! The next chunk: its rows are collected here.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use super::questions::EXPECTED_LAST_MSG_ID;
use crate::publish::body::Body;
use crate::publish::window::{RowToPublish, Window};
use base::error::{JetError, Result};

/// Rows of a chunk, and their size on the wire.
#[derive(Default)]
pub struct Unsent {
    pub rows: Vec<RowToPublish>,
    pub bytes: usize,
    /// Begin of the timeout of its rows; none for the rows of one call.
    pub since: Option<Instant>,
    /// Its row is published by itself.
    pub alone: bool,
}

impl Unsent {
    /// Time that is left to send the rows.
    pub fn time_left(&self, window: &Window) -> Duration {
        self.since.map_or(window.timeout, |since| (since + window.timeout).saturating_duration_since(Instant::now()))
    }
}

/// A row of the feed.
pub struct Arrival {
    pub row: RowToPublish,
    /// The reason why it cannot be sent.
    pub bad: Option<JetError>,
    pub at: Instant,
    pub alone: bool,
}

#[derive(Default)]
pub struct Filling {
    unsent: Unsent,
    /// Arrivals of the rows.
    times: Vec<Instant>,
    ids: HashSet<String>,
    /// A row that cannot be sent; its chunk is rejected with it.
    bad: Option<(u64, JetError)>,
    /// A row that begins the next chunk: its id is in this one already, or one of both is published by itself.
    held: Option<Arrival>,
}

impl Filling {
    pub fn is_empty(&self) -> bool {
        self.unsent.rows.is_empty()
    }

    /// True if the chunk takes no more rows.
    pub fn is_full(&self, rows: usize) -> bool {
        self.unsent.rows.len() >= rows || self.unsent.alone || self.held.is_some()
    }

    pub fn unsent(&self) -> &Unsent {
        &self.unsent
    }

    /// Adds a row.
    pub fn push(&mut self, arrival: Arrival) {
        // The server rejects a batch with an id twice; behind the first chunk the row is a duplicate.
        let known = arrival.row.1.msg_id().is_some_and(|id| self.ids.contains(id));
        if known || arrival.alone && !self.is_empty() {
            self.held = Some(arrival);
            return;
        }
        let Arrival { row: (row, body), bad, at, alone } = arrival;
        self.bad = self.bad.take().or_else(|| Some((row, bad?)));
        self.ids.extend(body.msg_id().map(str::to_owned));
        let unsent = &mut self.unsent;
        unsent.bytes += body.size();
        unsent.alone = alone;
        unsent.rows.push((row, body));
        self.times.push(at);
    }

    /// Takes the chunk, and its row that cannot be sent. The row that it held begins the next one.
    pub fn take(&mut self) -> (Unsent, Option<(u64, JetError)>) {
        let Filling { unsent, bad, held, .. } = std::mem::take(self);
        if let Some(arrival) = held {
            self.push(arrival);
        }
        (unsent, bad)
    }

    /// Takes the rows that arrived before this time.
    pub fn take_earlier(&mut self, time: Instant) -> Vec<RowToPublish> {
        // Rows arrive in order.
        let earlier = self.times.partition_point(|at| *at < time);
        self.times.drain(..earlier);
        let taken: Vec<_> = self.unsent.rows.drain(..earlier).collect();
        self.unsent.bytes -= taken.iter().map(|(_, body)| body.size()).sum::<usize>();
        if self.is_empty() {
            // The row that is held is the first one now.
            self.take();
        }
        taken
    }

    /// Takes all rows.
    pub fn take_all(&mut self) -> impl Iterator<Item = RowToPublish> + use<> {
        let Filling { unsent, held, .. } = std::mem::take(self);
        unsent.rows.into_iter().chain(held.map(|arrival| arrival.row))
    }
}

/// Checks a row before it is sent.
pub fn check(row: u64, body: &Body, max_payload: usize) -> Result<()> {
    body.check(row, max_payload)?;
    if body.payload().is_none() {
        return Err(body.no_payload(row));
    }
    if body.has_header(EXPECTED_LAST_MSG_ID) {
        let reason = format!("mode=\"atomic\" cannot take the header {EXPECTED_LAST_MSG_ID}");
        return Err(JetError::Row { row, reason });
    }
    Ok(())
}
