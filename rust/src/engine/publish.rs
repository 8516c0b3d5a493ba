//! Publishing into a stream: one message with its ack, or rows under an in-flight window.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use serde::Deserialize;
use serde_json::json;

use crate::engine::atomic::atomic;
use crate::engine::connect::Connection;
use crate::engine::fast::fast;
use crate::engine::puback::{self, PubAck};
use crate::engine::request::{api, request};
use crate::engine::rows::{Body, Rows, Subjects};
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
    /// False: the server does not tell which rows were duplicates.
    pub counts_duplicates: bool,
    mixed_streams: bool,
}

impl Outcome {
    pub fn stored(&self) -> u64 {
        self.seqs.len() as u64 - self.duplicates - self.errors.len() as u64
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
        let row = self.reserve(row);
        self.seqs[row] = seq as i64;
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
pub struct Fill<'a> {
    pub outcome: &'a mut Outcome,
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
        self.outcome.note_stream(&ack.stream);
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

pub struct RowFeed {
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

/// How a batch goes to the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// An ack for every row.
    Window,
    Fast,
    Atomic,
    /// `Fast` where server and stream allow it, else `Window`.
    Auto,
}

/// What a stream's configuration says about batches; a server that does not know a flag never shows it.
#[derive(Default, Deserialize)]
struct Allowed {
    #[serde(default)]
    allow_batched: bool,
    #[serde(default)]
    allow_atomic: bool,
}

#[derive(Deserialize)]
struct StreamInfo {
    config: Allowed,
}

#[derive(Deserialize)]
struct Names {
    streams: Option<Vec<String>>,
}

/// Looks the stream of the first row up. It matters that this comes before the first message: servers that do not know
/// these protocols store every message of a batch on its own.
async fn allowed(conn: &Connection, prefix: &str, rows: &Rows) -> Result<(String, Allowed)> {
    let stream = match &rows.expected_stream {
        Some(stream) => stream.to_string(),
        None => {
            let subject = rows.subject(0).unwrap_or_default();
            let names: Names = api(conn, prefix, "STREAM.NAMES", &json!({"subject": subject})).await?;
            let first = names.streams.unwrap_or_default().into_iter().next();
            first.ok_or_else(|| JetError::NoStream { subject: subject.to_owned() })?
        }
    };
    let info: StreamInfo = api(conn, prefix, &format!("STREAM.INFO.{stream}"), &serde_json::Value::Null).await?;
    Ok((stream, info.config))
}

pub async fn publish_batch(
    conn: &Connection,
    prefix: &str,
    blocks: Blocks,
    mode: Mode,
    window: Window,
    done: Arc<AtomicU64>,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut feed = RowFeed { blocks, block: None, row: 0 };
    let mode = if mode == Mode::Window { mode } else { settle(conn, prefix, &mut feed, mode).await? };
    let mut fill = Fill { outcome: &mut outcome, done: &done };
    match mode {
        Mode::Atomic => atomic(conn, feed, &mut fill, window.timeout).await?,
        Mode::Fast => fast(conn, feed, &mut fill, &window).await?,
        Mode::Window | Mode::Auto => run(conn, feed, fill, window).await?,
    }
    outcome.errors.sort_by_key(|(row, _)| *row);
    outcome.counts_duplicates = mode != Mode::Fast;
    Ok(outcome)
}

/// Checks that server and stream can do it, and settles what `Auto` means.
async fn settle(conn: &Connection, prefix: &str, feed: &mut RowFeed, mode: Mode) -> Result<Mode> {
    let Some(rows) = feed.blocks.next().await.transpose()? else { return Ok(Mode::Window) };
    feed.block = Some((rows.clone(), 0));
    if rows.len == 0 {
        return Ok(Mode::Window);
    }
    // A fast batch goes to one stream; rows that name their own subject may go to several.
    let one_stream = rows.expected_stream.is_some() || matches!(rows.subjects, Subjects::One(_));
    if mode == Mode::Auto && !one_stream {
        return Ok(Mode::Window);
    }
    let lacks = |stream: String, flag: &str, since: &str| JetError::Unsupported {
        feature: format!("publish_batch(mode=\"{}\")", if mode == Mode::Atomic { "atomic" } else { "fast" }),
        needs: format!("nats-server {since} or newer, and a stream with {flag}=True"),
        has: format!("stream {stream:?} has it off, on nats-server {}", conn.client.server_info().version),
    };
    match (mode, allowed(conn, prefix, &rows).await) {
        (Mode::Auto, Ok((_, Allowed { allow_batched: true, .. }))) => Ok(Mode::Fast),
        (Mode::Auto, _) => Ok(Mode::Window),
        (_, Err(err)) => Err(err),
        (Mode::Fast, Ok((stream, allowed))) if !allowed.allow_batched => Err(lacks(stream, "allow_batched", "2.14")),
        (Mode::Atomic, Ok((stream, allowed))) if !allowed.allow_atomic => Err(lacks(stream, "allow_atomic", "2.12")),
        (mode, Ok(_)) => Ok(mode),
    }
}
