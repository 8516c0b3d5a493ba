//! Fetching from a pull consumer: N messages or T seconds.
//!
//! One request at a time is open at the server, and the call follows it to its end. Messages at hand are requested with
//! `no_wait`. A request waits only while fewer than `min_messages` have arrived, and only for the missing number, so no
//! abandoned request consumes messages meant for others (`pull_request`). Messages that arrive after the deadline are
//! kept for the next call. Messages of a cancelled call are negatively acknowledged, or kept for the next call if the
//! consumer wants no acks (`redelivery`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::api::{Api, NOT_FOUND};
use crate::receive::limits::{Limit, Limits};
use crate::receive::priority::{Member, Pins, PriorityGroup};
use crate::receive::pull::PullInbox;
use crate::receive::request_size::{AckWindow, RequestSize};
use base::error::{JetError, Result};
use base::lock::{Guard, lock};
use client::Connection;

mod call;
mod pull_request;
mod redelivery;
mod round_end;
mod sink;

use call::FetchCall;
use redelivery::Redelivery;
pub use redelivery::{Cancel, ConsumerTraits, LastDelivery};
pub use sink::{MessageSink, Sink, Unclaimed, Undelivered};

/// Time after the deadline in which the server's status for a request may still arrive.
const REQUEST_GRACE: Duration = Duration::from_millis(250);
/// Pause before the next request to a consumer without a leader.
const FETCH_RETRY_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub struct Fetch {
    pub max_messages: usize,
    pub max_bytes: Option<usize>,
    pub timeout: Duration,
    /// The call waits for this many messages at least.
    pub min_messages: usize,
    pub heartbeat: Option<Duration>,
    pub group: Option<PriorityGroup>,
}

/// The consumer's ack window, as the server states it.
pub(super) enum Fullness {
    HasRoom,
    /// Nothing after this consumer sequence is delivered before messages are acknowledged.
    Full {
        delivered: u64,
    },
}

pub struct PullSubscription {
    conn: Arc<Connection>,
    prefix: String,
    pub stream: String,
    pub consumer: String,
    /// Idle inboxes. Each call uses one of its own, so that calls do not mix.
    idle: Mutex<Vec<PullInbox>>,
    returns: Arc<Redelivery>,
    ack_window: Mutex<AckWindow>,
    /// Highest consumer sequence that a call has taken.
    received: AtomicU64,
    limits: Mutex<Limits>,
    /// Size of one request.
    rows: RequestSize,
    pins: Pins,
}

impl Drop for PullSubscription {
    fn drop(&mut self) {
        self.returns.end();
    }
}

impl PullSubscription {
    pub fn new(conn: Arc<Connection>, prefix: String, stream: String, consumer: String) -> Self {
        let (idle, ack_window, received, limits, rows, pins) = Default::default();
        let returns = Arc::new(Redelivery::new(conn.clone(), prefix.clone(), stream.clone(), consumer.clone()));
        PullSubscription { conn, prefix, stream, consumer, idle, returns, ack_window, received, limits, rows, pins }
    }

    /// No request asks for more than this many messages.
    pub fn limit_request(&self, most: usize) {
        lock(&self.limits).learn(Limit::Batch(most));
    }

    fn idle(&self) -> Guard<'_, Vec<PullInbox>> {
        lock(&self.idle)
    }

    /// Returns late messages to the server: no further call takes them.
    pub fn give_back(&self) {
        self.returns.end();
    }

    /// Records the consumer's traits.
    pub fn learn(&self, ways: ConsumerTraits) {
        self.returns.learn(ways);
    }

    /// Takes back messages that were handed out, in their order.
    pub fn put_back(&self, kept: Vec<Undelivered>) -> impl Future<Output = Result<()>> + Send + use<> {
        self.returns.put_back(kept)
    }

    /// The server's id of this client as the one that a priority group is pinned to.
    pub fn pin(&self, group: &str) -> Option<String> {
        lock(&self.pins).get(group).cloned()
    }

    /// A handle that announces the cancellation of a `fetch`, and its counterpart for the call.
    pub fn cancel(&self) -> (Arc<Cancel>, LastDelivery) {
        Cancel::new(&self.returns)
    }

    /// Fetches into the sink. The result returns its messages to the server unless they are claimed.
    pub async fn fetch<S: Sink>(&self, fetch: &Fetch, sink: S, last: LastDelivery) -> Result<Unclaimed<S>> {
        let _last = last;
        let fetched = Unclaimed::new(self.returns.clone(), Some(sink));
        self.returns.settled(Instant::now() + fetch.timeout).await;
        let late = std::mem::take(&mut *self.returns.late());
        let member = fetch.group.clone().map(|group| Member::new(group, self.pins.clone()));
        let (inbox, request, heard, reduced) = (None, None, false, false);
        let mut job = FetchCall { sub: self, fetched, inbox, request, heard, reduced, late, member };
        // The call ends in time wherever it waits, with the messages so far. Tokio's budget would yield every 128
        // messages.
        let last = fetch.timeout.saturating_add(2 * REQUEST_GRACE);
        let done = tokio::time::timeout(last, unconstrained(job.run(fetch))).await.unwrap_or(Ok(()));
        self.idle().extend(job.inbox.take());
        self.receive(job.last().map_or(0, |last| last.consumer_seq));
        match done {
            // Messages so far are handed out; the next call meets the error again.
            Err(_) if job.size().0 > 0 => {}
            done => done?,
        }
        if job.size().0 == 0 {
            self.check_heard(job.heard, fetch)?;
        }
        Ok(Unclaimed::result(&self.returns, job.fetched.sink.take()))
    }

    /// Fails if the consumer does not exist; waits if it has no leader.
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

    /// Fails an empty call if the server sent nothing or is disconnected.
    fn check_heard(&self, heard: bool, fetch: &Fetch) -> Result<()> {
        let outage = self.conn.state.outage();
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

impl PullSubscription {
    pub fn ack_window(&self) -> Guard<'_, AckWindow> {
        lock(&self.ack_window)
    }

    /// Records that messages up to this consumer sequence have arrived. Returns the highest one.
    pub(super) fn receive(&self, consumer_seq: u64) -> u64 {
        self.received.fetch_max(consumer_seq, Ordering::Relaxed).max(consumer_seq)
    }

    /// Asks the server whether the consumer delivers nothing more before messages are acknowledged.
    pub(super) async fn fullness(&self, deadline: Instant) -> Fullness {
        let api = Api::new(&self.conn, &self.prefix);
        let Ok(answer) = timeout_at(deadline, api.consumer_state(&self.stream, &self.consumer)).await else {
            return Fullness::HasRoom;
        };
        let mut known = self.ack_window();
        let Ok(state) = answer else {
            // Not permitted, or no such consumer: assume no window for a while.
            known.learn(None);
            return Fullness::HasRoom;
        };
        self.learn(ConsumerTraits::from(&state));
        let window = state.ack_window();
        known.learn(window);
        if window.is_some_and(|most| state.num_ack_pending >= most as u64) {
            return Fullness::Full { delivered: state.delivered.consumer_seq };
        }
        known.slow += 1;
        Fullness::HasRoom
    }
}

fn too_large(most: usize) -> JetError {
    JetError::Value(format!("the next message is larger than max_bytes={most}"))
}

/// The heartbeat of a request. The server accepts at most half of the expiry; short waits need none.
fn heartbeat(asked: Option<Duration>, expires: Duration, whole: Duration) -> Duration {
    const LONG: Duration = Duration::from_secs(2);
    const DEFAULT: Duration = Duration::from_secs(5);
    match asked {
        // More than half of the caller's timeout: let the server reject it.
        Some(every) if every.saturating_mul(2) > whole => every,
        Some(every) => every.min(expires.mul_f64(0.45)),
        None if expires >= LONG => DEFAULT.min(expires.mul_f64(0.25)),
        None => Duration::ZERO,
    }
}
