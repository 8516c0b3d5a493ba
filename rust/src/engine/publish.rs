//! Publishing into a stream: one message with its ack, or rows under an in-flight window.
//!
//! One loop owns a window of slots and an inbox of its own. It sends while slots are free, and frees them as acks
//! come in; every row ends as exactly one of stored, duplicate, error. Memory is the window plus 9 bytes a row of result.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode, Subject, Subscriber};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, MissedTickBehavior};

use crate::engine::connect::Connection;
use crate::engine::inflight::{Inflight, Sent, read_token, write_token};
use crate::engine::puback::{self, Parser, PubAck};
use crate::engine::request::request;
use crate::engine::rows::{Rows, Subjects};
use crate::error::{JetError, Result};

/// How often lost links and late rows are looked for.
const TICK: Duration = Duration::from_millis(100);
/// Payloads and reply subjects are copied into blocks of this size: one allocation for hundreds of messages.
const ARENA: usize = 64 * 1024;

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

#[derive(Clone)]
pub struct Window {
    /// Messages that may be unanswered at once.
    pub max_inflight: usize,
    /// How long a row may stay unanswered, and how long the server may be silent altogether.
    pub timeout: Duration,
    /// After a lost link: `None` sends rows with a message id again, `Some` forces it either way.
    pub resend: Option<bool>,
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

    fn note_stream(&mut self, stream: &str) {
        match &self.stream {
            None if !self.mixed_streams => self.stream = Some(stream.to_owned()),
            Some(known) if known != stream => {
                self.stream = None;
                self.mixed_streams = true;
            }
            _ => {}
        }
    }

    fn ack(&mut self, row: u64, seq: u64, duplicate: bool) {
        self.seqs[row as usize] = seq as i64;
        self.duplicate[row as usize] = duplicate;
        self.duplicates += u64::from(duplicate);
    }
}

/// Where the rows come from, block by block: the next one is asked for when the last is sent.
pub trait Source: Send {
    fn next(&mut self) -> impl Future<Output = Result<Option<Arc<Rows>>>> + Send;
}

/// A single block that is here already.
pub struct Whole(pub Option<Arc<Rows>>);

impl Source for Whole {
    async fn next(&mut self) -> Result<Option<Arc<Rows>>> {
        Ok(self.0.take())
    }
}

pub async fn publish_batch(
    conn: &Connection,
    source: impl Source,
    window: Window,
    done: Arc<AtomicU64>,
) -> Result<Outcome> {
    let inbox = format!("{}.", conn.client.new_inbox());
    let acks = conn.client.subscribe(format!("{inbox}*")).await.map_err(|_| conn.closed())?;
    let now = Instant::now();
    let mut run = Run {
        conn,
        source,
        block: None,
        next_row: 0,
        again: VecDeque::new(),
        inflight: Inflight::new(window.max_inflight.max(1)),
        window,
        inbox: inbox.into_bytes(),
        acks,
        arena: BytesMut::new(),
        parser: Parser::default(),
        outcome: Outcome::default(),
        breaks: conn.breaks(),
        last_answer: now,
        now,
        done,
    };
    run.drive().await?;
    let _ = run.acks.unsubscribe().await;
    run.outcome.errors.sort_by_key(|(row, _)| *row);
    Ok(run.outcome)
}

struct Run<'a, S> {
    conn: &'a Connection,
    source: S,
    /// The block being sent, and how far it is.
    block: Option<(Arc<Rows>, usize)>,
    next_row: u64,
    /// Rows of a lost link, to be sent again first.
    again: VecDeque<Sent>,
    inflight: Inflight,
    window: Window,
    inbox: Vec<u8>,
    acks: Subscriber,
    arena: BytesMut,
    parser: Parser,
    outcome: Outcome,
    breaks: u64,
    last_answer: Instant,
    /// Refreshed once per burst of messages, not once per message.
    now: Instant,
    done: Arc<AtomicU64>,
}

impl<S: Source> Run<'_, S> {
    async fn drive(&mut self) -> Result<()> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut link = self.conn.link.clone();
        loop {
            self.now = Instant::now();
            let up = self.conn.link.borrow().up;
            let mut more = true;
            while up && more && !self.inflight.is_full() {
                more = self.send_next(&mut tick).await?;
            }
            if self.inflight.is_empty() && self.again.is_empty() && (!more || self.exhausted().await?) {
                return Ok(());
            }
            tokio::select! {
                biased;
                message = self.acks.next() => match message {
                    Some(message) => self.answer(message),
                    None => self.give_up(self.conn.closed()).await?,
                },
                Ok(()) = link.changed() => {}
                _ = tick.tick() => {}
            }
            self.answers_at_hand();
            self.check_time_and_link().await?;
        }
    }

    /// True where the source has nothing more; loads the next block otherwise.
    async fn exhausted(&mut self) -> Result<bool> {
        loop {
            match &self.block {
                Some((rows, at)) if *at < rows.len => return Ok(false),
                _ => match self.source.next().await? {
                    Some(rows) => {
                        let total = self.outcome.seqs.len() + rows.len;
                        self.outcome.seqs.resize(total, 0);
                        self.outcome.duplicate.resize(total, false);
                        self.block = Some((rows, 0));
                    }
                    None => return Ok(true),
                },
            }
        }
    }

    async fn next_row(&mut self) -> Result<Option<Sent>> {
        if let Some(sent) = self.again.pop_front() {
            return Ok(Some(sent));
        }
        if self.exhausted().await? {
            return Ok(None);
        }
        Ok(self.block.as_mut().map(|(block, at)| {
            let sent = Sent { row: self.next_row, block: block.clone(), index: *at, at: self.now };
            *at += 1;
            self.next_row += 1;
            sent
        }))
    }

    /// Sends one row; false when there is none left.
    async fn send_next(&mut self, tick: &mut tokio::time::Interval) -> Result<bool> {
        let Some(mut sent) = self.next_row().await? else { return Ok(false) };
        if self.inflight.is_empty() {
            // Nothing was asked until now, so nobody has been silent.
            self.last_answer = self.now;
        }
        let (block, index) = (sent.block.clone(), sent.index);
        let Some(payload) = block.payloads.get(index) else {
            self.fail(sent.row, JetError::Value(format!("row {}: the payload is null", sent.row)));
            return Ok(true);
        };
        let subject = match &block.subjects {
            Subjects::One(subject) => subject.clone(),
            Subjects::Each(texts) => texts.get(index).unwrap_or_default().into(),
        };
        let payload = self.copy(payload);
        sent.at = self.now;
        let token = self.inflight.insert(sent);
        let reply = self.reply(token)?;
        // Polled by hand: a select for every message would cost as much as the message.
        match block.wire_headers(index) {
            None => {
                self.hand_over(token, pin!(self.conn.client.publish_with_reply(subject, reply, payload)), tick).await
            }
            Some(headers) => {
                let send = self.conn.client.publish_with_reply_and_headers(subject, reply, headers, payload);
                self.hand_over(token, pin!(send), tick).await
            }
        }
    }

    /// Waits until the connection has taken the message; takes acks meanwhile, and gives up where the server is gone.
    async fn hand_over(
        &mut self,
        token: u64,
        mut send: std::pin::Pin<&mut impl Future<Output = std::result::Result<(), async_nats::PublishError>>>,
        tick: &mut tokio::time::Interval,
    ) -> Result<bool> {
        let sent = match send.as_mut().now_or_never() {
            Some(sent) => sent,
            None => loop {
                let message = tokio::select! {
                    biased;
                    sent = send.as_mut() => break sent,
                    message = self.acks.next() => message,
                    _ = tick.tick() => None,
                };
                self.now = Instant::now();
                message.into_iter().for_each(|m| self.answer(m));
                if self.silent_for_too_long() {
                    self.check_time_and_link().await?;
                    return Ok(true);
                }
            },
        };
        match sent {
            Ok(()) => Ok(true),
            // A reconnect can lead to a server with a smaller limit than the one the rows were checked against.
            Err(err) if err.kind() == async_nats::PublishErrorKind::MaxPayloadExceeded => {
                let limit = self.conn.client.max_payload();
                if let Some(sent) = self.inflight.remove(token) {
                    let size = sent.block.payloads.get(sent.index).map_or(0, <[u8]>::len);
                    self.fail(sent.row, JetError::MaxPayload { what: format!("row {}", sent.row), size, limit });
                }
                Ok(true)
            }
            Err(_) => {
                self.give_up(self.conn.closed()).await?;
                Ok(false)
            }
        }
    }

    fn copy(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.len() >= ARENA / 4 {
            return Bytes::copy_from_slice(bytes);
        }
        if self.arena.capacity() - self.arena.len() < bytes.len() {
            self.arena = BytesMut::with_capacity(ARENA);
        }
        self.arena.put_slice(bytes);
        self.arena.split().freeze()
    }

    fn reply(&mut self, token: u64) -> Result<Subject> {
        let mut text = std::mem::take(&mut self.inbox);
        let prefix = text.len();
        write_token(token, &mut text);
        let bytes = self.copy(&text);
        text.truncate(prefix);
        self.inbox = text;
        Subject::from_utf8(bytes).map_err(|_| JetError::Internal("reply subject".into()))
    }

    fn answers_at_hand(&mut self) {
        while let Some(Some(message)) = self.acks.next().now_or_never() {
            self.answer(message);
        }
    }

    fn answer(&mut self, message: Message) {
        let token = message.subject.as_bytes().get(self.inbox.len()..).and_then(read_token);
        let Some(sent) = token.and_then(|token| self.inflight.remove(token)) else { return };
        self.last_answer = self.now;
        if let Some((seq, duplicate)) = self.parser.quick(&message.payload) {
            self.outcome.ack(sent.row, seq, duplicate);
        } else if message.status == Some(StatusCode::NO_RESPONDERS) {
            let subject = sent.block.subject(sent.index).unwrap_or_default().to_owned();
            self.outcome.errors.push((sent.row, JetError::NoStream { subject }));
        } else {
            match puback::parse(&message.payload) {
                Ok(ack) => {
                    self.outcome.note_stream(&ack.stream);
                    self.parser.learn(&message.payload, &ack);
                    self.outcome.ack(sent.row, ack.seq, ack.duplicate);
                }
                Err(err) => self.outcome.errors.push((sent.row, err)),
            }
        }
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn fail(&mut self, row: u64, err: JetError) {
        self.outcome.errors.push((row, err));
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn silent_for_too_long(&self) -> bool {
        self.now.duration_since(self.last_answer) > self.window.timeout
    }

    async fn check_time_and_link(&mut self) -> Result<()> {
        self.now = Instant::now();
        if self.conn.link.borrow().closed {
            return self.give_up(self.conn.closed()).await;
        }
        let late = |rows: &str| JetError::Timeout { what: rows.to_owned(), after: self.window.timeout };
        if self.silent_for_too_long() {
            return self.give_up(late("the publish (the server has been silent)")).await;
        }
        let late = late("the publish of this row");
        if let Some(limit) = self.now.checked_sub(self.window.timeout) {
            for sent in self.inflight.expire(limit) {
                self.fail(sent.row, late.clone());
            }
        }
        let breaks = self.conn.breaks();
        if breaks != self.breaks {
            self.breaks = breaks;
            self.link_broke();
        }
        Ok(())
    }

    /// What was in flight may be lost: rows that the server recognises go again, the others end here and now.
    fn link_broke(&mut self) {
        for sent in self.inflight.take_all() {
            let safe = sent.block.msg_id(sent.index).is_some();
            if self.window.resend.unwrap_or(safe) {
                self.again.push_back(sent);
            } else {
                self.fail(sent.row, JetError::Unconfirmed { what: format!("row {}", sent.row) });
            }
        }
    }

    /// Ends the call: every row that has no answer gets this one.
    async fn give_up(&mut self, cause: JetError) -> Result<()> {
        for sent in self.inflight.take_all() {
            self.fail(sent.row, cause.clone());
        }
        while let Some(sent) = self.next_row().await? {
            self.fail(sent.row, cause.clone());
        }
        Ok(())
    }
}
