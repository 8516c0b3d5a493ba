//! A connection: connect, publish, request and reconnect.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::{oneshot, watch};
use tokio::task::unconstrained;

use crate::connection_state::link::Link;
use crate::connection_state::{ConnectionState, StateSettings};
use crate::lame_duck::LameDuck;
use crate::options::Options;
use crate::outbox::{Outbox, Outgoing};
use crate::path_estimate::PathEstimate;
use crate::pool::{Pool, display_servers};
use crate::pull_budget::PullBudget;
use crate::refusals::Refusals;
use crate::request::{Done, Request, Requests};
use crate::round_trip::trip;
use crate::traffic::{Traffic, Verb};
use crate::transport::{self, Client, SendRejected, Subscriber};
use base::error::{About, JetError, Result};
use runtime::task::spawn;
use wire::message::Message;
use wire::nats::{HeaderMap, Subject};
use wire::size::message_size;
use wire::subject;

/// Time that the attempts of the first round may take beyond the sum of their timeouts, and time that a link may take
/// to end.
pub const TIMEOUT_MARGIN: Duration = Duration::from_millis(250);

pub struct Connection {
    pub client: Client,
    pub link: watch::Receiver<Link>,
    /// Queue of outgoing core messages, requests and subscriptions.
    pub outbox: Outbox,
    /// Path estimate of publishers: client to server.
    pub path: PathEstimate,
    /// Path estimate of readers: server to client.
    pub path_back: PathEstimate,
    /// Budget of bytes that pull requests may have outstanding.
    pub pull_budget: Arc<PullBudget>,
    requests: Requests,
    pub traffic: Arc<Traffic>,
    pub state: Arc<ConnectionState>,
    skip_subject_validation: bool,
}

impl Connection {
    /// Number of disconnects so far.
    pub fn breaks(&self) -> u64 {
        self.link.borrow().breaks
    }

    /// Checks a subject to publish to, as far as the options ask for it.
    pub fn check(&self, subject: &str) -> Result<()> {
        if self.skip_subject_validation { subject::check_line(subject) } else { subject::check(subject) }
    }

    /// Checks a subject to subscribe to, as far as the options ask for it.
    pub fn check_subscription(&self, subject: &str) -> Result<()> {
        if self.skip_subject_validation { subject::check_line(subject) } else { subject::check_subscription(subject) }
    }

    pub fn closed(&self) -> JetError {
        self.state.closed_error()
    }

    /// Returns a receiver of permission errors from now on. A publish without permission ends with such an error, not
    /// with a reply.
    pub fn refusals(&self) -> Refusals {
        self.state.watch_refusals()
    }

    /// Runs `work` while the link is up.
    pub async fn while_up(&self, work: impl Future<Output = ()>) {
        let mut link = self.link.clone();
        tokio::select! {
            () = work => (),
            _ = link.wait_for(|link| !link.up) => (),
        }
    }

    /// Waits until all core messages queued now are sent, so that the caller's next message follows them.
    pub async fn in_order(&self) {
        let mark = self.outbox.mark();
        if !self.outbox.has_passed(mark) {
            self.while_up(self.outbox.passed(mark)).await;
        }
    }

    /// Like `in_order`, for a publisher that fences may wait for.
    pub async fn in_order_of_publisher(&self) {
        let mark = self.outbox.mark_before_fences();
        if !self.outbox.has_passed(mark) {
            self.while_up(self.outbox.passed(mark)).await;
        }
    }

    /// Rejects a message of `bytes` if the link is down and the queue is at its limit.
    pub fn check_room(&self, bytes: usize) -> Result<()> {
        self.requests.check_room(&self.outbox, bytes)
    }

    pub fn subscribe(&self, subject: String) -> Result<Subscriber> {
        self.client.subscribe(subject.into(), None).map_err(|_| self.closed())
    }

    /// Publishes a message of a protocol bound to this link. Waits for the link and for room, each at most `within`.
    /// If the link breaks meanwhile, the message is discarded with it, as if it had been sent.
    pub async fn publish(&self, message: Outgoing, within: Duration) -> Result<()> {
        let what = "the message";
        if !self.link.borrow().up {
            let mut link = self.link.clone();
            let up = tokio::time::timeout(within, link.wait_for(|link| link.up || link.closed)).await;
            up.map(drop).map_err(|_| self.stuck(what, within))?;
        }
        let bytes = message_size(&message);
        let mut send = std::pin::pin!(self.client.publish(message));
        let sent = match send.as_mut().now_or_never() {
            Some(sent) => sent,
            None => {
                let mut link = self.link.clone();
                tokio::select! {
                    biased;
                    sent = send => sent,
                    _ = link.wait_for(|link| !link.up) => return Ok(()),
                    () = tokio::time::sleep(within) => return Err(self.stuck(what, within)),
                }
            }
        };
        match sent {
            Err(SendRejected::Closed) => Err(self.closed()),
            Err(SendRejected::TooLarge) => {
                let limit = self.client.max_payload();
                Err(JetError::MaxPayload { what: About::Other("a message".into()), size: bytes, limit })
            }
            // The message is lost with its link.
            Err(SendRejected::LinkLost) | Ok(()) => Ok(()),
        }
    }

    /// Builds the error for a message that could not be written in time.
    fn stuck(&self, what: &str, after: Duration) -> JetError {
        if self.link.borrow().closed {
            return self.closed();
        }
        JetError::Timeout {
            what: format!("{what} (it was not sent: the connection is down, or the server takes nothing)"),
            after,
        }
    }

    /// Returns a unique inbox subject.
    pub fn new_inbox(&self) -> Result<String> {
        self.state.new_inbox()
    }

    pub fn new_short_inbox(&self) -> Result<String> {
        self.state.new_short_inbox()
    }

    /// Publishes a request and waits for the first reply.
    pub async fn request(
        &self,
        subject: impl Into<Subject>,
        payload: Bytes,
        headers: Option<HeaderMap>,
        timeout: Duration,
    ) -> Result<Message> {
        self.ask(Request { subject: subject.into(), payload, headers, timeout, verb: Verb::Request })?.await
    }

    /// Publishes a request now. The returned future waits for the first reply; dropping it ends the request.
    pub fn ask(&self, request: Request) -> Result<impl Future<Output = Result<Message>> + Send + use<>> {
        self.requests.request(&self.outbox, request)
    }

    /// Enqueues a request in the outbox. `done` gets its reply, and `tag` identifies it for `cancel_request`.
    pub fn start_request(&self, request: Request, tag: usize, done: Done) -> Result<()> {
        self.requests.start(&self.outbox, request, tag, done).map(drop)
    }

    /// Cancels a request. If it is still in the outbox, it is never sent.
    pub fn cancel_request(&self, tag: usize) {
        self.requests.cancel(tag);
    }

    /// Number of requests that wait for a reply.
    pub fn pending_requests(&self) -> usize {
        self.requests.pending()
    }

    /// Waits for a PONG after everything published so far. Fails if the link breaks meanwhile.
    pub async fn round_trip(&self, timeout: Duration) -> Result<()> {
        let late = || JetError::Flush { after: timeout };
        let breaks = self.breaks();
        let trip = async {
            self.outbox.passed(self.outbox.mark()).await;
            trip(&self.client, &self.state, breaks).await
        };
        match tokio::time::timeout(timeout, trip).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(JetError::FlushBroken),
            Ok(Err(error)) => Err(error),
            Err(_) if self.link.borrow().closed => Err(self.closed()),
            Err(_) => Err(late()),
        }
    }

    /// Drops the link and reconnects, to another server if there are several. Returns when the link is down: later
    /// requests use the next link.
    pub async fn force_reconnect(&self) -> Result<()> {
        let mut link = self.link.clone();
        let (breaks, up) = (self.breaks(), link.borrow().up);
        if !self.state.settings.allow_reconnect || !up {
            return Ok(());
        }
        self.client.force_reconnect();
        let _ended = link.wait_for(|link| link.breaks != breaks).await;
        Ok(())
    }

    /// Replaces the list of servers, from the next reconnect on.
    pub fn set_server_pool(&self, addresses: &[String]) -> Result<()> {
        self.state.pool().replace(addresses)
    }
}

/// Stops a connect that was cancelled or failed.
struct Wanted(Option<(Arc<ConnectionState>, Client)>);

impl Drop for Wanted {
    fn drop(&mut self) {
        if let Some((state, client)) = self.0.take() {
            state.stop();
            client.end();
        }
    }
}

/// Returns the handler for a failure of one of the connection's own tasks.
pub fn failing(client: &Client, state: &Arc<ConnectionState>) -> impl FnOnce(JetError) + Send + 'static {
    let (client, state) = (client.clone(), state.clone());
    move |error| {
        state.failed_within(error);
        client.end();
    }
}

pub async fn connect(mut options: Options) -> Result<Connection> {
    let servers: Arc<str> = display_servers(&options.servers).into();
    options.credentials.check()?;
    let pool = Pool::new(&options.servers, options.rules())?;
    let count = pool.count();
    let (first, connected) = oneshot::channel();
    let settings = StateSettings {
        name: options.name.clone(),
        credentials: std::mem::take(&mut options.credentials),
        connect_timeout: options.connect_timeout,
        reconnect_timeout: options.reconnect_timeout,
        allow_reconnect: options.allow_reconnect,
        retry_first: options.retry_first,
        choose: options.choose.take(),
        inbox_prefix: options.inbox_prefix.clone(),
        notices: options.notices.take(),
    };
    let state = Arc::new(ConnectionState::new(settings, pool, servers.clone(), first));
    let all_servers = options.connect_timeout.saturating_mul(count as u32).saturating_add(TIMEOUT_MARGIN);
    let settings = options.settings(&state)?;
    let client = Client::new(state.clone());
    let mut wanted = Wanted(Some((state.clone(), client.clone())));
    let (failed, ended) = (failing(&client, &state), client.clone());
    let failed = move |error: JetError| {
        failed(error);
        ended.close();
    };
    spawn(unconstrained(transport::run(client.clone(), settings)), failed)?;
    let connected = async {
        let closed = |_| JetError::Closed { servers: servers.to_string(), why: None };
        if options.retry_first {
            return connected.await.map_err(closed)?;
        }
        match tokio::time::timeout(all_servers, connected).await {
            Ok(result) => result.map_err(closed)?,
            Err(_) => Err(state.verdict().unwrap_or_else(|| JetError::NoAnswer {
                servers: servers.to_string(),
                cause: format!("no answer within {} s", options.connect_timeout.as_secs_f64()),
            })),
        }
    };
    connected.await?;
    let traffic = Arc::new(Traffic::default());
    let failed = failing(&client, &state);
    let telling = Arc::downgrade(&state);
    let refused = move |error| drop(telling.upgrade().inspect(|state: &Arc<ConnectionState>| state.tell(error)));
    let outbox =
        Outbox::start(client.clone(), state.link.subscribe(), traffic.clone(), options.pending_size, refused, failed)?;
    wanted.0 = None;
    let requests = Requests::new(client.clone(), state.clone(), traffic.clone(), outbox.recall());
    if state.settings.allow_reconnect {
        let work = LameDuck::new(client.clone(), state.clone(), traffic.clone(), requests.pending_requests()).run();
        spawn(work, failing(&client, &state))?;
    }
    Ok(Connection {
        link: state.link.subscribe(),
        requests,
        outbox,
        path: PathEstimate::default(),
        path_back: PathEstimate::default(),
        pull_budget: Arc::default(),
        traffic,
        client,
        state,
        skip_subject_validation: options.skip_subject_validation,
    })
}
