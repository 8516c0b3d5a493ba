//! Publishing to a stream: one message with its ack, or rows under an in-flight window.

pub mod ack_tracker;
pub mod atomic;
pub mod body;
pub mod chunks;
pub mod content_ids;
pub mod dedup;
pub mod durable;
pub mod fast;
pub mod no_responders;
pub mod outcome;
pub mod pack;
pub mod puback;
pub mod publisher;
pub mod row_numbers;
pub mod row_seqs;
pub mod rows;
pub mod subject_template;
pub mod table;
pub mod window;

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use crate::api::{Api, StreamInfo};
use crate::publish::atomic::atomic;
use crate::publish::chunks::{Chunking, Target, chunked};
use crate::publish::fast::fast;
use crate::publish::no_responders::NoResponderRetry;
use crate::publish::outcome::{Fill, Outcome, RowBlocks, RowFeed};
use crate::publish::puback::PubAck;
use crate::publish::rows::{RowSubjects, Rows};
use crate::publish::window::{Window, run};
use base::choice::choose;
use base::error::{JetError, Result};
use client::Connection;
use client::request::Request;
use client::traffic::Verb;
use wire::nats::HeaderMap;

/// Wait before a request is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Publishes one message and waits for its ack. Retries 503 No Responders, see `no_responders`.
pub async fn publish(
    conn: &Connection,
    subject: String,
    payload: Bytes,
    headers: Option<HeaderMap>,
    prefix: String,
    timeout: Duration,
) -> Result<PubAck> {
    let deadline = Instant::now() + timeout;
    let mut retry = NoResponderRetry::new(conn, &prefix, deadline);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let (again, payload, headers) = (subject.clone(), payload.clone(), headers.clone());
        let request = Request { subject: again.into(), payload, headers, timeout: left, verb: Verb::Publisher };
        match conn.ask(request)?.await {
            Ok(answer) => return puback::parse(answer.payload()),
            Err(JetError::NoResponders { .. }) => {
                if !retry.more(&subject).await {
                    return Err(retry.error(subject, timeout));
                }
                conn.traffic.resent(Verb::Publisher);
            }
            Err(JetError::Timeout { what, .. }) => return Err(JetError::Timeout { what, after: timeout }),
            Err(other) => return Err(other),
        }
    }
}

/// Protocol of a batch publish.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Atomic batches of this many rows.
    Chunks(Chunking),
    /// One ack per row.
    Window,
    Fast,
    Atomic,
    /// `Fast` if server and stream support it, otherwise `Window`.
    Auto,
}

impl FromStr for Mode {
    type Err = JetError;

    fn from_str(word: &str) -> Result<Mode> {
        let known = [("window", Mode::Window), ("fast", Mode::Fast), ("atomic", Mode::Atomic), ("auto", Mode::Auto)];
        choose("mode", word, &known)
    }
}

/// Looks up the stream of the first row that has a subject. This must precede the first message: a server without these protocols stores
/// every message of a batch separately.
async fn find_stream(api: Api<'_>, rows: &Rows) -> Result<(String, StreamInfo)> {
    let stream = match &rows.expected_stream {
        Some(stream) => stream.to_string(),
        None => {
            let subject = (0..rows.len).find_map(|row| rows.subject(row));
            let none = || JetError::Row { row: 0, reason: "neither it nor any of the first rows has a subject".into() };
            api.stream_of(subject.ok_or_else(none)?).await?
        }
    };
    let info = api.stream_info(&stream).await?;
    Ok((stream, info))
}

pub async fn publish_batch(
    conn: &Connection,
    blocks: RowBlocks,
    mode: Mode,
    window: Window,
    done: Arc<AtomicU64>,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut feed = RowFeed::new(blocks);
    let (mode, target) = if mode == Mode::Window {
        (mode, None)
    } else {
        choose_mode(conn, &window.prefix, &mut feed, mode, window.timeout).await?
    };
    let mut fill = Fill { outcome: &mut outcome, done: &done };
    match mode {
        Mode::Chunks(chunking) => {
            if let Some((stream, info)) = target {
                chunked(conn, feed, &mut fill, &window, chunking, Target::new(stream, info)).await?;
            }
        }
        Mode::Atomic => atomic(conn, feed, &mut fill, &window).await?,
        Mode::Fast => fast(conn, feed, &mut fill, &window).await?,
        Mode::Window | Mode::Auto => run(conn, feed, fill, window).await?,
    }
    outcome.errors.sort_by_key(|(row, _)| *row);
    outcome.counts_duplicates = mode != Mode::Fast;
    Ok(outcome)
}

/// Checks that server and stream support the mode, and resolves `Auto`. Returns the stream too; none without rows.
async fn choose_mode(
    conn: &Connection,
    prefix: &str,
    feed: &mut RowFeed,
    mode: Mode,
    timeout: Duration,
) -> Result<(Mode, Option<(String, StreamInfo)>)> {
    let Some(rows) = feed.first_block().await? else { return Ok((Mode::Window, None)) };

    // A fast batch has one stream. Rows with subjects of their own may have several.
    let one_stream = rows.expected_stream.is_some() || matches!(rows.subjects, RowSubjects::One(_));
    if mode == Mode::Auto && !one_stream {
        return Ok((Mode::Window, None));
    }
    let lacks = |stream: String, flag: &str, since: &str| JetError::Unsupported {
        feature: format!("publish_batch(mode=\"{}\")", if mode == Mode::Fast { "fast" } else { "atomic" }),
        needs: format!("nats-server {since} or newer, and a stream with {flag}=True"),
        has: format!("stream {stream:?} has it off, on nats-server {}", conn.client.server_info().version),
    };
    let (breaks, deadline) = (conn.breaks(), Instant::now() + timeout);
    let found = loop {
        let asked = tokio::time::timeout_at(deadline, find_stream(Api::new(conn, prefix), &rows)).await;
        let late = |_| JetError::Timeout { what: "the question which stream takes the rows".into(), after: timeout };
        match asked.map_err(late).flatten() {
            // The request was lost with the link or with the cluster's leader, or the server has just started. It has no
            // side effects, so it is repeated.
            Err(err)
                if (err.is_unanswered() || err.is_transient() && conn.breaks() != breaks)
                    && Instant::now() < deadline =>
            {
                sleep(RETRY_PAUSE).await;
            }
            found => break found,
        }
    };
    match (mode, found) {
        (Mode::Auto, Ok((_, info))) if info.config.allow_batched => Ok((Mode::Fast, None)),
        (Mode::Auto, Err(err)) if Instant::now() >= deadline => Err(err),
        (Mode::Auto, _) => Ok((Mode::Window, None)),
        (_, Err(err)) => Err(err),
        (Mode::Fast, Ok((stream, info))) if !info.config.allow_batched => Err(lacks(stream, "allow_batched", "2.14")),
        (Mode::Atomic | Mode::Chunks(_), Ok((stream, info))) if !info.config.allow_atomic => {
            Err(lacks(stream, "allow_atomic", "2.12"))
        }
        (mode, Ok(found)) => Ok((mode, Some(found))),
    }
}
