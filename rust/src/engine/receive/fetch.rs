//! Fetching from a pull consumer, N messages or T seconds.
//!
//! One request at a time is open at the server, and it is always seen to its end: what is at hand is taken with
//! `no_wait` requests; only while fewer than `min_messages` are there does one request wait, for just the missing
//! number. So no request is left behind that would eat messages meant for a later call; and what a cancelled call had
//! received, or receives later, is given back.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_nats::{Message, Subject};
use futures_util::{FutureExt, StreamExt};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::engine::api::{Api, NOT_FOUND};
use crate::engine::columns::builder::Builder;
use crate::engine::columns::meta::parse_meta;
use crate::engine::connection::Connection;
use crate::engine::connection::withdraw::withdraw;
use crate::engine::receive::ack::{Kind, send};
use crate::engine::receive::pull::{PULL_BYTES, PULL_ROWS, PullInbox, PullRequest, Status};
use crate::error::{JetError, Result};
use crate::lock::lock;

/// How long after the deadline the server's own word that a request is over is waited for.
const GRACE: Duration = Duration::from_millis(250);
/// How long the server may take to confirm that a request was withdrawn.
const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before a consumer without a leader is asked again.
const RETRY: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub struct Fetch {
    pub max_messages: usize,
    pub max_bytes: Option<usize>,
    pub timeout: Duration,
    /// Once this many are there the call does not wait for more.
    pub min_messages: usize,
    pub heartbeat: Option<Duration>,
}

/// Where fetched messages go.
pub trait Sink: Send + 'static {
    fn rows(&self) -> usize;
    fn bytes(&self) -> usize;
    /// False for what is no message of a stream.
    fn push(&mut self, message: Message) -> Result<bool>;
    /// Ack subjects of what is in it, to give the messages back when the call was cancelled.
    fn replies(&mut self) -> Vec<Subject>;
}

impl Sink for Builder {
    fn rows(&self) -> usize {
        self.len()
    }

    fn bytes(&self) -> usize {
        Builder::bytes(self)
    }

    fn push(&mut self, message: Message) -> Result<bool> {
        let Some(meta) = message.reply.as_deref().and_then(parse_meta) else { return Ok(false) };
        Builder::push(self, &message, &meta)?;
        Ok(true)
    }

    fn replies(&mut self) -> Vec<Subject> {
        let replies = self.finish().ok().and_then(|batch| batch.replies);
        replies.map_or_else(Vec::new, |replies| replies.iter().flatten().map(Subject::from).collect())
    }
}

/// Messages as they came.
#[derive(Default)]
pub struct Messages {
    pub messages: Vec<Message>,
    bytes: usize,
}

impl Sink for Messages {
    fn rows(&self) -> usize {
        self.messages.len()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, message: Message) -> Result<bool> {
        let of_a_stream = message.reply.as_deref().is_some_and(|reply| reply.starts_with("$JS.ACK."));
        if of_a_stream {
            self.bytes += message.length;
            self.messages.push(message);
        }
        Ok(of_a_stream)
    }

    fn replies(&mut self) -> Vec<Subject> {
        self.messages.drain(..).filter_map(|message| message.reply).collect()
    }
}

/// Messages on their way to the caller; dropped on the way, they are given back.
pub struct Unclaimed<S: Sink> {
    conn: Arc<Connection>,
    sink: Option<S>,
}

impl<S: Sink> Unclaimed<S> {
    pub fn claim(mut self) -> Result<S> {
        self.sink.take().ok_or_else(|| JetError::Internal("claimed twice".into()))
    }
}

impl<S: Sink> Drop for Unclaimed<S> {
    fn drop(&mut self) {
        if let Some(mut sink) = self.sink.take() {
            give_back(self.conn.clone(), sink.replies(), None);
        }
    }
}

pub struct PullSubscription {
    conn: Arc<Connection>,
    prefix: String,
    pub stream: String,
    pub consumer: String,
    /// Inboxes that no call uses just now. A call has one to itself, so that calls do not mix.
    idle: Mutex<Vec<PullInbox>>,
}

/// How a request ended.
enum End {
    Full,
    Dry { too_large: bool },
    Gone(String),
    LinkBroke,
    Deadline,
}

/// One call.
struct Job<'a, S: Sink> {
    sub: &'a PullSubscription,
    fetched: Unclaimed<S>,
    inbox: Option<PullInbox>,
    /// There is a request that the server has not ended yet.
    open: bool,
}

impl<S: Sink> Drop for Job<'_, S> {
    fn drop(&mut self) {
        self.retire();
    }
}

impl PullSubscription {
    pub fn new(conn: Arc<Connection>, prefix: String, stream: String, consumer: String) -> Self {
        PullSubscription { conn, prefix, stream, consumer, idle: Mutex::default() }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<PullInbox>> {
        lock(&self.idle)
    }

    /// Fetches into the sink, which comes back in a wrapper that gives its messages back unless they are claimed.
    pub async fn fetch<S: Sink>(&self, fetch: &Fetch, sink: S) -> Result<Unclaimed<S>> {
        let fetched = Unclaimed { conn: self.conn.clone(), sink: Some(sink) };
        let mut job = Job { sub: self, fetched, inbox: None, open: false };
        // All of it ends in time, wherever it waits; what has come by then counts. Tokio's budget would send us to the
        // back of the queue every 128 messages.
        let last = fetch.timeout.saturating_add(2 * GRACE);
        if let Ok(done) = tokio::time::timeout(last, unconstrained(job.run(fetch))).await {
            done?;
        }
        if !job.open
            && let Some(inbox) = job.inbox.take()
        {
            self.idle().push(inbox);
        }
        Ok(Unclaimed { conn: self.conn.clone(), sink: job.fetched.sink.take() })
    }

    /// Gone for good is an error; without a leader for now is a reason to wait a little.
    async fn check_consumer(&self, why: &str, deadline: Instant) -> Result<()> {
        let api = Api::new(&self.conn, &self.prefix);
        match api.check_consumer(&self.stream, &self.consumer).await {
            Err(err @ JetError::Api { code: NOT_FOUND, .. }) => Err(err),
            _ => {
                tokio::time::sleep(RETRY).await;
                if Instant::now() < deadline {
                    return Ok(());
                }
                Err(JetError::Timeout {
                    what: format!("a fetch from consumer {:?} of stream {:?} ({why})", self.consumer, self.stream),
                    after: RETRY,
                })
            }
        }
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

impl<S: Sink> Job<'_, S> {
    async fn run(&mut self, fetch: &Fetch) -> Result<()> {
        let deadline = Instant::now() + fetch.timeout;
        let mut whole_message = false;
        loop {
            let (before, bytes) = self.size();
            let bytes_left = fetch.max_bytes.map_or(PULL_BYTES, |most| most.saturating_sub(bytes));
            if before >= fetch.max_messages || bytes_left == 0 {
                return Ok(());
            }
            let mut at_hand = PullRequest {
                batch: (fetch.max_messages - before).min(PULL_ROWS),
                max_bytes: bytes_left.min(PULL_BYTES),
                no_wait: true,
                ..PullRequest::default()
            };
            if std::mem::take(&mut whole_message) {
                // A single message over our own bound still has to come through.
                (at_hand.batch, at_hand.max_bytes) = (1, 0);
            }
            let mut end = self.round(&at_hand, deadline).await?;
            if let End::Dry { too_large: false } = end {
                let missing = fetch.min_messages.saturating_sub(self.size().0);
                let left = deadline.saturating_duration_since(Instant::now());
                if missing == 0 || left.is_zero() {
                    return Ok(());
                }
                let waiting = PullRequest {
                    batch: missing.min(PULL_ROWS),
                    max_bytes: at_hand.max_bytes,
                    // The server answers with 408 at its end; ours comes a little later.
                    expires: left.mul_f64(0.98).max(Duration::from_millis(1)),
                    no_wait: false,
                    heartbeat: heartbeat(fetch.heartbeat, left),
                };
                end = self.round(&waiting, deadline).await?;
            }
            match end {
                End::Full | End::Dry { too_large: false } => {}
                End::Dry { too_large: true } => match (fetch.max_bytes, self.size().0) {
                    (Some(most), 0) => {
                        return Err(JetError::Value(format!("the next message is larger than max_bytes={most}")));
                    }
                    (Some(_), _) => return Ok(()),
                    (None, now) => whole_message = now == before,
                },
                End::Deadline => return Ok(()),
                End::Gone(why) => self.sub.check_consumer(&why, deadline).await?,
                End::LinkBroke => self.sub.wait_for_link(deadline).await?,
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

    /// An inbox whose request was not seen to its end is not used again.
    fn retire(&mut self) {
        if std::mem::take(&mut self.open)
            && let Some(inbox) = self.inbox.take()
        {
            give_back(self.sub.conn.clone(), Vec::new(), Some(inbox));
        }
    }

    /// Sends one request and takes its messages until it is over.
    async fn round(&mut self, request: &PullRequest, deadline: Instant) -> Result<End> {
        let end = self.take_messages(request, deadline).await;
        match end {
            Ok(End::Full | End::Dry { .. } | End::Gone(_)) | Err(JetError::Api { .. }) => self.open = false,
            _ => {
                if let Some(inbox) = &mut self.inbox {
                    // Here, not later: an ack that the caller sends next may make room, and it is not for this request.
                    let conn = &self.sub.conn;
                    conn.while_up(async { drop(withdraw(&mut inbox.messages).await) }).await;
                }
                self.retire();
            }
        }
        end
    }

    async fn take_messages(&mut self, request: &PullRequest, deadline: Instant) -> Result<End> {
        let Job { sub, fetched: Unclaimed { sink: Some(sink), .. }, inbox, open } = self else {
            return Err(JetError::Internal("no sink".into()));
        };
        let conn = &sub.conn;
        let inbox = match inbox {
            Some(inbox) => inbox,
            None => {
                let idle = sub.idle().pop();
                inbox.insert(match idle {
                    Some(idle) => idle,
                    None => PullInbox::new(conn, &sub.prefix, &sub.stream, &sub.consumer).await?,
                })
            }
        };
        let breaks = conn.breaks();
        let mut link = conn.link.clone();
        let number = inbox.request(conn, request).await?;
        *open = true;
        let mut left = request.batch;
        while left > 0 {
            let message = match inbox.messages.next().now_or_never() {
                Some(message) => message,
                None => {
                    // Silence counts from here: until now there was something to take.
                    let silence_limit = if request.heartbeat.is_zero() { Duration::MAX } else { request.heartbeat * 2 };
                    let silent = Instant::now().checked_add(silence_limit).unwrap_or(deadline + GRACE);
                    tokio::select! {
                        biased;
                        message = inbox.messages.next() => message,
                        Ok(()) = link.changed() => {
                            if conn.breaks() != breaks {
                                return Ok(End::LinkBroke);
                            }
                            if let Some(cause) = inbox.refused() {
                                return Err(cause);
                            }
                            continue;
                        }
                        () = sleep_until(silent.min(deadline + GRACE)) => {
                            return Ok(if silent < deadline { End::LinkBroke } else { End::Deadline });
                        }
                    }
                }
            };
            let Some(message) = message else { return Err(conn.closed()) };
            conn.traffic.received(message.payload.len());
            match inbox.status(&message) {
                None => left -= usize::from(sink.push(message)?),
                Some((other, _)) if other != number => {}
                Some((_, Status::Heartbeat)) => {}
                Some((_, Status::Over { too_large, .. })) => return Ok(End::Dry { too_large }),
                Some((_, Status::Gone(why))) => return Ok(End::Gone(why)),
                Some((_, Status::Refused(err))) => return Err(err),
            }
        }
        Ok(End::Full)
    }
}

/// Naks these messages, which nobody will work on, and what an open request still brings.
fn give_back(conn: Arc<Connection>, replies: Vec<Subject>, rest: Option<PullInbox>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current().or_else(|_| crate::runtime::handle()) else { return };
    if replies.is_empty() && rest.is_none() {
        return;
    }
    runtime.spawn(async move {
        // Best effort: where the server is away it takes the messages back by itself after its ack wait.
        let _ = send(&conn, replies, &Kind::Nak(None)).await;
        let Some(mut inbox) = rest else { return };
        if withdraw(&mut inbox.messages).await.is_err() || conn.round_trip(WITHDRAW_TIMEOUT).await.is_err() {
            return;
        }
        while let Some(Some(message)) = inbox.messages.next().now_or_never() {
            if inbox.status(&message).is_none() {
                let _ = send(&conn, message.reply, &Kind::Nak(None)).await;
            }
        }
    });
}

/// The server wants at most half of the expiry; short waits need none.
fn heartbeat(asked: Option<Duration>, expires: Duration) -> Duration {
    const LONG: Duration = Duration::from_secs(2);
    const DEFAULT: Duration = Duration::from_secs(5);
    match asked {
        Some(every) => every.min(expires.mul_f64(0.45)),
        None if expires >= LONG => DEFAULT.min(expires.mul_f64(0.25)),
        None => Duration::ZERO,
    }
}
