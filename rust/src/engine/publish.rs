//! Publishing into a stream: one message with its ack, or rows under an in-flight window.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use futures_util::Stream;

use crate::engine::connect::Connection;
use crate::engine::puback::{self, PubAck};
use crate::engine::request::request;
use crate::engine::rows::{Body, Rows};
use crate::engine::window::{Item, Outlet, Window, run};
use crate::error::{JetError, Result};

/// Publishes one message and waits for its ack.
pub async fn publish(
    conn: &Connection,
    subject: String,
    payload: Bytes,
    headers: Option<HeaderMap>,
    timeout: Duration,
) -> Result<PubAck> {
    let answer = request(conn, subject.clone(), payload, headers, timeout).await.map_err(|err| match err {
        JetError::NoResponders { .. } => JetError::NoStream { subject },
        other => other,
    })?;
    puback::parse(&answer.payload)
}

/// What happened to each row. `seqs` is 0 where there is none.
#[derive(Default)]
pub struct Outcome {
    pub stream: Option<String>,
    pub seqs: Vec<i64>,
    pub duplicate: Vec<bool>,
    pub errors: Vec<(u64, JetError)>,
    pub duplicates: u64,
    mixed_streams: bool,
}

impl Outcome {
    pub fn stored(&self) -> u64 {
        self.seqs.len() as u64 - self.duplicates - self.errors.len() as u64
    }

    fn reserve(&mut self, row: u64) -> usize {
        let row = row as usize;
        if row >= self.seqs.len() {
            self.seqs.resize(row + 1, 0);
            self.duplicate.resize(row + 1, false);
        }
        row
    }
}

/// Fills an outcome; rows may end in any order.
struct Fill<'a> {
    outcome: &'a mut Outcome,
    done: &'a AtomicU64,
}

impl Outlet for Fill<'_> {
    fn stored(&mut self, row: u64, _stream: &str, seq: u64, duplicate: bool) {
        let row = self.outcome.reserve(row);
        self.outcome.seqs[row] = seq as i64;
        self.outcome.duplicate[row] = duplicate;
        self.outcome.duplicates += u64::from(duplicate);
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    // The first ack of a stream always comes here.
    fn stored_in_full(&mut self, row: u64, ack: &PubAck) {
        match &self.outcome.stream {
            None if !self.outcome.mixed_streams => self.outcome.stream = Some(ack.stream.clone()),
            Some(known) if *known != ack.stream => {
                self.outcome.stream = None;
                self.outcome.mixed_streams = true;
            }
            _ => {}
        }
        self.stored(row, &ack.stream, ack.seq, ack.duplicate);
    }

    fn failed(&mut self, row: u64, err: JetError) {
        self.outcome.reserve(row);
        self.outcome.errors.push((row, err));
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Blocks of rows, the next one asked for when the last is sent: of an input that is read as it goes, one block is here.
pub type Blocks = Pin<Box<dyn Stream<Item = Result<Arc<Rows>>> + Send>>;

struct RowFeed {
    blocks: Blocks,
    block: Option<(Arc<Rows>, usize)>,
    row: u64,
}

impl Stream for RowFeed {
    type Item = Result<Item>;

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

pub async fn publish_batch(conn: &Connection, blocks: Blocks, window: Window, done: Arc<AtomicU64>) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let feed = RowFeed { blocks, block: None, row: 0 };
    run(conn, feed, Fill { outcome: &mut outcome, done: &done }, window).await?;
    outcome.errors.sort_by_key(|(row, _)| *row);
    Ok(outcome)
}
