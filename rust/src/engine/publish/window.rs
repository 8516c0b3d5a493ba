//! The publish loop: sends what a feed gives while the window has room, and frees room as acks come in.
//!
//! One task owns the window's slots and an inbox of its own, so nothing here is shared or locked. Each message ends as
//! exactly one of stored, duplicate, error. What the loop holds is bounded by the window, whatever the feed and however
//! long the server is silent.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Message, PublishError, PublishErrorKind, StatusCode, Subject, Subscriber};
use futures_util::{FutureExt, Stream, StreamExt};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::engine::connection::Connection;
use crate::engine::connection::refusals::Refusals;
use crate::engine::connection::token::{read_token, write_token};
use crate::engine::publish::arena::Arena;
use crate::engine::publish::inflight::{Inflight, Sent};
use crate::engine::publish::puback::{self, Origin, Parser, PubAck};
use crate::engine::publish::rows::Body;
use crate::error::{About, JetError, Result};
use crate::task::{Spot, weak_spot};

/// How often lost links and late messages are looked for.
const TICK: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub struct Window {
    /// Messages that may be unanswered at once.
    pub max_inflight: usize,
    /// How long a message may stay unanswered, and how long the server may be silent altogether.
    pub timeout: Duration,
    /// After a lost link: `None` sends messages with an id again, `Some` forces it either way.
    pub resend: Option<bool>,
    /// One call's rows: once the server was silent for too long the rest is not tried any more.
    pub one_call: bool,
}

/// A message, and the number of its result.
pub type Item = (u64, Body);

/// Takes the results.
pub trait Outlet: Send {
    fn stored(&mut self, row: u64, origin: &Arc<Origin>, seq: u64, duplicate: bool);
    /// The first ack of a stream, and each that says more than the others.
    fn stored_in_full(&mut self, row: u64, ack: PubAck);
    fn failed(&mut self, row: u64, err: JetError);
    /// No more results are at hand for now.
    fn flush(&mut self) {}
}

/// Sends all of the feed and returns when every message has its result; an error of the feed ends it at once.
pub async fn run(
    conn: &Connection,
    feed: impl Stream<Item = Result<Item>> + Send + Unpin,
    outlet: impl Outlet,
    window: Window,
) -> Result<()> {
    let inbox = format!("{}.", conn.new_inbox()?);
    let refusals = conn.refusals();
    let acks = conn.client.subscribe(format!("{inbox}*")).await.map_err(|_| conn.closed())?;
    let now = Instant::now();
    let mut run = Run {
        conn,
        feed,
        exhausted: false,
        outlet,
        again: VecDeque::new(),
        inflight: Inflight::new(window.max_inflight.max(1)),
        window,
        inbox: inbox.into_bytes(),
        acks,
        arena: Arena::default(),
        parser: Parser::default(),
        breaks: conn.breaks(),
        refusals,
        refused: 0,
        deaf: None,
        last_answer: now,
        down_since: None,
        over: None,
        now,
    };
    // Without tokio's budget of 128 operations a burst is as long as the window: fewer, fuller writes.
    tokio::task::unconstrained(run.drive()).await?;
    let _ = run.acks.unsubscribe().await;
    Ok(())
}

/// What became of a message on its way to the connection.
enum Handed {
    Over,
    Not,
    Refused(PublishErrorKind),
}

struct Run<'a, F, O> {
    conn: &'a Connection,
    feed: F,
    exhausted: bool,
    outlet: O,
    /// Messages of a lost link, to be sent again first.
    again: VecDeque<Sent>,
    inflight: Inflight,
    window: Window,
    inbox: Vec<u8>,
    acks: Subscriber,
    arena: Arena,
    parser: Parser,
    breaks: u64,
    refusals: Refusals,
    /// The link's count of refusals when they were taken last.
    refused: u64,
    /// The server does not let acks through on this link.
    deaf: Option<JetError>,
    last_answer: Instant,
    down_since: Option<Instant>,
    /// Why the rest of the feed is not tried.
    over: Option<JetError>,
    /// Refreshed once per burst of messages, not once per message.
    now: Instant,
}

impl<F: Stream<Item = Result<Item>> + Send + Unpin, O: Outlet> Run<'_, F, O> {
    async fn drive(&mut self) -> Result<()> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut link = self.conn.link.clone();
        loop {
            self.now = Instant::now();
            weak_spot(Spot::Publisher);
            // What was published before goes first, by whatever way.
            self.conn.in_order().await;
            let mut up = self.conn.link.borrow().up || self.over.is_some();
            while up && !self.inflight.is_full() {
                let Some(sent) = self.at_hand()? else { break };
                up = self.send(sent, &mut tick).await?;
            }
            if self.exhausted && self.inflight.is_empty() && self.again.is_empty() {
                self.outlet.flush();
                return Ok(());
            }
            let hungry = up && !self.exhausted && !self.inflight.is_full();
            tokio::select! {
                biased;
                // Once the connection is closed its subscriptions end, and would be ready for ever.
                message = self.acks.next(), if self.over.is_none() => match message {
                    Some(message) => self.answer(message),
                    None => self.give_up(self.conn.closed()),
                },
                item = self.feed.next(), if hungry => match item.transpose()? {
                    Some(item) => {
                        let sent = self.first(item);
                        self.send(sent, &mut tick).await?;
                    }
                    None => self.exhausted = true,
                },
                Ok(()) = link.changed() => self.check_time_and_link(),
                _ = tick.tick() => self.check_time_and_link(),
            }
            while let Some(Some(message)) = self.acks.next().now_or_never() {
                self.answer(message);
            }
            self.outlet.flush();
        }
    }

    /// What can be sent without waiting.
    fn at_hand(&mut self) -> Result<Option<Sent>> {
        if let Some(sent) = self.again.pop_front() {
            return Ok(Some(sent));
        }
        if self.exhausted {
            return Ok(None);
        }
        match self.feed.next().now_or_never() {
            Some(Some(item)) => item.map(|item| Some(self.first(item))),
            Some(None) => {
                self.exhausted = true;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn first(&self, (row, body): Item) -> Sent {
        Sent { row, body, deadline: self.now }
    }

    /// False where the link broke, or the server is silent: the message waits with the others.
    async fn send(&mut self, mut sent: Sent, tick: &mut Interval) -> Result<bool> {
        if let Some(cause) = self.over.as_ref().or(self.deaf.as_ref()) {
            self.outlet.failed(sent.row, cause.clone());
            return Ok(true);
        }
        if self.inflight.is_empty() {
            // Nothing was in flight, so the server has not been silent.
            self.last_answer = self.now;
        }
        let Some(payload) = sent.body.payload() else {
            let err = JetError::Row { row: sent.row, reason: "the payload is null".into() };
            self.outlet.failed(sent.row, err);
            return Ok(true);
        };
        if let Err(err) = sent.body.check(sent.row, self.conn.client.max_payload()) {
            self.outlet.failed(sent.row, err);
            return Ok(true);
        }
        let payload = match sent.body.shared_payload() {
            Some(shared) => shared,
            None => self.arena.copy(payload),
        };
        let subject = sent.body.subject();
        let headers = sent.body.wire_headers();
        sent.deadline = self.now + sent.body.timeout().unwrap_or(self.window.timeout);
        let token = self.inflight.insert(sent);
        let reply = self.reply(token)?;
        self.conn.traffic.sent(payload.len());
        let client = &self.conn.client;
        // Polled by hand: a select for every message would cost as much as the message.
        let handed = match headers {
            None => self.hand_over(pin!(client.publish_with_reply(subject, reply, payload)), tick).await?,
            Some(headers) => {
                let send = client.publish_with_reply_and_headers(subject, reply, headers, payload);
                self.hand_over(pin!(send), tick).await?
            }
        };
        match handed {
            Handed::Over => Ok(true),
            Handed::Not => {
                // Of this one it is certain that it was not stored.
                self.again.extend(self.inflight.remove(token));
                self.check_time_and_link();
                Ok(false)
            }
            // A reconnect can lead to a server with a smaller limit than the one the rows were checked against.
            Handed::Refused(PublishErrorKind::MaxPayloadExceeded) => {
                if let Some(sent) = self.inflight.remove(token) {
                    let (what, limit) = (About::Row(sent.row), self.conn.client.max_payload());
                    let size = sent.body.payload().map_or(0, <[u8]>::len);
                    self.outlet.failed(sent.row, JetError::MaxPayload { what, size, limit });
                }
                Ok(true)
            }
            Handed::Refused(_) => {
                self.give_up(self.conn.closed());
                Ok(true)
            }
        }
    }

    /// Waits until the connection has taken the message; takes acks meanwhile, and leaves where the server is gone.
    async fn hand_over(
        &mut self,
        mut send: std::pin::Pin<&mut (impl Future<Output = std::result::Result<(), PublishError>> + Send)>,
        tick: &mut Interval,
    ) -> Result<Handed> {
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
                match message {
                    Some(message) => self.answer(message),
                    None => {
                        self.expire();
                        self.outlet.flush();
                    }
                }
                if self.silent() || self.conn.breaks() != self.breaks || self.conn.link.borrow().closed {
                    return Ok(Handed::Not);
                }
            },
        };
        Ok(sent.map_or_else(|err| Handed::Refused(err.kind()), |()| Handed::Over))
    }

    fn reply(&mut self, token: u64) -> Result<Subject> {
        let prefix = self.inbox.len();
        write_token(token, &mut self.inbox);
        let bytes = self.arena.copy(&self.inbox);
        self.inbox.truncate(prefix);
        Subject::from_utf8(bytes).map_err(|_| JetError::Internal("reply subject".into()))
    }

    fn answer(&mut self, message: Message) {
        self.conn.traffic.received(message.payload.len());
        let token = message.subject.as_bytes().get(self.inbox.len()..).and_then(read_token);
        let Some(sent) = token.and_then(|token| self.inflight.remove(token)) else { return };
        self.last_answer = self.now;
        if let Some((seq, duplicate)) = self.parser.quick(&message.payload) {
            self.outlet.stored(sent.row, self.parser.origin(), seq, duplicate);
        } else if message.status == Some(StatusCode::NO_RESPONDERS) {
            self.outlet.failed(sent.row, JetError::NoStream { subject: sent.body.subject().to_string() });
        } else {
            match puback::parse(&message.payload) {
                Ok(ack) => {
                    self.parser.learn(&message.payload, &ack);
                    self.outlet.stored_in_full(sent.row, ack);
                }
                Err(err) => self.outlet.failed(sent.row, err),
            }
        }
    }

    fn check_time_and_link(&mut self) {
        self.now = Instant::now();
        let link = *self.conn.link.borrow();
        if link.closed {
            return self.give_up(self.conn.closed());
        }
        if link.refusals != self.refused {
            self.refused = link.refusals;
            self.end_refused();
        }
        let breaks = self.conn.breaks();
        if breaks != self.breaks {
            self.breaks = breaks;
            self.link_broke();
        }
        if self.inflight.is_empty() && self.again.is_empty() {
            self.last_answer = self.now;
        }
        self.down_since = if link.up { None } else { self.down_since.or(Some(self.now)) };
        let down = self.down_since.is_some_and(|since| self.now.duration_since(since) > self.window.timeout);
        if down || self.silent() {
            let what = "the publish (the server has been silent)".to_owned();
            return self.give_up(JetError::Timeout { what, after: self.window.timeout });
        }
        self.expire();
    }

    /// One call ends when nothing at all is answered; messages that came alone have each their own time.
    fn silent(&self) -> bool {
        self.window.one_call && self.now.duration_since(self.last_answer) > self.window.timeout
    }

    fn expire(&mut self) {
        for sent in self.inflight.expire(self.now) {
            let after = sent.body.timeout().unwrap_or(self.window.timeout);
            let what = format!("the publish to {:?}", sent.body.subject().as_str());
            self.outlet.failed(sent.row, JetError::Timeout { what, after });
        }
    }

    /// Messages without permission get no ack, and neither does any where the acks are not let through.
    fn end_refused(&mut self) {
        let refused = self.refusals.take();
        let inbox = format!("{}*", String::from_utf8_lossy(&self.inbox));
        if let Some(cause) = refused.subscription(&inbox) {
            self.deaf = Some(cause.clone());
            return self.give_up(cause.clone());
        }
        if refused.is_empty() {
            return;
        }
        let cause = |sent: &Sent| refused.publish(sent.body.subject().as_str()).cloned();
        for sent in self.inflight.take(|sent| cause(sent).is_some()) {
            if let Some(cause) = cause(&sent) {
                self.outlet.failed(sent.row, cause);
            }
        }
    }

    /// What was in flight may be lost: messages that the server recognises go again, the others end here and now.
    fn link_broke(&mut self) {
        self.deaf = None;
        for sent in self.inflight.take_all() {
            if self.window.resend.unwrap_or_else(|| sent.body.has_id()) {
                self.again.push_back(sent);
            } else {
                self.outlet.failed(sent.row, JetError::Unconfirmed { what: About::Row(sent.row) });
            }
        }
    }

    /// Every message that has no answer gets this one, also those that are at hand and not sent yet.
    fn give_up(&mut self, cause: JetError) {
        for sent in self.inflight.take_all().into_iter().chain(std::mem::take(&mut self.again)) {
            self.outlet.failed(sent.row, cause.clone());
        }
        if self.window.one_call || matches!(cause, JetError::Closed { .. }) {
            self.over = Some(cause);
            return;
        }
        while let Some(Some(Ok((row, _)))) = self.feed.next().now_or_never() {
            self.outlet.failed(row, cause.clone());
        }
    }
}
