//! Chunks without an answer, and how many there may be.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::filling::Unsent;
use super::questions::TOO_MANY_BATCHES;
use super::repair::RepairEvent;
use crate::publish::window::{RowToPublish, Window};
use base::error::JetError;
use client::congestion::queue_limit::QueueLimit;
use client::outbox::Outgoing;

/// Chunks in flight. A server allows 50 open batches of a stream by default, of all publishers.
const MAX_CHUNKS: usize = 40;
/// Rows in flight without a limit of the caller: a server queues 10,000 messages of a stream by default, of all
/// publishers.
const MAX_ROWS: usize = 8_192;
/// A chunk with ids is asked for, and sent again, after this silence: its leader may have been killed.
const PATIENCE_WITH_IDS: Duration = Duration::from_secs(3);
/// Stored chunks after which one more may be in flight, if the server refused one before.
const STORED_TO_GROW: usize = 100;

/// A chunk whose rows were sent, but for the last.
pub struct Chunk {
    pub unsent: Unsent,
    has_id: bool,
    /// Its batch id, and its number.
    pub id: String,
    pub place: u64,
    /// The last row, until it is sent.
    pub last: Option<Outgoing>,
    /// Its result, if it is known before its last row is sent.
    pub event: Option<RepairEvent>,
    /// Number of disconnects before its first row.
    pub breaks: u64,
    pub committed_at: Option<Instant>,
    /// A sequence from which on its rows are stored.
    pub floor: u64,
}

impl Chunk {
    pub fn new(unsent: Unsent, id: String, place: u64, breaks: u64) -> Self {
        let has_id = unsent.rows.iter().any(|(_, body)| body.has_id());
        Chunk { unsent, has_id, id, place, last: None, event: None, breaks, committed_at: None, floor: 0 }
    }

    pub fn rows(&self) -> &[RowToPublish] {
        &self.unsent.rows
    }

    /// The error of 503 No Responders.
    pub fn no_stream(&self) -> JetError {
        JetError::NoStream {
            subject: self.rows().first().map_or_else(String::new, |(_, body)| body.subject().to_string()),
        }
    }
}

pub struct InFlight {
    chunks: VecDeque<Chunk>,
    rows: usize,
    bytes: usize,
    /// Limits after the server refused rows or batches.
    row_limit: QueueLimit,
    chunk_limit: usize,
    stored: usize,
    max_bytes: usize,
}

impl InFlight {
    pub fn new(window: &Window) -> Self {
        InFlight {
            chunks: VecDeque::new(),
            rows: 0,
            bytes: 0,
            row_limit: QueueLimit::new(window.max_inflight.unwrap_or(MAX_ROWS)),
            chunk_limit: MAX_CHUNKS,
            stored: 0,
            max_bytes: window.max_bytes,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if the chunk may be sent. One is always allowed.
    pub fn has_room(&self, next: &Unsent) -> bool {
        self.chunks.is_empty()
            || self.chunks.len() < self.chunk_limit
                && self.rows + next.rows.len() <= self.row_limit.messages()
                && self.bytes + next.bytes <= self.max_bytes
    }

    pub fn first_mut(&mut self) -> Option<&mut Chunk> {
        self.chunks.front_mut()
    }

    /// True if the last row of the first chunk was sent.
    pub fn has_committed(&self) -> bool {
        self.chunks.front().is_some_and(|chunk| chunk.committed_at.is_some())
    }

    /// Time at which the answer of the first chunk is not waited for any longer.
    pub fn overdue_at(&self, timeout: Duration) -> Option<Instant> {
        let chunk = self.chunks.front()?;
        let patience = match chunk.has_id {
            true => timeout.min(PATIENCE_WITH_IDS),
            false => timeout,
        };
        let deadline = chunk.unsent.since.map(|since| since + timeout);
        let answer_by = chunk.committed_at? + patience;
        Some(deadline.map_or(answer_by, |deadline| deadline.min(answer_by)))
    }

    pub fn push(&mut self, chunk: Chunk) {
        self.rows += chunk.rows().len();
        self.bytes += chunk.unsent.bytes;
        self.chunks.push_back(chunk);
    }

    pub fn pop(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        self.rows -= chunk.rows().len();
        self.bytes -= chunk.unsent.bytes;
        Some(chunk)
    }

    /// Takes all chunks.
    pub fn take_all(&mut self) -> Vec<Chunk> {
        (self.rows, self.bytes) = (0, 0);
        std::mem::take(&mut self.chunks).into()
    }

    /// Takes all chunks if one began on an earlier connection.
    pub fn take_broken(&mut self, breaks: u64) -> Vec<Chunk> {
        match self.chunks.iter().any(|chunk| chunk.breaks != breaks) {
            true => self.take_all(),
            false => Vec::new(),
        }
    }

    /// True if a chunk was refused before its last row was sent.
    pub fn has_refused(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.event.is_some())
    }

    /// Records the answer to the first row of the chunk with this number.
    pub fn answered_first(&mut self, place: &str, event: impl FnOnce(&Chunk) -> Option<RepairEvent>) {
        let Ok(place) = place.parse::<u64>() else { return };
        if let Some(chunk) = self.chunks.iter_mut().find(|chunk| chunk.place == place && chunk.event.is_none()) {
            chunk.event = event(chunk);
        }
    }

    /// Takes the first chunk, which was stored.
    pub fn stored(&mut self) -> Option<Chunk> {
        let chunk = self.pop();
        self.row_limit.answered(Instant::now());
        self.stored += 1;
        if self.stored.is_multiple_of(STORED_TO_GROW) {
            self.chunk_limit = (self.chunk_limit + 1).min(MAX_CHUNKS);
        }
        chunk
    }

    /// Records a chunk that the server refused.
    pub fn refused(&mut self, event: &RepairEvent) {
        let RepairEvent::Busy(error) = event else { return };
        match error {
            JetError::Api { err_code: TOO_MANY_BATCHES, .. } => self.chunk_limit = (self.chunks.len() / 2).max(1),
            _ => self.row_limit.refused(self.rows, Instant::now()),
        }
    }
}
