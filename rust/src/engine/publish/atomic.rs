//! An atomic batch (ADR-50): all rows are stored, in order and side by side, or none is.

use std::collections::HashSet;
use std::time::Duration;

use async_nats::HeaderMap;
use futures_util::StreamExt;
use serde::Deserialize;

use crate::engine::api::{ApiError, MAX_ATOMIC_ROWS};
use crate::engine::connection::Connection;
use crate::engine::publish::outcome::{Fill, RowFeed};
use crate::engine::publish::window::{Item, Outlet};
use crate::error::{About, JetError, Result};

#[derive(Deserialize)]
struct Answer {
    error: Option<ApiError>,
    stream: Option<String>,
    seq: Option<u64>,
    count: Option<u64>,
}

pub async fn atomic(conn: &Connection, mut feed: RowFeed, outlet: &mut Fill<'_>, timeout: Duration) -> Result<()> {
    let mut rows = Vec::new();
    while let Some(item) = feed.next().await.transpose()? {
        if rows.len() == MAX_ATOMIC_ROWS {
            return Err(JetError::Value(format!("mode=\"atomic\" takes at most {MAX_ATOMIC_ROWS} rows in a call")));
        }
        rows.push(item);
    }
    let refuse = |row: Option<u64>, cause: JetError| JetError::Batch { row, cause: Box::new(cause) };
    check(conn, &rows)?;
    if rows.is_empty() {
        return Ok(());
    }
    let inbox = conn.client.new_inbox();
    let mut refusals = conn.refusals();
    conn.in_order().await;
    let mut answers = conn.client.subscribe(format!("{inbox}.*")).await.map_err(|_| conn.closed())?;
    let breaks = conn.breaks();
    let id = inbox.rsplit('.').next().unwrap_or_default();
    for (index, (_, body)) in rows.iter().enumerate() {
        let place = index + 1;
        let mut headers = body.wire_headers().unwrap_or_else(HeaderMap::new);
        headers.insert("Nats-Batch-Id", id);
        headers.insert("Nats-Batch-Sequence", place.to_string().as_str());
        if place == rows.len() {
            headers.insert("Nats-Batch-Commit", "1");
        }
        let payload = bytes::Bytes::copy_from_slice(body.payload().unwrap_or_default());
        conn.traffic.sent(payload.len());
        // An answer to each, empty where all is well: so an error names its row.
        let reply = format!("{inbox}.{place}");
        let sent = conn.client.publish_with_reply_and_headers(body.subject(), reply, headers, payload).await;
        sent.map_err(|_| conn.closed())?;
    }
    let deadline = tokio::time::Instant::now() + timeout;
    let mut link = conn.link.clone();
    loop {
        let message = tokio::select! {
            biased;
            message = answers.next() => message.ok_or_else(|| conn.closed())?,
            Ok(()) = link.changed() => {
                if conn.breaks() != breaks {
                    return Err(JetError::Unconfirmed { what: About::Other("the atomic batch".into()) });
                }
                let refused = refusals.take();
                if let Some(cause) = refused.subscription(&format!("{inbox}.*")) {
                    return Err(refuse(None, cause.clone()));
                }
                for (row, body) in &rows {
                    if let Some(cause) = refused.publish(body.subject().as_str()) {
                        return Err(refuse(Some(*row), cause.clone()));
                    }
                }
                continue;
            }
            () = tokio::time::sleep_until(deadline) => {
                let what = "the atomic batch (all of it is stored, or nothing)".into();
                return Err(JetError::Timeout { what, after: timeout });
            }
        };
        conn.traffic.received(message.payload.len());
        let place = message.subject.rsplit('.').next().and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
        let row = rows.get(place.wrapping_sub(1)).map(|(row, _)| *row);
        if message.status.is_some() {
            let subject = rows.first().map_or_else(String::new, |(_, body)| body.subject().to_string());
            return Err(refuse(row, JetError::NoStream { subject }));
        }
        if message.payload.is_empty() {
            continue;
        }
        let last = place == rows.len();
        match serde_json::from_slice(&message.payload) {
            // The commit is checked as a whole, and its error names no row.
            Ok(Answer { error: Some(error), .. }) => return Err(refuse(row.filter(|_| !last), error.into())),
            Ok(Answer { stream: Some(stream), seq: Some(seq), count: Some(count), .. }) if last => {
                outlet.outcome.note_stream(&stream);
                for (index, (row, _)) in rows.iter().enumerate() {
                    outlet.stored(*row, &stream, seq + 1 + index as u64 - count, false);
                }
                return Ok(());
            }
            _ => {}
        }
    }
}

/// What can be known before anything is sent.
fn check(conn: &Connection, rows: &[Item]) -> Result<()> {
    let refuse = |row: u64, cause: JetError| JetError::Batch { row: Some(row), cause: Box::new(cause) };
    let mut ids = HashSet::new();
    for (row, body) in rows {
        body.check(*row, conn.client.max_payload()).map_err(|err| refuse(*row, err))?;
        if body.payload().is_none() {
            return Err(refuse(*row, JetError::Row { row: *row, reason: "the payload is null".into() }));
        }
        if body.msg_id().is_some_and(|id| !ids.insert(id)) {
            return Err(refuse(*row, JetError::Row { row: *row, reason: "its message id is there twice".into() }));
        }
    }
    Ok(())
}
