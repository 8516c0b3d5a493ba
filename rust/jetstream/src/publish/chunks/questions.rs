//! The actions of a repair: another attempt, and questions to the stream that store nothing.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::Target;
use super::repair::RepairEvent;
use crate::api::{Api, MAX_ATOMIC_ROWS};
use crate::publish::atomic::{Committed, attempt, batch_id};
use crate::publish::body::{Body, Single};
use crate::publish::no_responders::RETRY_INTERVAL;
use crate::publish::puback;
use crate::publish::window::{RowToPublish, Window};
use base::error::{JetError, Result};
use client::Connection;
use client::request::Request;
use client::traffic::Verb;
use wire::headers;
use wire::nats::HeaderMap;
use wire::nats::header::{NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};

pub const EXPECTED_LAST_MSG_ID: &str = "Nats-Expected-Last-Msg-Id";
/// `err_code` of an atomic batch with a header that it cannot have.
const UNSUPPORTED_HEADER: i64 = 10177;
/// `err_code` of a rollup that is not permitted, or of an unknown kind.
const ROLLUP_FAILED: i64 = 10111;
/// A kind of rollup that no server knows.
const NO_ROLLUP: &str = "none";
const DUPLICATE_IN_BATCH: i64 = 10201;
const DUPLICATE_IN_PROCESS: i64 = 10158;
const INCOMPLETE_BATCH: i64 = 10176;
pub const TOO_MANY_BATCHES: i64 = 10210;
/// `err_code`s that are no row's fault: atomic batches disabled or limited to fewer rows, a sealed or full stream,
/// resources of the server and of the account, of its files and of its memory.
const OF_ALL_ROWS: [i64; 8] = [10174, 10199, 10109, 10077, 10023, 10002, 10047, 10028];
/// Ids that are asked for at a time.
const IDS_AT_ONCE: usize = 256;
pub const QUESTION_TIMEOUT: Duration = Duration::from_secs(1);
/// Messages that are looked at for one of a batch.
const MAX_LOOKED_AT: usize = 10_000;

/// Sorts the server's error for a batch.
pub fn event_of(row: Option<usize>, cause: JetError) -> RepairEvent {
    match &cause {
        JetError::Api { err_code: DUPLICATE_IN_BATCH, .. } => RepairEvent::Duplicate,
        JetError::Api { err_code: DUPLICATE_IN_PROCESS | INCOMPLETE_BATCH | TOO_MANY_BATCHES, .. }
        | JetError::NoStream { .. }
        | JetError::Timeout { .. } => RepairEvent::Busy(cause),
        other if other.is_stream_busy() => RepairEvent::Busy(cause),
        JetError::Api { err_code, description, .. }
            if OF_ALL_ROWS.contains(err_code) && !description.contains("per subject") =>
        {
            RepairEvent::Rejected(cause)
        }
        _ => RepairEvent::Refused(row, cause),
    }
}

/// The stream that a repair talks to.
pub struct Questions<'a> {
    pub conn: &'a Connection,
    pub target: &'a Target,
    pub window: &'a Window,
    pub deadline: Instant,
}

impl Questions<'_> {
    fn timeout(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Sends the rows as a batch with this inbox.
    pub async fn send(&self, inbox: &str, rows: &[RowToPublish]) -> RepairEvent {
        match attempt(self.conn, inbox, rows, self.target.expected_by(rows), self.timeout()).await {
            Ok(Committed { last, stream }) if stream == self.target.stream => RepairEvent::Stored(last),
            // Its subjects belong to another stream by now, of which the repair knows nothing.
            Ok(_) => RepairEvent::Lost(batch_id(inbox).to_owned()),
            Err(JetError::Batch { row, cause }) => {
                let at = row.and_then(|row| rows.iter().position(|(number, _)| *number == row));
                event_of(at, *cause)
            }
            // The last row was not sent, or not by this link.
            Err(error @ JetError::Timeout { .. }) => RepairEvent::Busy(error),
            Err(_) => RepairEvent::Lost(batch_id(inbox).to_owned()),
        }
    }

    /// Asks for the ids of the rows: an empty message with the id, and with an invalid rollup. The server looks for
    /// duplicates first, and rejects all others before it stores or replicates them. (With a wrong last id, which it checks
    /// after the replication, nats-server 2.15.1 stops the stream.)
    pub async fn ask_ids(&self, rows: &[RowToPublish]) -> RepairEvent {
        let mut found = Vec::with_capacity(rows.len());
        for some in rows.chunks(IDS_AT_ONCE) {
            for answer in join_all(some.iter().map(|row| self.ask_id(row))).await {
                match answer {
                    Ok(seq) => found.push(seq),
                    Err(error) => return RepairEvent::Unanswered(error),
                }
            }
        }
        RepairEvent::Ids(found)
    }

    async fn ask_id(&self, (_, body): &RowToPublish) -> Result<Option<u64>> {
        let Some(id) = body.msg_id() else { return Ok(None) };
        loop {
            let mut headers = HeaderMap::new();
            headers.insert(NATS_MESSAGE_ID, id);
            headers.insert(NATS_EXPECTED_STREAM, self.target.stream.as_str());
            headers.insert("Nats-Rollup", NO_ROLLUP);
            // A leader that ends takes the question with it.
            let (subject, payload, timeout) = (body.subject(), Bytes::new(), self.timeout().min(QUESTION_TIMEOUT));
            let request = Request { subject, payload, headers: Some(headers), timeout, verb: Verb::PublishBatch };
            let answer = match self.conn.ask(request)?.await {
                Ok(answer) => puback::parse(answer.payload()),
                Err(error) => Err(error),
            };
            match answer {
                Ok(ack) if ack.duplicate => return Ok(Some(ack.seq)),
                Ok(ack) => {
                    let answer = format!("an expectation that cannot hold was met, sequence {}", ack.seq);
                    return Err(JetError::Protocol { what: "a question for an id".into(), answer });
                }
                Err(JetError::Api { err_code: ROLLUP_FAILED, .. }) => return Ok(None),
                Err(error) if may_pass(&error) => sleep(RETRY_INTERVAL).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Looks for a message of one of the batches, from this sequence on.
    pub async fn find_batch(&self, batches: &[String], rows: &[RowToPublish], mut from: u64) -> RepairEvent {
        let Some((_, body)) = rows.first() else { return RepairEvent::NotFound };
        let api = Api::new(self.conn, &self.window.prefix).within(QUESTION_TIMEOUT);
        for _ in 0..MAX_LOOKED_AT {
            let wanted = json!({"seq": from, "next_by_subj": body.subject_text()});
            let stored = match api.get_message(&self.target.stream, &wanted).await {
                Ok(Some(stored)) => stored,
                Ok(None) => return RepairEvent::NotFound,
                Err(error) if may_pass(&error) => {
                    sleep(RETRY_INTERVAL).await;
                    continue;
                }
                Err(error) => return RepairEvent::Unanswered(error),
            };
            let batch = headers::value(&stored.headers, "Nats-Batch-Id").filter(|id| batches.contains(id));
            let place = headers::value(&stored.headers, "Nats-Batch-Sequence").and_then(|place| place.parse().ok());
            if let (Some(batch), Some(place @ 1..)) = (batch, place) {
                let place: usize = place;
                return RepairEvent::Found(batch, place - 1, stored.seq);
            }
            from = stored.seq + 1;
        }
        RepairEvent::NotFound
    }

    /// Finds the first row that the stream rejects, by batches that cannot be stored: their last message has a header
    /// that a batch must not have, and the server checks the rows in order.
    pub async fn find_row(&self, rows: &[RowToPublish]) -> RepairEvent {
        // A batch has room for the message that is added.
        let most = rows.len().min(MAX_ATOMIC_ROWS - 1);
        let mut bad = match self.trial(&rows[..most]).await {
            Ok(Trial::Clean) if most == rows.len() => return RepairEvent::NoBadRow,
            Ok(Trial::Clean) => match self.trial(&rows[1..]).await {
                Ok(Trial::Clean) => return RepairEvent::NoBadRow,
                // The rows before the last one are clean.
                Ok(Trial::Bad(at, error)) => return bad_row(at.map_or(most, |at| at + 1), error),
                Err(error) => return RepairEvent::Unanswered(error),
            },
            Ok(Trial::Bad(Some(at), error)) => return bad_row(at, error),
            Ok(Trial::Bad(None, error)) => error,
            Err(error) => return RepairEvent::Unanswered(error),
        };
        // The stream takes the rows before `clean`, and rejects one of those before `end`.
        let (mut clean, mut end) = (0, most);
        while end - clean > 1 {
            let middle = clean.midpoint(end);
            match self.trial(&rows[..middle]).await {
                Ok(Trial::Clean) => clean = middle,
                Ok(Trial::Bad(at, error)) => (end, bad) = (at.map_or(middle, |at| at + 1), error),
                Err(error) => return RepairEvent::Unanswered(error),
            }
        }
        bad_row(end - 1, bad)
    }

    /// Sends the rows as a batch that cannot be stored.
    async fn trial(&self, rows: &[RowToPublish]) -> Result<Trial> {
        let Some((_, first)) = rows.first() else { return Ok(Trial::Clean) };
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED_LAST_MSG_ID, "-");
        let last = Single { subject: first.subject(), payload: Bytes::new(), headers: Some(headers), timeout: None };
        let mut batch: Vec<RowToPublish> = (0..).zip(rows.iter().map(|(_, body)| body.clone())).collect();
        batch.push((rows.len() as u64, Body::Single(Box::new(last))));
        let expected = self.target.expected_by(rows);
        loop {
            let row = match attempt(self.conn, &self.conn.new_inbox()?, &batch, expected, self.timeout()).await {
                Err(JetError::Batch { cause, .. }) if has_code(&cause, UNSUPPORTED_HEADER) => return Ok(Trial::Clean),
                Err(JetError::Batch { row, cause }) => match event_of(None, (*cause).clone()) {
                    RepairEvent::Busy(_) => None,
                    _ => Some((row, *cause)),
                },
                Ok(_) => {
                    let answer = "a batch with a header that is not supported was stored".to_owned();
                    return Err(JetError::Protocol { what: "a trial of rows".into(), answer });
                }
                Err(error) => return Err(error),
            };
            match row {
                Some((row, error)) => return Ok(Trial::Bad(row.map(|row| row as usize), error)),
                None => sleep(RETRY_INTERVAL).await,
            }
        }
    }
}

/// The result of a trial: the row, if the server names it, and its error.
enum Trial {
    Clean,
    Bad(Option<usize>, JetError),
}

fn bad_row(at: usize, error: JetError) -> RepairEvent {
    match event_of(Some(at), error) {
        RepairEvent::Refused(Some(at), error) => RepairEvent::BadRow(at, error),
        other => other,
    }
}

fn has_code(error: &JetError, wanted: i64) -> bool {
    matches!(error, JetError::Api { err_code, .. } if *err_code == wanted)
}

fn may_pass(error: &JetError) -> bool {
    matches!(error, JetError::Api { err_code: DUPLICATE_IN_PROCESS, .. })
        || error.is_stream_busy()
        || error.is_transient()
}
