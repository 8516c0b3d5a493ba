//! One batch of a fast ingest: its messages, and the server's answers.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::time::Instant;

use super::BatchEnd;
use crate::api::{ApiError, UNKNOWN_BATCH};
use crate::publish::body::Body;
use crate::publish::window::{RowToPublish, Window};
use base::error::{JetError, Result};
use client::Connection;
use client::congestion::MAX_IN_FLIGHT_MESSAGES;
use client::outbox::Outgoing;
use client::traffic::Verb;
use client::transport::Subscriber;
use wire::arena::Arena;
use wire::message::Message;
use wire::nats::Subject;

/// Maximum number of rows per ack that a server grants.
const MAX_ROWS_PER_ACK: usize = 500;
/// Maximum unconfirmed bytes.
const MAX_UNCONFIRMED_BYTES: usize = 32 << 20;
/// Maximum unconfirmed rows, unless the caller sets a number or the link carries more (`growth`).
const MAX_UNCONFIRMED_ROWS: usize = 5_000;

fn most_rows(window: &Window) -> usize {
    window.max_inflight.unwrap_or(MAX_UNCONFIRMED_ROWS)
}

pub fn most_bytes(window: &Window) -> usize {
    MAX_UNCONFIRMED_BYTES.min(window.max_bytes)
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum FlowAck {
    Ack { seq: u64 },
    Gap {},
    Err { seq: u64, error: ApiError },
}

#[derive(Deserialize)]
struct CommitState {
    stream: Option<String>,
    seq: Option<u64>,
    batch: Option<String>,
    count: Option<u64>,
    error: Option<ApiError>,
}

pub enum FlowReply {
    /// Rows up to this one are stored or duplicates.
    Ack(u64),
    Refused(u64, JetError),
    /// 503 No Responders for this row, or for a message that is no row.
    Nobody(Option<u64>),
    /// The server does not know the batch any more, or knows none of this stream: it has not stored this row.
    RowUnknown(u64),
    /// The same, in answer to the end of the batch.
    EndUnknown,
    BatchEnd {
        stream: String,
        seq: u64,
        count: u64,
    },
    /// No action: the server has answered.
    Note,
    /// No answer: the server rejects a message that is no row, because the stream takes no messages.
    Rejected,
}

/// Operation code of a message, as in the reply subject.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum BatchOperation {
    Start = b'0',
    Add = b'1',
    /// Ends the batch without storing a message.
    BatchEnd = b'3',
    Ping = b'4',
}

/// A row, and when it was first sent by an earlier batch that may have stored it.
pub struct FastRow {
    pub number: u64,
    pub body: Body,
    pub first: Option<Instant>,
}

impl From<RowToPublish> for FastRow {
    fn from((number, body): RowToPublish) -> Self {
        FastRow { number, body, first: None }
    }
}

/// An open batch. Its row `n` is `rows[n - 1 - confirmed]`.
pub struct FastBatch {
    /// Subject of its first row, of pings and of the end.
    pub subject: Subject,
    /// Inbox of the answers.
    pub inbox: String,
    prefix: String,
    /// Last reply subject, and the buffer for headers.
    text: Vec<u8>,
    block: Vec<u8>,
    arena: Arena,
    pub answers: Subscriber,
    /// Unconfirmed rows, and when they were sent.
    pub rows: VecDeque<(FastRow, Instant)>,
    pub bytes: usize,
    /// The next row has no room until others are confirmed.
    pub no_room: bool,
    pub sent: u64,
    pub confirmed: u64,
    /// The last confirmed row, unless it has an id.
    pub last_row: Option<u64>,
    pub refused: BTreeMap<u64, JetError>,
    /// The end was requested.
    pub closing: bool,
    flow: usize,
    /// The server has answered, so it supports the protocol.
    pub accepted: bool,
    /// The batch gets no more rows.
    pub exhausted: bool,
    /// The link broke since the batch began, or the stream lost its leader.
    pub broken: bool,
    /// The last message was answered with 503 No Responders; and the first row that was.
    pub no_responders: bool,
    pub lost: u64,
    /// A ping or the end was rejected.
    pub rejected: bool,
    pub breaks: u64,
    pub begun: Instant,
    /// Refreshed once per burst of rows, not once per row.
    pub now: Instant,
    pub last_answer: Instant,
    /// Maximum wait of a message until it can be sent.
    timeout: Duration,
}

impl FastBatch {
    pub async fn open(conn: &Connection, window: &Window, first: &FastRow) -> Result<FastBatch> {
        let base = conn.new_inbox()?;
        let inbox = format!("{base}.>");
        // If earlier core messages do not get through in time, sending this one fails and reports it.
        let _stuck = tokio::time::timeout(window.timeout, conn.in_order()).await;
        let answers = conn.subscribe(inbox.clone())?;
        let id = base.rsplit('.').next().unwrap_or_default().to_owned();
        let size = first.body.payload().map_or(1, <[u8]>::len).max(1);
        // At least one ack must arrive before the window is full, in rows and in bytes.
        let flow = MAX_ROWS_PER_ACK.min(most_rows(window)).min(most_bytes(window) / 2 / size).max(1);
        Ok(FastBatch {
            subject: first.body.subject(),
            prefix: format!("{base}.{id}.{flow}.fail."),
            text: Vec::new(),
            block: Vec::new(),
            arena: Arena::default(),
            inbox,
            answers,
            rows: VecDeque::new(),
            bytes: 0,
            no_room: false,
            sent: 0,
            confirmed: 0,
            last_row: None,
            refused: BTreeMap::new(),
            closing: false,
            flow,
            accepted: false,
            exhausted: false,
            broken: false,
            no_responders: false,
            lost: u64::MAX,
            rejected: false,
            breaks: conn.breaks(),
            begun: Instant::now(),
            now: Instant::now(),
            last_answer: Instant::now(),
            timeout: window.timeout,
        })
    }

    pub async fn send(&mut self, conn: &Connection, row: FastRow, operation: BatchOperation) -> Result<()> {
        self.sent += 1;
        let body = &row.body;
        self.bytes += body.size();
        conn.traffic.sent(Verb::PublishBatch, body.payload().map_or(0, <[u8]>::len));
        self.write_reply(self.sent, operation);
        let gone = body.send_now(&conn.client, &self.text, &mut self.block);
        let message = if gone { None } else { Some(self.message(body)?) };
        self.rows.push_back((row, self.now));
        if let Some(message) = message {
            conn.publish(message, self.timeout).await?;
            self.now = Instant::now();
        }
        Ok(())
    }

    /// Builds the message of a row that waits for room, or that is too large to copy.
    fn message(&mut self, body: &Body) -> Result<Outgoing> {
        let (payload, reply) = (body.wire_payload(&mut self.arena).unwrap_or_default(), Some(self.reply()?));
        Ok(Outgoing { subject: body.subject(), reply, headers: body.wire_headers(), payload })
    }

    /// Requests the end once all rows are sent.
    pub async fn close_if_done(&mut self, conn: &Connection) -> Result<()> {
        if self.accepted && (self.exhausted || self.broken) && !self.closing && conn.link.borrow().up {
            self.closing = true;
            self.ping_or_close(conn).await?;
        }
        Ok(())
    }

    /// Sends a message that stores nothing: a ping or, while closing, the end.
    pub async fn ping_or_close(&mut self, conn: &Connection) -> Result<()> {
        match self.closing {
            true => self.write_reply(self.sent + 1, BatchOperation::BatchEnd),
            false => self.write_reply(self.sent, BatchOperation::Ping),
        }
        let (subject, reply) = (self.subject.clone(), Some(self.reply()?));
        conn.publish(Outgoing { subject, reply, headers: None, payload: Bytes::new() }, self.timeout).await
    }

    /// True if more rows may be sent. The limit of rows does not apply below `grown` bytes.
    pub fn is_hungry(&self, window: &Window, grown: usize) -> bool {
        let many =
            self.rows.len() >= most_rows(window) && self.bytes >= grown || self.rows.len() >= MAX_IN_FLIGHT_MESSAGES;
        self.accepted && !self.broken && !self.exhausted && !self.no_room && !many
    }

    /// True if the row fits beside the unconfirmed ones. A single row always fits.
    pub fn fits(&self, row: &FastRow, window: &Window) -> bool {
        self.rows.is_empty() || self.bytes.saturating_add(row.body.size()) <= most_bytes(window)
    }

    /// Records that the next row does not fit. If the rows in flight are too few to cause an ack, the batch ends. The
    /// next one requests acks for its own row size.
    pub fn wait_for_room(&mut self) {
        self.no_room = true;
        self.exhausted |= self.rows.len() <= self.flow;
    }

    /// Returns the result of the batch according to its rows.
    pub fn end(&self) -> BatchEnd {
        if self.refused.is_empty() { BatchEnd::Complete } else { BatchEnd::Refused }
    }

    /// Writes the reply subject, which carries the row's position in the batch.
    fn write_reply(&mut self, seq: u64, operation: BatchOperation) {
        let text = &mut self.text;
        text.clear();
        text.extend_from_slice(self.prefix.as_bytes());
        text.extend_from_slice(itoa::Buffer::new().format(seq).as_bytes());
        text.extend_from_slice(&[b'.', operation as u8]);
        text.extend_from_slice(b".$FI");
    }

    /// Returns the last written reply subject.
    fn reply(&mut self) -> Result<Subject> {
        Subject::from_utf8(self.arena.copy(&self.text)).map_err(|_| JetError::Internal("reply subject".into()))
    }

    /// Parses an answer. It arrives on the reply subject of the message that caused it.
    pub fn parse(&self, message: &Message) -> FlowReply {
        let subject = message.subject();
        let mut tokens = subject.strip_prefix(self.prefix.as_str()).unwrap_or_default().split('.');
        let Some(place) = tokens.next().and_then(|seq| seq.parse::<u64>().ok()) else { return FlowReply::Note };
        let operation = tokens.next().unwrap_or_default();
        let is_row = matches!(operation, "0" | "1");
        if message.says_no_responders() {
            return FlowReply::Nobody(is_row.then_some(place));
        }
        match serde_json::from_slice(message.payload()) {
            Ok(FlowAck::Ack { seq }) => return FlowReply::Ack(seq),
            // The final ack follows at once.
            Ok(FlowAck::Gap {}) => return FlowReply::Note,
            Ok(FlowAck::Err { seq, error }) => return FlowReply::Refused(seq, error.into()),
            Err(_) => {}
        }
        match serde_json::from_slice::<CommitState>(message.payload()) {
            Ok(CommitState { error: Some(error), .. }) if error.err_code == UNKNOWN_BATCH => match operation {
                "0" | "1" => FlowReply::RowUnknown(place),
                "3" => FlowReply::EndUnknown,
                // The end decides which rows are stored.
                _ => FlowReply::RowUnknown(u64::MAX),
            },
            Ok(CommitState { error: Some(error), stream, .. }) if is_row => {
                FlowReply::Refused(place, error.of_stream(stream))
            }
            Ok(CommitState { error: Some(_), .. }) => FlowReply::Rejected,
            Ok(CommitState { stream: Some(stream), seq, batch: Some(_), count: Some(count), .. }) => {
                FlowReply::BatchEnd { stream, seq: seq.unwrap_or(0), count }
            }
            _ => FlowReply::Note,
        }
    }
}
