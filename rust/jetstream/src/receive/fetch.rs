//! Fetching from a pull consumer, N messages or T seconds.
//!
//! One request at a time is open at the server, and it is always seen to its end: what is at hand is taken with
//! `no_wait` requests; only while fewer than `min_messages` are there does one request wait, for just the missing
//! number. So no request is left behind that would eat messages meant for others; what comes after the deadline is kept
//! for the next call (`late.rs`); and what a cancelled call had received, or receives later, is given back, or kept for the
//! next call where the consumer wants no acks (`returns.rs`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::api::{Api, NOT_FOUND};
use crate::receive::limits::{Limit, Limits};
use crate::receive::priority::{Member, Pins, PriorityGroup};
use crate::receive::pull::{PULL_BYTES, PullInbox, PullRequest};
use base::error::{JetError, Result};
use base::lock::{Guard, lock};
use client::Connection;

mod ack_window;
mod late_replies;
mod redelivery;
mod request_size;
mod round;
mod sink;
mod take_kept;
pub mod undelivered;

use ack_window::AckWindow;
use late_replies::{Ending, LateReplies};
use redelivery::Redelivery;
pub use redelivery::{Cancel, ConsumerTraits, LastDelivery};
use request_size::RequestSize;
use round::RoundEnd;
pub use sink::{MessageSink, Sink, Unclaimed};
use undelivered::UndeliveredMessages;

/// How long after the deadline the server's own word that a request is over is waited for.
const GRACE: Duration = Duration::from_millis(250);
/// Pause before a consumer without a leader is asked again.
const FETCH_RETRY_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub struct Fetch {
    pub max_messages: usize,
    pub max_bytes: Option<usize>,
    pub timeout: Duration,
    /// Once this many are there the call does not wait for more.
    pub min_messages: usize,
    pub heartbeat: Option<Duration>,
    pub group: Option<PriorityGroup>,
}

pub struct PullSubscription {
    conn: Arc<Connection>,
    prefix: String,
    pub stream: String,
    pub consumer: String,
    /// Inboxes that no call uses just now. A call has one to itself, so that calls do not mix.
    idle: Mutex<Vec<PullInbox>>,
    returns: Arc<Redelivery>,
    ack_window: Mutex<AckWindow>,
    limits: Mutex<Limits>,
    /// Most messages of one request.
    rows: RequestSize,
    pins: Pins,
}

/// One call.
struct FetchCall<'a, S: Sink> {
    sub: &'a PullSubscription,
    fetched: Unclaimed<S>,
    inbox: Option<PullInbox>,
    /// There is a request that the server has not ended yet; and what it is, where it waits for nothing.
    open: bool,
    at_hand: Option<Ending>,
    /// How often the link had broken when it was sent.
    breaks: u64,
    /// The server has answered something.
    heard: bool,
    /// The last request was for fewer bytes than the call wants.
    reduced: bool,
    /// To be taken before anything new is asked for.
    late: VecDeque<LateReplies>,
    member: Option<Member>,
}

impl<S: Sink> Drop for FetchCall<'_, S> {
    fn drop(&mut self) {
        // Cancelled, or over: then there is nothing.
        let open = self.inbox.take().filter(|_| self.open);
        self.sub.returns.take_over(self.fetched.sink.take(), open.map(|inbox| (inbox, self.breaks, self.at_hand)));
        self.sub.returns.late().extend(self.late.drain(..));
    }
}

impl Drop for PullSubscription {
    fn drop(&mut self) {
        self.returns.end();
    }
}

impl PullSubscription {
    pub fn new(conn: Arc<Connection>, prefix: String, stream: String, consumer: String) -> Self {
        let (idle, ack_window, limits, rows, pins) = Default::default();
        let returns = Arc::new(Redelivery::new(conn.clone(), prefix.clone(), stream.clone(), consumer.clone()));
        PullSubscription { conn, prefix, stream, consumer, idle, returns, ack_window, limits, rows, pins }
    }

    /// No request asks for more than this many messages.
    pub fn limit_request(&self, most: usize) {
        lock(&self.limits).learn(Limit::Batch(most));
    }

    fn idle(&self) -> Guard<'_, Vec<PullInbox>> {
        lock(&self.idle)
    }

    /// Gives back what came late, or is still to come: no call will take it.
    pub fn give_back(&self) {
        self.returns.end();
    }

    /// What the server said of the consumer.
    pub fn learn(&self, ways: ConsumerTraits) {
        self.returns.learn(ways);
    }

    /// Takes messages that were handed out and not wanted, in their order.
    pub fn put_back(&self, kept: Vec<UndeliveredMessages>) -> impl Future<Output = Result<()>> + Send + use<> {
        self.returns.put_back(kept)
    }

    /// For a call of `fetch`: to say that it is about to be cancelled, and for the call itself.
    pub fn cancel(&self) -> (Arc<Cancel>, LastDelivery) {
        Cancel::new(&self.returns)
    }

    /// Fetches into the sink, which comes back in a wrapper that gives its messages back unless they are claimed.
    pub async fn fetch<S: Sink>(&self, fetch: &Fetch, sink: S, last: LastDelivery) -> Result<Unclaimed<S>> {
        let _last = last;
        let fetched = Unclaimed::new(self.returns.clone(), Some(sink));
        self.returns.settled(Instant::now() + fetch.timeout).await;
        let late = std::mem::take(&mut *self.returns.late());
        let member = fetch.group.clone().map(|group| Member::new(group, self.pins.clone()));
        let (inbox, at_hand) = (None, None);
        let (open, heard, reduced, breaks) = (false, false, false, 0);
        let mut job = FetchCall { sub: self, fetched, inbox, open, at_hand, breaks, heard, reduced, late, member };
        // All of it ends in time, wherever it waits; what has come by then counts. Tokio's budget would send us to the
        // back of the queue every 128 messages.
        let last = fetch.timeout.saturating_add(2 * GRACE);
        let done = tokio::time::timeout(last, unconstrained(job.run(fetch))).await.unwrap_or(Ok(()));
        if !job.open
            && let Some(inbox) = job.inbox.take()
        {
            self.idle().push(inbox);
        }
        match done {
            // What has come is handed out; whatever went wrong then meets the next call as well.
            Err(_) if job.size().0 > 0 => {}
            done => done?,
        }
        if job.size().0 == 0 {
            self.check_heard(job.heard, fetch)?;
        }
        Ok(Unclaimed::result(&self.returns, job.fetched.sink.take()))
    }

    /// Gone for good is an error; without a leader for now is a reason to wait a little.
    async fn check_consumer(&self, why: &str, fetch: &Fetch, deadline: Instant) -> Result<()> {
        let api = Api::new(&self.conn, &self.prefix);
        if let Ok(Err(err @ JetError::Api { code: NOT_FOUND, .. })) =
            timeout_at(deadline, api.check_consumer(&self.stream, &self.consumer)).await
        {
            return Err(err);
        }
        sleep_until(deadline.min(Instant::now() + FETCH_RETRY_INTERVAL)).await;
        if Instant::now() < deadline {
            return Ok(());
        }
        Err(JetError::Timeout {
            what: format!("a fetch from consumer {:?} of stream {:?} ({why})", self.consumer, self.stream),
            after: fetch.timeout,
        })
    }

    /// An empty answer is the server's: where it said nothing, or is away, that is an error.
    fn check_heard(&self, heard: bool, fetch: &Fetch) -> Result<()> {
        let outage = self.conn.hub.outage();
        if heard && outage.is_none() {
            return Ok(());
        }
        let why = outage.unwrap_or_else(|| "the server has not answered".into());
        let what = format!("a fetch from consumer {:?} of stream {:?} ({why})", self.consumer, self.stream);
        Err(JetError::Timeout { what, after: fetch.timeout })
    }

    async fn wait_for_link(&self, deadline: Instant) -> Result<()> {
        let mut link = self.conn.link.clone();
        let up = link.wait_for(|link| link.up || link.closed);
        match timeout_at(deadline, up).await {
            Ok(Ok(link)) if link.closed => Err(self.conn.closed()),
            _ => Ok(()),
        }
    }
}

impl<S: Sink> FetchCall<'_, S> {
    async fn run(&mut self, fetch: &Fetch) -> Result<()> {
        let deadline = Instant::now() + fetch.timeout;
        let mut whole_message = false;
        loop {
            if !self.take_late(fetch, deadline).await? {
                return Ok(());
            }
            let before = self.size().0;
            let bytes_left = self.bytes_left(fetch);
            if before >= fetch.max_messages || bytes_left == 0 {
                return Ok(());
            }
            let Some(room) = self.sub.ack_window().room(before) else { return Ok(()) };
            let mut at_hand = PullRequest {
                batch: (fetch.max_messages - before).min(self.sub.rows.most()).min(room),
                max_bytes: bytes_left.min(PULL_BYTES),
                no_wait: true,
                ..PullRequest::default()
            };
            let whole = std::mem::take(&mut whole_message);
            if whole {
                // A single message over our own bound still has to come through.
                (at_hand.batch, at_hand.max_bytes) = (1, if fetch.max_bytes.is_some() { bytes_left } else { 0 });
            }
            let asked = Instant::now();
            let mut end = self.round(&at_hand, deadline).await?;
            if matches!(end, RoundEnd::Full) {
                self.sub.rows.learn(self.size().0 - before, asked.elapsed());
            }
            // The server's word may have overtaken its messages.
            if matches!(end, RoundEnd::WindowFull) && !self.take_late(fetch, deadline).await? {
                return Ok(());
            }
            if let RoundEnd::Dry { too_large: false } | RoundEnd::WindowFull = end {
                let missing = fetch.min_messages.saturating_sub(self.size().0);
                let left = deadline.saturating_duration_since(Instant::now());
                let room = self.sub.ack_window().room(self.size().0).unwrap_or(0);
                if matches!(end, RoundEnd::Dry { .. })
                    && missing == 0
                    && !left.is_zero()
                    && self.size().0 > before
                    && self.expects_more()
                {
                    continue;
                }
                if missing.min(room) == 0 || left.is_zero() {
                    return Ok(());
                }
                let waiting = PullRequest {
                    batch: missing.min(self.sub.rows.most()).min(room),
                    max_bytes: at_hand.max_bytes,
                    // The server answers with 408 at its end; ours comes a little later.
                    expires: left.mul_f64(0.98).max(Duration::from_millis(1)),
                    no_wait: false,
                    heartbeat: heartbeat(fetch.heartbeat, left, fetch.timeout),
                };
                end = self.round(&waiting, deadline).await?;
            }
            match end {
                RoundEnd::Full | RoundEnd::WindowFull | RoundEnd::Dry { too_large: false } => {}
                RoundEnd::Dry { too_large: true } => match (fetch.max_bytes, self.size().0) {
                    (most, now) if !whole && (self.reduced || most.is_none()) => whole_message = now == before,
                    (Some(most), 0) => return Err(too_large(most)),
                    // The consumer's own limit is lower.
                    (None, 0) => return Err(too_large(lock(&self.sub.limits).bytes())),
                    _ => return Ok(()),
                },
                RoundEnd::Deadline => {
                    self.take_late(fetch, deadline).await?;
                    return Ok(());
                }
                RoundEnd::Limited(Limit::Waiting) => {
                    sleep_until(deadline.min(Instant::now() + FETCH_RETRY_INTERVAL)).await
                }
                RoundEnd::Limited(limit) => lock(&self.sub.limits).learn(limit),
                RoundEnd::Gone(why) => self.sub.check_consumer(&why, fetch, deadline).await?,
                RoundEnd::LinkBroke => self.sub.wait_for_link(deadline).await?,
            }
            if Instant::now() >= deadline {
                return Ok(());
            }
        }
    }

    /// Messages and bytes so far.
    fn size(&self) -> (usize, usize) {
        self.fetched.sink.as_ref().map_or((0, 0), |sink| (sink.rows(), sink.bytes()))
    }

    /// The server can say that it is dry while it is not: the last message tells what was pending behind it.
    fn expects_more(&self) -> bool {
        self.fetched.sink.as_ref().and_then(Sink::last).is_some_and(|(_, pending)| pending > 0)
    }

    /// How many bytes the call may still bring.
    fn bytes_left(&self, fetch: &Fetch) -> usize {
        let room = self.fetched.sink.as_ref().map_or(0, Sink::room);
        fetch.max_bytes.map_or(room, |most| room.min(most.saturating_sub(self.size().1)))
    }

    /// Takes what former requests still bring; false where nothing new is to be asked for: the call is full, or over.
    async fn take_late(&mut self, fetch: &Fetch, deadline: Instant) -> Result<bool> {
        while !self.late.is_empty() {
            let (rows, left) = (self.size().0, self.bytes_left(fetch));
            let Some(late) = self.late.front_mut() else { break };
            if rows >= fetch.max_messages || left == 0 {
                return Ok(false);
            }
            match timeout_at(deadline + GRACE, late.next()).await {
                Ok(Some(kept)) if kept.bytes() > left && (rows > 0 || fetch.max_bytes.is_some()) => {
                    late.put_back(kept);
                    return if rows > 0 { Ok(false) } else { Err(too_large(fetch.max_bytes.unwrap_or(left))) };
                }
                Ok(Some(kept)) => {
                    if !self.take_kept(kept, deadline).await? {
                        return Ok(false);
                    }
                }
                Ok(None) => drop(self.late.pop_front()),
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }
}

fn too_large(most: usize) -> JetError {
    JetError::Value(format!("the next message is larger than max_bytes={most}"))
}

/// The server wants at most half of the expiry; short waits need none.
fn heartbeat(asked: Option<Duration>, expires: Duration, whole: Duration) -> Duration {
    const LONG: Duration = Duration::from_secs(2);
    const DEFAULT: Duration = Duration::from_secs(5);
    match asked {
        // More than half of what the caller waits: the server says so.
        Some(every) if every.saturating_mul(2) > whole => every,
        Some(every) => every.min(expires.mul_f64(0.45)),
        None if expires >= LONG => DEFAULT.min(expires.mul_f64(0.25)),
        None => Duration::ZERO,
    }
}
