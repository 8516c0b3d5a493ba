//! Atomic batch publish (ADR-50): the server stores all rows in order and adjacent, or none.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::StreamExt;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use crate::api::{ApiError, MAX_ATOMIC_ROWS};
use crate::publish::no_responders::NoResponderRetry;
use crate::publish::outcome::{Fill, RowFeed};
use crate::publish::window::{RowToPublish, Window};
use base::error::{About, JetError, Result};
use client::Connection;
use client::outbox::Outgoing;
use client::refusals::Refusal;
use client::traffic::{InFlightGuard, Verb};
use wire::arena::Arena;
use wire::message::Message;
use wire::nats::HeaderMap;
use wire::nats::header::NATS_EXPECTED_STREAM;
use wire::size::check_size;

#[derive(Deserialize)]
pub struct AtomicAck {
    pub error: Option<ApiError>,
    pub stream: Option<String>,
    pub seq: Option<u64>,
    pub count: Option<u64>,
}

pub async fn atomic(conn: &Connection, mut feed: RowFeed, results: &mut Fill<'_>, window: &Window) -> Result<()> {
    let mut rows = Vec::new();
    while let Some(item) = feed.next().await.transpose()? {
        if rows.len() == MAX_ATOMIC_ROWS {
            return Err(JetError::Value(format!("mode=\"atomic\" takes at most {MAX_ATOMIC_ROWS} rows in a call")));
        }
        rows.push(item);
    }
    check(conn, &rows)?;
    if rows.is_empty() {
        return Ok(());
    }
    let timeout = window.timeout;
    let deadline = Instant::now() + timeout;
    let mut retry = NoResponderRetry::new(conn, &window.prefix, deadline);
    loop {
        match timeout_at(deadline, attempt(conn, &conn.new_inbox()?, &rows, None, timeout)).await {
            Err(_) => {
                return Err(late(timeout));
            }
            Ok(Ok(Committed { stream, last })) => {
                results.set_batch(&stream, &rows, last);
                return Ok(());
            }
            // The server has stored no row, and the stream may be without a leader for a moment.
            Ok(Err(JetError::Batch { row, cause })) => {
                let JetError::NoStream { subject } = *cause else { return Err(JetError::Batch { row, cause }) };
                if !retry.more(&subject).await {
                    return Err(refused(row, retry.error(subject, timeout)));
                }
            }
            Ok(Err(other)) => return Err(other),
        }
    }
}

/// A stored batch: its stream, and the sequence of its last row.
pub struct Committed {
    pub stream: String,
    pub last: u64,
}

/// Returns the id of the batch whose responses go to this inbox.
pub fn batch_id(inbox: &str) -> &str {
    inbox.rsplit('.').next().unwrap_or_default()
}

/// Publishes the batch once, and waits for the response to its last row. Every row has a reply subject, so that an error
/// names its row where the server checks rows one by one.
pub async fn attempt(
    conn: &Connection,
    inbox: &str,
    rows: &[RowToPublish],
    expected: Option<&str>,
    within: Duration,
) -> Result<Committed> {
    let every = |place: usize| Some(format!("{inbox}.{place}"));
    let messages = prepare(rows, batch_id(inbox), conn.client.max_payload(), expected, every)?;
    let subscription = format!("{inbox}.*");
    let mut refusals = conn.refusals();
    conn.in_order().await;
    let mut answers = conn.subscribe(subscription.clone())?;
    let breaks = conn.breaks();
    let mut flying = InFlightGuard::new(&conn.traffic);
    flying.tell(rows.len(), rows.iter().map(|(_, body)| body.size()).sum());
    send(conn, messages, within).await?;
    let mut link = conn.link.clone();
    loop {
        tokio::select! {
            biased;
            message = answers.next() => {
                let message = message.ok_or_else(|| conn.closed())?;
                conn.traffic.received(Verb::PublishBatch, message.payload().len());
                if let Some(committed) = take_answer(&message, rows)? {
                    return Ok(committed);
                }
            }
            Ok(()) = link.changed() => {
                if conn.breaks() != breaks {
                    return Err(JetError::Unconfirmed { what: About::Other("the atomic batch".into()) });
                }
                check_refused(&refusals.take_all(), &subscription, rows)?;
            }
        }
    }
}

fn late(after: Duration) -> JetError {
    JetError::Timeout { what: "the atomic batch (all of it is stored, or nothing)".into(), after }
}

fn refused(row: Option<u64>, cause: JetError) -> JetError {
    JetError::Batch { row, cause: Box::new(cause) }
}

/// Builds the messages with the batch headers. None exceeds `max_payload`, because the server would close the
/// connection.
///
/// `expected` is a stream that must store rows which do not name one; `reply` gives the reply subject by place, from 1.
pub fn prepare(
    rows: &[RowToPublish],
    id: &str,
    max_payload: usize,
    expected: Option<&str>,
    reply: impl Fn(usize) -> Option<String>,
) -> Result<Vec<Outgoing>> {
    let mut arena = Arena::default();
    let message = |(index, (row, body)): (usize, &RowToPublish)| {
        let place = index + 1;
        let mut headers = body.wire_headers().unwrap_or_else(HeaderMap::new);
        if let Some(stream) = expected.filter(|_| headers.get(NATS_EXPECTED_STREAM).is_none()) {
            headers.insert(NATS_EXPECTED_STREAM, stream);
        }
        headers.insert("Nats-Batch-Id", id);
        headers.insert("Nats-Batch-Sequence", place.to_string().as_str());
        if place == rows.len() {
            headers.insert("Nats-Batch-Commit", "1");
        }
        let payload = body.wire_payload(&mut arena).unwrap_or_default();
        check_size(|| About::Row(*row), payload.len(), Some(&headers), max_payload)
            .map_err(|err| refused(Some(*row), err))?;
        let reply = reply(place).map(Into::into);
        Ok(Outgoing { subject: body.subject(), reply, headers: Some(headers), payload })
    };
    rows.iter().enumerate().map(message).collect()
}

pub async fn send(conn: &Connection, messages: Vec<Outgoing>, timeout: Duration) -> Result<()> {
    for message in messages {
        conn.traffic.sent(Verb::PublishBatch, message.payload.len());
        conn.publish(message, timeout).await?;
    }
    Ok(())
}

/// Returns an error if the server denied a row or the replies.
fn check_refused(found: &Refusal, subscription: &str, rows: &[RowToPublish]) -> Result<()> {
    if let Some(cause) = found.subscription(subscription) {
        return Err(refused(None, cause.clone()));
    }
    match rows.iter().find_map(|(row, body)| Some((*row, found.publish(body.subject().as_str())?))) {
        Some((row, cause)) => Err(refused(Some(row), cause.clone())),
        None => Ok(()),
    }
}

/// Handles one response; the end of the batch once it is stored.
fn take_answer(message: &Message, rows: &[RowToPublish]) -> Result<Option<Committed>> {
    let place = message.subject().rsplit('.').next().and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
    let row = rows.get(place.wrapping_sub(1)).map(|(row, _)| *row);
    if message.status().is_some() {
        let subject = rows.first().map_or_else(String::new, |(_, body)| body.subject().to_string());
        return Err(refused(row, JetError::NoStream { subject }));
    }
    if message.payload().is_empty() {
        return Ok(None);
    }
    let last = place == rows.len();
    match serde_json::from_slice(message.payload()) {
        // The server checks the commit as a whole, and its error names no row.
        Ok(AtomicAck { error: Some(error), stream, .. }) => {
            Err(refused(row.filter(|_| !last), error.of_stream(stream)))
        }
        Ok(AtomicAck { stream: Some(stream), seq: Some(last), count: Some(count), .. })
            if place == rows.len() && count == rows.len() as u64 =>
        {
            Ok(Some(Committed { stream, last }))
        }
        _ => Ok(None),
    }
}

/// Checks the rows before the first message is sent.
fn check(conn: &Connection, rows: &[RowToPublish]) -> Result<()> {
    let mut ids = HashSet::new();
    for (row, body) in rows {
        body.check(*row, conn.client.max_payload()).map_err(|err| refused(Some(*row), err))?;
        if body.payload().is_none() {
            return Err(refused(Some(*row), body.no_payload(*row)));
        }
        if body.msg_id().is_some_and(|id| !ids.insert(id)) {
            return Err(refused(
                Some(*row),
                JetError::Row { row: *row, reason: "its message id is there twice".into() },
            ));
        }
    }
    Ok(())
}
