//! The publish loop: sends what a feed gives while the window has room, and frees room as acks come in.
//!
//! One task owns the window's slots and an inbox of its own, so nothing here is shared or locked. Each message ends as
//! exactly one of stored, duplicate, error. The loop holds at most a window of messages, whatever the feed and however
//! long the server is silent.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt};
use tokio::time::{Instant, MissedTickBehavior, sleep_until};

use crate::publish::ack_tracker::{AckTracker, InFlightMessage};
use crate::publish::body::Body;
use crate::publish::dedup::DuplicateLookup;
use crate::publish::no_responders::NoResponders;
use crate::publish::puback::{Origin, PubAck};
use crate::publish::publisher::Urgent;
use base::error::{JetError, Result};
use client::Connection;
use client::congestion::queue_limit::QueueLimit;
use client::congestion::{Congestion, MAX_IN_FLIGHT_MESSAGES};
use client::refusals::Refusals;
use client::traffic::{InFlightGuard, Verb};
use client::transport::Subscriber;
use runtime::task::{Spot, weak_spot};
use wire::arena::Arena;

mod capacity;
mod failures;
mod flow_control;
mod hand_over;
mod replies;
mod send;
mod stream_probe;

pub use failures::silence;
use flow_control::{Controller, FixedWindow, FlowControl};
use hand_over::UnwrittenMessage;
use send::Sequencer;
use stream_probe::StreamProbes;

/// Interval of the checks for lost links and expired messages.
const TICK_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub struct Window {
    /// Maximum number of messages in flight; `None` has `FlowControl` measure it.
    pub max_inflight: Option<usize>,
    /// Maximum of their bytes. A larger message is sent alone.
    pub max_bytes: usize,
    /// The measured window in bytes, for status and metrics.
    pub published_window: Arc<AtomicUsize>,
    /// Timeout of each message, and the longest silence of the server.
    pub timeout: Duration,
    /// After a disconnect: `None` resends messages with an id, `Some` forces it either way.
    pub resend: Option<bool>,
    /// Prefix of the JetStream API.
    pub prefix: String,
    /// Messages in the feed that a caller awaits.
    pub urgent: Arc<Urgent>,
    /// The rows of one call: after a silence the remaining rows are not sent.
    pub is_batch: bool,
}

impl Window {
    fn verb(&self) -> Verb {
        if self.is_batch { Verb::PublishBatch } else { Verb::Publisher }
    }
}

/// The number of a message's result, and the message.
pub type RowToPublish = (u64, Body);

/// Receives the results.
pub trait ResultSink: Send {
    fn stored(&mut self, row: u64, origin: &Arc<Origin>, seq: u64, duplicate: bool);
    /// The first ack of a stream, and each ack with more fields than the others.
    fn stored_in_full(&mut self, row: u64, ack: PubAck);
    fn failed(&mut self, row: u64, err: JetError);
    /// No further result follows immediately.
    fn flush(&mut self) {}
}

impl<R: ResultSink> ResultSink for &mut R {
    fn stored(&mut self, row: u64, origin: &Arc<Origin>, seq: u64, duplicate: bool) {
        (**self).stored(row, origin, seq, duplicate);
    }

    fn stored_in_full(&mut self, row: u64, ack: PubAck) {
        (**self).stored_in_full(row, ack);
    }

    fn failed(&mut self, row: u64, err: JetError) {
        (**self).failed(row, err);
    }

    fn flush(&mut self) {
        (**self).flush();
    }
}

/// Sends all messages of the feed and returns when each has its result. An error of the feed ends it immediately.
pub async fn run(
    conn: &Connection,
    feed: impl Stream<Item = Result<RowToPublish>> + Send + Unpin,
    results: impl ResultSink,
    window: Window,
) -> Result<()> {
    let inbox = format!("{}.", conn.new_short_inbox()?);
    let refusals = conn.refusals();
    let breaks = conn.breaks();
    let sequencer = Sequencer { places: 0, timeout: window.timeout, is_batch: window.is_batch };
    let subscriber = conn.subscribe(format!("{inbox}*"))?;
    let now = Instant::now();
    let controller: Box<dyn Controller> = match window.max_inflight {
        Some(most) => Box::new(FixedWindow { max_bytes: window.max_bytes, messages: QueueLimit::new(most) }),
        None => Box::new(Congestion::new(&conn.path, breaks, window.max_bytes, window.published_window.clone())),
    };
    let mut run = PublishLoop {
        conn,
        verb: window.verb(),
        in_flight_guard: InFlightGuard::new(&conn.traffic),
        feed,
        exhausted: false,
        results,
        sequencer,
        again: VecDeque::new(),
        no_responders: NoResponders::default(),
        probes: StreamProbes::new(window.timeout, now),
        tracker: AckTracker::new(window.max_inflight.unwrap_or(MAX_IN_FLIGHT_MESSAGES), window.resend != Some(false)),
        flow: FlowControl::new(controller, now),
        window,
        ack_inbox: AckInbox { prefix: inbox.into_bytes(), subscriber, arena: Arena::default(), block: Vec::new() },
        link: LinkView { breaks, refusals, refused: 0, ack_inbox_error: None, down_since: None },
        duplicates: DuplicateLookup::default(),
        order: OutboxOrder { is_first: true, written: 0 },
        last_answer: now,
        blocked: false,
        terminal_error: None,
        now,
        unwritten: None,
    };
    // Tokio's budget of 128 operations would cut bursts short of the window: more writes of fewer bytes.
    tokio::task::unconstrained(run.drive()).await?;
    // Dropping the subscriber unsubscribes without waiting for room in the outbox.
    Ok(())
}

/// The inbox of acks, and the memory that reply subjects and header blocks are written in.
struct AckInbox {
    /// The inbox with its last dot; a token follows.
    prefix: Vec<u8>,
    subscriber: Subscriber,
    arena: Arena,
    block: Vec<u8>,
}

/// The link as the loop saw it last.
struct LinkView {
    breaks: u64,
    refusals: Refusals,
    /// The link's count of refusals when they were taken last.
    refused: u64,
    /// The server refuses the subscription to acks on this link.
    ack_inbox_error: Option<JetError>,
    down_since: Option<Instant>,
}

/// The order with core messages, which take another path to the socket.
struct OutboxOrder {
    /// Everything that was published before is written.
    is_first: bool,
    /// Messages of the outbox that were written at the last check.
    written: u64,
}

struct PublishLoop<'a, F, O> {
    conn: &'a Connection,
    verb: Verb,
    in_flight_guard: InFlightGuard<'a>,
    feed: F,
    exhausted: bool,
    results: O,
    sequencer: Sequencer,
    /// Messages to be sent before any of the feed, in publish order.
    again: VecDeque<InFlightMessage>,
    no_responders: NoResponders,
    probes: StreamProbes<'a>,
    tracker: AckTracker,
    flow: FlowControl,
    window: Window,
    ack_inbox: AckInbox,
    link: LinkView,
    duplicates: DuplicateLookup<'a>,
    order: OutboxOrder,
    last_answer: Instant,
    /// The next message waits for answers to others.
    blocked: bool,
    /// Why the rest of the feed is not sent.
    terminal_error: Option<JetError>,
    /// Refreshed once per burst of messages, not once per message.
    now: Instant,
    /// The message in the window that waits for room in the socket.
    unwritten: Option<UnwrittenMessage>,
}

impl<F: Stream<Item = Result<RowToPublish>> + Send + Unpin, O: ResultSink> PublishLoop<'_, F, O> {
    async fn drive(&mut self) -> Result<()> {
        let mut tick = tokio::time::interval(TICK_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut link = self.conn.link.clone();
        loop {
            self.now = Instant::now();
            weak_spot(Spot::Publisher);
            let up = self.fill_window().await?;
            if self.exhausted && self.tracker.is_empty() && self.again.is_empty() && self.no_responders.is_empty() {
                self.results.flush();
                return Ok(());
            }
            self.report_in_flight();
            let waits = if up { self.is_full() || !self.again.is_empty() } else { self.window.is_batch };
            let hungry = !self.exhausted && !waits && self.unwritten.is_none();
            let unwritten = self.unwritten.as_ref().map(|unwritten| unwritten.bytes);
            let client = &self.conn.client;
            let quiet = self.quiet_from().filter(|_| up && self.blocked).filter(|at| self.now < *at);
            let (asking, leader) = (&mut self.duplicates.lookup, &mut self.probes.leader);
            tokio::select! {
                biased;
                // A closed connection ends its subscriptions, which would stay ready for ever.
                message = self.ack_inbox.subscriber.next(), if self.terminal_error.is_none() => match message {
                    Some(message) => {
                        self.now = Instant::now();
                        self.on_reply(message);
                    }
                    None => self.connection_ended(),
                },
                item = self.feed.next(), if hungry => match item.transpose()? {
                    Some(item) => {
                        let sent = self.sequencer.number(item, Instant::now());
                        self.again.push_back(sent);
                    }
                    None => self.exhausted = true,
                },
                known = async { match asking { Some(asking) => asking.await, None => pending().await } } => {
                    // Without an answer it is asked again, until the messages have timed out.
                    self.duplicates.lookup = None;
                    self.duplicates.windows.learn(known);
                }
                Some((subject, verdict)) = self.probes.subjects.next(), if !self.probes.subjects.is_empty() => {
                    self.learn_stream(&subject, verdict);
                }
                () = self.window.urgent.added() => {}
                () = sleep_until(quiet.unwrap_or(self.now)), if quiet.is_some() => {}
                leads = async { match leader { Some(probes) => probes.await, None => pending().await } } => {
                    self.learn_leader(leads);
                }
                () = client.room_or_disconnect(unwritten.unwrap_or(0)), if unwritten.is_some() => {}
                Ok(()) = link.changed() => self.check_time_and_link(),
                _ = tick.tick() => self.on_tick()?,
            }
            while let Some(Some(message)) = self.ack_inbox.subscriber.next().now_or_never() {
                self.on_reply(message);
            }
            self.results.flush();
        }
    }

    /// Sends messages while the window has room. Returns true if more could be sent on this link.
    async fn fill_window(&mut self) -> Result<bool> {
        if !self.write_unwritten() {
            return Ok(false);
        }
        // Earlier core messages are written first, although they take another path.
        self.wait_for_others().await;
        self.ask_for_window();
        self.ask_for_streams();
        self.flow.note_overtaken(&mut self.tracker, &self.conn.path, self.link.breaks);
        if let Some(until) = self.conn.path.reuse_suspended() {
            self.tracker.suspend_reuse(until);
        }
        let mut up =
            self.terminal_error.is_some() || (self.order.is_first && self.duplicates.lookup.is_none() && self.is_up());
        while up && self.tracker.len() < self.tracker.window() {
            let Some(sent) = self.at_hand()? else { break };
            if let Some(token) = self.send_now(sent) {
                up = self.hand_over(token)?;
            }
        }
        if !up && self.unwritten.is_none() || self.tracker.len() >= self.tracker.window() {
            self.take_in()?;
        }
        Ok(up)
    }

    fn on_tick(&mut self) -> Result<()> {
        if self.unwritten.is_some() {
            self.take_in()?;
        }
        self.check_time_and_link();
        Ok(())
    }

    /// True if the link takes messages and is the one that was seen last.
    fn is_up(&self) -> bool {
        let link = self.conn.link.borrow();
        link.is_open() && link.breaks == self.link.breaks
    }

    /// Reports messages in flight.
    fn report_in_flight(&mut self) {
        let messages = self.tracker.len() + self.no_responders.len();
        if self.window.is_batch {
            self.in_flight_guard.tell(messages, self.tracker.bytes() + self.no_responders.bytes());
        } else {
            self.in_flight_guard.tell_publisher(messages);
        }
    }

    /// True if no more of the feed fits. Messages that wait in a publisher are limited by the publisher.
    fn is_full(&self) -> bool {
        let waiting = if self.window.is_batch { self.no_responders.len() } else { 0 };
        self.tracker.len() + waiting >= self.tracker.window()
    }

    /// The next message that can be sent without waiting.
    fn at_hand(&mut self) -> Result<Option<InFlightMessage>> {
        self.blocked = false;
        loop {
            let exceeds = self.may_exceed();
            let sent = match self.again.pop_front() {
                Some(sent) => sent,
                None if self.exhausted || self.is_full() => return Ok(None),
                None => match self.feed.next().now_or_never() {
                    Some(Some(item)) => self.sequencer.number(item?, self.now),
                    Some(None) => {
                        self.exhausted = true;
                        return Ok(None);
                    }
                    None => return Ok(None),
                },
            };
            if self.terminal_error.is_some() {
                return Ok(Some(sent));
            }
            // A resent message, and one that waited behind it, used its room the first time.
            let fresh = sent.sent_at.is_none() && sent.tries == 0;
            let full = !exceeds && self.has_no_room(&sent, fresh);
            let Some(sent) = (if full && fresh { Some(sent) } else { self.hold(sent) }) else { continue };
            if full {
                self.blocked = true;
                self.again.push_front(sent);
                let (messages, bytes) = self.on_the_way(fresh);
                self.flow.on_full(messages, bytes);
                return Ok(None);
            }
            return Ok(Some(sent));
        }
    }

    /// Holds a message back behind others of its subject. Its timeout runs meanwhile.
    fn hold(&mut self, mut sent: InFlightMessage) -> Option<InFlightMessage> {
        if self.no_responders.is_idle() {
            return Some(sent);
        }
        let deadline = sent.deadline;
        sent.deadline = deadline.or(Some(self.now + self.window.timeout));
        let sent = self.no_responders.hold(sent)?;
        Some(InFlightMessage { deadline, ..sent })
    }

    /// Takes messages of a publisher from the feed while nothing can be sent, because their timeouts run. The publisher
    /// limits their number.
    fn take_in(&mut self) -> Result<()> {
        while !self.window.is_batch && !self.exhausted {
            let urgent = self.window.urgent.count();
            match self.feed.next().now_or_never() {
                Some(Some(item)) => {
                    let sent = self.sequencer.number(item?, Instant::now());
                    self.again.push_back(sent);
                }
                Some(None) => self.exhausted = true,
                // A feed pauses behind each fence.
                None if self.window.urgent.count() < urgent => {}
                None => return Ok(()),
            }
        }
        Ok(())
    }
}
