//! Rows to publish and their results, shared by the modes of a batch.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use futures_util::{Stream, StreamExt};
use tokio::time::Instant;

use crate::publish::body::Body;
use crate::publish::puback::{Origin, PubAck};
use crate::publish::row_seqs::RowSeqs;
use crate::publish::rows::Rows;
use crate::publish::window::{ResultSink, RowToPublish};
use base::error::{JetError, Result};

/// Result of each row.
#[derive(Default)]
pub struct Outcome {
    pub stream: Option<String>,
    pub seqs: RowSeqs,
    pub errors: Vec<(u64, JetError)>,
    stored: u64,
    pub duplicates: u64,
    /// False if the server does not report which rows were duplicates.
    pub counts_duplicates: bool,
    mixed_streams: bool,
}

impl Outcome {
    /// Number of rows confirmed as stored so far, without duplicates.
    pub fn stored(&self) -> u64 {
        self.stored
    }

    pub fn note_stream(&mut self, stream: &str) {
        match &self.stream {
            None if !self.mixed_streams => self.stream = Some(stream.to_owned()),
            Some(known) if known != stream => {
                self.stream = None;
                self.mixed_streams = true;
            }
            _ => {}
        }
    }

    pub fn set_seq(&mut self, row: u64, seq: u64) {
        self.seqs.set(row as usize, seq as i64, false);
    }
}

/// Writer of an outcome; rows may complete in any order.
pub struct Fill<'a> {
    pub outcome: &'a mut Outcome,
    pub done: &'a AtomicU64,
}

impl Fill<'_> {
    /// Borrows the writer for another function.
    pub fn reborrow(&mut self) -> Fill<'_> {
        Fill { outcome: self.outcome, done: self.done }
    }

    /// Records a row that was stored, now or before.
    pub fn set_stored(&mut self, row: u64, seq: u64, duplicate: bool) {
        self.outcome.seqs.set(row as usize, seq as i64, duplicate);
        match duplicate {
            true => self.outcome.duplicates += 1,
            false => self.outcome.stored += 1,
        }
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the rows of an atomic batch, by the sequence of its last row.
    pub fn set_batch(&mut self, stream: &str, rows: &[RowToPublish], last: u64) {
        self.outcome.note_stream(stream);
        let first = (last + 1).saturating_sub(rows.len() as u64);
        for (seq, (row, _)) in (first..).zip(rows) {
            self.set_stored(*row, seq, false);
        }
    }
}

impl ResultSink for Fill<'_> {
    fn stored(&mut self, row: u64, _origin: &Arc<Origin>, seq: u64, duplicate: bool) {
        self.set_stored(row, seq, duplicate);
    }

    // The first ack of a stream always takes this path.
    fn stored_in_full(&mut self, row: u64, ack: PubAck) {
        self.outcome.note_stream(&ack.stream);
        self.set_stored(row, ack.seq, ack.duplicate);
    }

    fn failed(&mut self, row: u64, err: JetError) {
        self.outcome.seqs.reserve(row as usize);
        self.outcome.errors.push((row, err));
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Stream of row blocks. The next block is requested once the last is sent, so a lazily read input has one block in
/// memory.
pub type RowBlocks = Pin<Box<dyn Stream<Item = Result<Arc<Rows>>> + Send>>;

pub struct RowFeed {
    blocks: RowBlocks,
    block: Option<(Arc<Rows>, usize)>,
    row: u64,
}

impl RowFeed {
    pub fn new(blocks: RowBlocks) -> Self {
        RowFeed { blocks, block: None, row: 0 }
    }

    /// Returns the first block with rows, which remains to be sent.
    pub async fn first_block(&mut self) -> Result<Option<Arc<Rows>>> {
        while let Some(rows) = self.blocks.next().await.transpose()? {
            if rows.len > 0 {
                self.block = Some((rows.clone(), 0));
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }
}

/// A feed of rows.
pub trait RowSource: Stream<Item = Result<RowToPublish>> + Send + Unpin {
    /// Arrival of the last row.
    fn arrived(&self) -> Instant {
        Instant::now()
    }
}

impl RowSource for RowFeed {}

impl Stream for RowFeed {
    type Item = Result<RowToPublish>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let row = self.row;
            if let Some((rows, at)) = &mut self.block
                && *at < rows.len
            {
                let body = Body::Row(rows.clone(), *at);
                *at += 1;
                self.row += 1;
                return Poll::Ready(Some(Ok((row, body))));
            }
            match ready!(self.blocks.as_mut().poll_next(cx)) {
                Some(Ok(rows)) => self.block = Some((rows, 0)),
                Some(Err(err)) => return Poll::Ready(Some(Err(err))),
                None => return Poll::Ready(None),
            }
        }
    }
}
