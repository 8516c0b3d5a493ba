//! The server's fast ingest (ADR-50): no ack per row, but one for some hundred, and a last word on how many were stored.
//!
//! Rows go out under a window; what is not confirmed is kept, at most the window. Gap mode `fail` makes the count in the
//! last word exact: the first row that is refused or lost ends the batch there, and the rows after it, which the server
//! did not store, go into a new one. So every row ends as stored or as an error, in order and without a row twice.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use async_nats::{Message, StatusCode, Subject, Subscriber};
use futures_util::{FutureExt, StreamExt};
use serde::Deserialize;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep};

use crate::engine::api::{ApiError, UNKNOWN_BATCH};
use crate::engine::connection::Connection;
use crate::engine::publish::outcome::{Fill, RowFeed};
use crate::engine::publish::window::{Item, Outlet, Window};
use crate::error::{About, JetError, Result};

/// The most that a server grants: one ack for so many rows.
const FLOW: usize = 500;
/// Most bytes that wait for a confirmation.
const BYTES: usize = 32 << 20;
/// The server drops a batch that is idle for 10 s; a ping keeps it.
const IDLE: Duration = Duration::from_secs(3);
const LAST_MSG_ID: &str = "Nats-Expected-Last-Msg-Id";
/// So many batches in a row that stored nothing, and the rest gets their error too.
const HOPELESS: u32 = 3;

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Flow {
    Ack { seq: u64 },
    Gap {},
    Err { seq: u64, error: ApiError },
}

#[derive(Deserialize)]
struct Last {
    stream: Option<String>,
    seq: Option<u64>,
    batch: Option<String>,
    count: Option<u64>,
    error: Option<ApiError>,
}

enum Answer {
    /// Rows up to here are stored, or duplicates.
    Ack(u64),
    Refused(u64, JetError),
    /// The batch is over and this row was not stored.
    Unknown(u64),
    End {
        stream: String,
        seq: u64,
        count: u64,
    },
    /// Nothing to act on.
    Note,
}

/// Sends all of the feed.
pub async fn fast(conn: &Connection, feed: RowFeed, outlet: &mut Fill<'_>, window: &Window) -> Result<()> {
    let mut fast = Fast { conn, feed, outlet, window, again: VecDeque::new(), any: false };
    let mut hopeless = 0;
    while let Some(item) = fast.next().await? {
        let before = fast.outlet.outcome.stored();
        let cause = unconstrained(fast.one_batch(item)).await?;
        hopeless = if fast.outlet.outcome.stored() > before { 0 } else { hopeless + 1 };
        let Some((cause, last)) = cause else { continue };
        if last || hopeless >= HOPELESS {
            while let Some((row, _)) = fast.next().await? {
                fast.outlet.failed(row, cause.clone());
            }
        }
    }
    Ok(())
}

struct Fast<'a, 'o> {
    conn: &'a Connection,
    feed: RowFeed,
    outlet: &'a mut Fill<'o>,
    window: &'a Window,
    /// Rows that a batch which ended early did not store.
    again: VecDeque<Item>,
    /// Something was stored: from now on errors are those of rows.
    any: bool,
}

/// The open batch. Row `n` of it is `rows[n - 1 - confirmed]`.
struct Batch {
    prefix: String,
    answers: Subscriber,
    rows: VecDeque<Item>,
    bytes: usize,
    sent: u64,
    confirmed: u64,
    /// The row that was confirmed last.
    last_row: Option<u64>,
    refused: BTreeMap<u64, JetError>,
    /// The end was asked for.
    closing: bool,
    flow: usize,
}

impl Fast<'_, '_> {
    /// The next row that can be sent; what is wrong with the others is told.
    async fn next(&mut self) -> Result<Option<Item>> {
        loop {
            let item = match self.again.pop_front() {
                Some(item) => item,
                None => match self.feed.next().await.transpose()? {
                    Some(item) => item,
                    None => return Ok(None),
                },
            };
            // nats-server 2.15.1 counts a row that fails this check as stored, and then never ends its batch.
            if item.1.has_header(LAST_MSG_ID) {
                let reason = format!("mode=\"fast\" cannot take the header {LAST_MSG_ID}");
                self.outlet.failed(item.0, JetError::Row { row: item.0, reason });
                continue;
            }
            match item.1.check(item.0, self.conn.client.max_payload()) {
                Ok(()) if item.1.payload().is_some() => return Ok(Some(item)),
                Ok(()) => {
                    self.outlet.failed(item.0, JetError::Row { row: item.0, reason: "the payload is null".into() })
                }
                Err(err) => self.outlet.failed(item.0, err),
            }
        }
    }

    /// One batch from its first row on. `Some`: why it ended badly, and whether nothing more is to be tried.
    async fn one_batch(&mut self, first: Item) -> Result<Option<(JetError, bool)>> {
        let subject = first.1.subject();
        let mut refusals = self.conn.refusals();
        let mut batch = Batch::open(self.conn, self.window, &first).await?;
        batch.send(self.conn, first, b'0').await?;
        let breaks = self.conn.breaks();
        let mut link = self.conn.link.clone();
        let mut exhausted = false;
        // Nothing more is sent until the server has accepted the batch: an older one would store every row on its own.
        let mut accepted = false;
        let mut broken = false;
        let mut last_answer = Instant::now();
        loop {
            while accepted && !broken && !exhausted && !batch.is_full(self.window) {
                let ready = match self.again.is_empty() {
                    true => self.next().now_or_never().transpose()?,
                    false => Some(self.next().await?),
                };
                match ready {
                    Some(Some(item)) => batch.send(self.conn, item, b'1').await?,
                    Some(None) => exhausted = true,
                    None => break,
                }
            }
            if accepted && (exhausted || broken) && !batch.closing && self.conn.link.borrow().up {
                batch.closing = true;
                batch.control(self.conn, &subject, batch.sent + 1, b'3').await?;
            }
            let message = tokio::select! {
                biased;
                message = batch.answers.next() => message,
                Ok(()) = link.changed() => {
                    if self.conn.breaks() != breaks {
                        // The server keeps the batch for 10 s; its last word says what came through.
                        (broken, accepted) = (true, true);
                    }
                    if link.borrow().closed {
                        return Ok(Some((self.abandon(batch, &self.conn.closed()), true)));
                    }
                    let refused = refusals.take();
                    let inbox = batch.inbox();
                    if let Some(cause) = refused.publish(&subject).or_else(|| refused.subscription(&inbox)) {
                        if self.any {
                            return Ok(Some((self.abandon(batch, cause), true)));
                        }
                        return Err(JetError::Batch { row: None, cause: Box::new(cause.clone()) });
                    }
                    continue;
                }
                () = sleep(IDLE.min(self.window.timeout / 3)) => {
                    if last_answer.elapsed() > self.window.timeout {
                        let what = "the publish (the server has been silent)".to_owned();
                        let cause = JetError::Timeout { what, after: self.window.timeout };
                        return Ok(Some((self.abandon(batch, &cause), true)));
                    }
                    if accepted && self.conn.link.borrow().up {
                        // Recovers a lost ack and keeps the batch; the end is asked for again, in case that was lost.
                        let (seq, op) = if batch.closing { (batch.sent + 1, b'3') } else { (batch.sent, b'4') };
                        batch.control(self.conn, &subject, seq, op).await?;
                        if !batch.closing {
                            // A feed that is slow is no silent server.
                            last_answer = if batch.rows.is_empty() { Instant::now() } else { last_answer };
                        }
                    }
                    continue;
                }
            };
            let Some(message) = message else {
                return Ok(Some((self.abandon(batch, &self.conn.closed()), true)));
            };
            self.conn.traffic.received(message.payload.len());
            last_answer = Instant::now();
            match batch.parse(&message) {
                Answer::Note => {}
                Answer::Ack(seq) => {
                    accepted = true;
                    self.any |= seq > 0;
                    self.confirm(&mut batch, seq);
                }
                Answer::Refused(seq, err) => {
                    if seq == 1 && !self.any {
                        return Err(JetError::Batch { row: None, cause: Box::new(err) });
                    }
                    if seq == 1 {
                        // Refused at its start: there is no batch, and no last word.
                        batch.refused.insert(seq, err.clone());
                        self.finish(batch);
                        return Ok(Some((err, false)));
                    }
                    batch.refused.insert(seq, err);
                }
                Answer::Unknown(seq) => {
                    let cause = batch.refused.values().next().cloned();
                    let stored = batch.refused.keys().next().map_or(batch.confirmed, |refused| refused - 1);
                    self.confirm(&mut batch, stored);
                    self.unsure(&mut batch, seq);
                    self.finish(batch);
                    return Ok(cause.map(|cause| (cause, false)));
                }
                Answer::End { stream, seq, count } => {
                    self.any = true;
                    self.outlet.outcome.note_stream(&stream);
                    self.confirm(&mut batch, count);
                    // Only of the last row does the server tell the sequence, and only where no row was refused.
                    if count == batch.sent
                        && let Some(row) = batch.last_row
                    {
                        self.outlet.outcome.set_seq(row, seq);
                    }
                    let cause = batch.refused.values().next().cloned();
                    self.finish(batch);
                    return Ok(cause.map(|cause| (cause, false)));
                }
            }
        }
    }

    fn confirm(&mut self, batch: &mut Batch, seq: u64) {
        while batch.confirmed < seq {
            let Some((row, body)) = batch.rows.pop_front() else { return };
            batch.confirmed += 1;
            batch.bytes = batch.bytes.saturating_sub(body.payload().map_or(0, <[u8]>::len));
            batch.last_row = Some(row);
            self.outlet.stored(row, "", 0, false);
        }
    }

    /// Nobody knows of the rows before `seq` that have no answer: those with an id can safely go again, the others end
    /// here. From `seq` on nothing was stored.
    fn unsure(&self, batch: &mut Batch, seq: u64) {
        for (index, (row, body)) in batch.rows.iter().enumerate() {
            let place = batch.confirmed + 1 + index as u64;
            if place < seq && !self.window.resend.unwrap_or_else(|| body.has_id()) {
                let unconfirmed = || JetError::Unconfirmed { what: About::Row(*row) };
                batch.refused.entry(place).or_insert_with(unconfirmed);
            }
        }
    }

    /// Tells the errors of refused rows; the rest was not stored and goes again, in its order.
    fn finish(&mut self, mut batch: Batch) {
        let mut rest = VecDeque::new();
        for (index, (row, body)) in batch.rows.drain(..).enumerate() {
            match batch.refused.remove(&(batch.confirmed + 1 + index as u64)) {
                Some(err) => self.outlet.failed(row, err),
                None => rest.push_back((row, body)),
            }
        }
        rest.append(&mut self.again);
        self.again = rest;
    }

    /// Gives up on a batch: its unconfirmed rows get the cause.
    fn abandon(&mut self, batch: Batch, cause: &JetError) -> JetError {
        for (row, _) in batch.rows {
            self.outlet.failed(row, cause.clone());
        }
        cause.clone()
    }
}

impl Batch {
    async fn open(conn: &Connection, window: &Window, first: &Item) -> Result<Batch> {
        let inbox = conn.client.new_inbox();
        conn.in_order().await;
        let answers = conn.client.subscribe(format!("{inbox}.>")).await.map_err(|_| conn.closed())?;
        let id = inbox.rsplit('.').next().unwrap_or_default().to_owned();
        let size = first.1.payload().map_or(1, <[u8]>::len).max(1);
        // One ack must come before the window is full, in rows and in bytes.
        let flow = FLOW.min(window.max_inflight).min(BYTES / 2 / size).max(1);
        Ok(Batch {
            prefix: format!("{inbox}.{id}.{flow}.fail."),
            answers,
            rows: VecDeque::new(),
            bytes: 0,
            sent: 0,
            confirmed: 0,
            last_row: None,
            refused: BTreeMap::new(),
            closing: false,
            flow,
        })
    }

    /// What the answers are subscribed with.
    fn inbox(&self) -> String {
        let tokens: Vec<_> = self.prefix.split('.').collect();
        // After the inbox come id, flow, "fail" and an empty end.
        format!("{}.>", tokens[..tokens.len().saturating_sub(4)].join("."))
    }

    async fn send(&mut self, conn: &Connection, item: Item, op: u8) -> Result<()> {
        self.sent += 1;
        let body = &item.1;
        let payload = bytes::Bytes::copy_from_slice(body.payload().unwrap_or_default());
        self.bytes += payload.len();
        conn.traffic.sent(payload.len());
        let reply = self.reply(self.sent, op);
        let sent = match body.wire_headers() {
            None => conn.client.publish_with_reply(body.subject(), reply, payload).await,
            Some(headers) => conn.client.publish_with_reply_and_headers(body.subject(), reply, headers, payload).await,
        };
        self.rows.push_back(item);
        sent.map_err(|_| conn.closed())
    }

    /// A message that stores nothing: ping, or the end.
    async fn control(&self, conn: &Connection, subject: &Subject, seq: u64, op: u8) -> Result<()> {
        let reply = self.reply(seq, op);
        let sent = conn.client.publish_with_reply(subject.clone(), reply, "".into()).await;
        sent.map_err(|_| conn.closed())
    }

    fn is_full(&self, window: &Window) -> bool {
        self.rows.len() >= window.max_inflight || (self.bytes >= BYTES && self.rows.len() > self.flow)
    }

    /// Everything about a row's place in the batch is in its reply subject.
    fn reply(&self, seq: u64, op: u8) -> String {
        format!("{}{seq}.{}.$FI", self.prefix, op as char)
    }

    /// Each answer comes on the reply subject of the message that caused it.
    fn parse(&self, message: &Message) -> Answer {
        let place = message.subject.strip_prefix(self.prefix.as_str()).and_then(|rest| rest.split('.').next());
        let Some(place) = place.and_then(|seq| seq.parse::<u64>().ok()) else { return Answer::Note };
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            let row = place.checked_sub(self.confirmed + 1).and_then(|index| self.rows.get(index as usize));
            let subject = row.map_or_else(String::new, |(_, body)| body.subject().to_string());
            return Answer::Refused(place, JetError::NoStream { subject });
        }
        match serde_json::from_slice(&message.payload) {
            Ok(Flow::Ack { seq }) => return Answer::Ack(seq),
            // Its last word follows at once.
            Ok(Flow::Gap {}) => return Answer::Note,
            Ok(Flow::Err { seq, error }) => return Answer::Refused(seq, error.into()),
            Err(_) => {}
        }
        match serde_json::from_slice::<Last>(&message.payload) {
            Ok(Last { error: Some(error), .. }) if error.err_code == UNKNOWN_BATCH => Answer::Unknown(place),
            Ok(Last { error: Some(error), .. }) => Answer::Refused(place, error.into()),
            Ok(Last { stream: Some(stream), seq, batch: Some(_), count: Some(count), .. }) => {
                Answer::End { stream, seq: seq.unwrap_or(0), count }
            }
            _ => Answer::Note,
        }
    }
}
