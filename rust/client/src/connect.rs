//! The connection: opened, watched and closed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::{oneshot, watch};
use tokio::task::unconstrained;

use crate::connection_state::link::Link;
use crate::connection_state::{ConnectionState, Pings, StateSettings};
use crate::options::Options;
use crate::outbox::{Outbox, Outgoing};
use crate::path_estimate::PathEstimate;
use crate::pool::{Pool, display_servers};
use crate::pull_budget::PullBudget;
use crate::refusals::Refusals;
use crate::request::{Done, Request, Requests};
use crate::stall::run_until_stalled;
use crate::traffic::{Traffic, Verb};
use crate::transport::{self, Client, SendRejected, Subscriber};
use base::error::{About, JetError, Result};
use runtime::task::spawn;
use wire::message::Message;
use wire::nats::{HeaderMap, Subject};
use wire::size::message_size;
use wire::subject;

/// Turns that are left to other tasks after a PONG.
const YIELDS: usize = 3;
/// How much longer than their sum all attempts of the first round may take; also how long a link takes to end.
const MARGIN: Duration = Duration::from_millis(250);
/// How long a connection that is closed in a hurry waits until all is sent.
const HURRY: Duration = Duration::from_millis(300);

pub struct Connection {
    pub client: Client,
    pub link: watch::Receiver<Link>,
    /// Core messages, requests and subscriptions on their way out.
    pub outbox: Outbox,
    /// What publishers have learnt of the way to the server.
    pub path: PathEstimate,
    /// And readers of the way back.
    pub path_back: PathEstimate,
    /// What pull requests may bring just now.
    pub pull_budget: Arc<PullBudget>,
    requests: Requests,
    pub traffic: Arc<Traffic>,
    pub hub: Arc<ConnectionState>,
    skip_subject_validation: bool,
}

impl Connection {
    /// How often the link broke.
    pub fn breaks(&self) -> u64 {
        self.link.borrow().breaks
    }

    /// Checks a subject to publish to, as far as the caller wants it.
    pub fn check(&self, subject: &str) -> Result<()> {
        if self.skip_subject_validation { subject::check_line(subject) } else { subject::check(subject) }
    }

    /// Checks a subject to subscribe to, likewise.
    pub fn check_subscription(&self, subject: &str) -> Result<()> {
        if self.skip_subject_validation { subject::check_line(subject) } else { subject::check_subscription(subject) }
    }

    pub fn closed(&self) -> JetError {
        self.hub.closed_error()
    }

    /// What the server refuses from now on: a publish without permission ends there, not in an answer.
    pub fn refusals(&self) -> Refusals {
        self.hub.watch_refusals()
    }

    /// Does the work as long as the link is up.
    pub async fn while_up(&self, work: impl Future<Output = ()>) {
        let mut link = self.link.clone();
        tokio::select! {
            () = work => (),
            _ = link.wait_for(|link| !link.up) => (),
        }
    }

    /// What is sent next comes after all core messages that are queued now.
    pub async fn in_order(&self) {
        let mark = self.outbox.mark();
        if !self.outbox.has_passed(mark) {
            self.while_up(self.outbox.passed(mark)).await;
        }
    }

    /// As `in_order`, for a publisher that others may wait for.
    pub async fn in_order_of_publisher(&self) {
        let mark = self.outbox.mark_before_fences();
        if !self.outbox.has_passed(mark) {
            self.while_up(self.outbox.passed(mark)).await;
        }
    }

    /// Refuses a message of so many bytes where the link is down and what is queued meanwhile is at its limit.
    pub fn check_room(&self, bytes: usize) -> Result<()> {
        self.requests.check_room(&self.outbox, bytes)
    }

    pub fn subscribe(&self, subject: String) -> Result<Subscriber> {
        self.client.subscribe(subject.into(), None).map_err(|_| self.closed())
    }

    /// Publishes a message of a protocol that is bound to this link: waits for the link and for room, both at most
    /// `within`. Where the link breaks meanwhile the message is lost with it, as if it had been sent.
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
            // It is lost with its link.
            Err(SendRejected::LinkLost) | Ok(()) => Ok(()),
        }
    }

    /// Why nothing could be handed to the server in time.
    fn stuck(&self, what: &str, after: Duration) -> JetError {
        if self.link.borrow().closed {
            return self.closed();
        }
        JetError::Timeout {
            what: format!("{what} (it was not sent: the connection is down, or the server takes nothing)"),
            after,
        }
    }

    /// A subject that is used nowhere else.
    pub fn new_inbox(&self) -> Result<String> {
        self.hub.new_inbox()
    }

    pub fn new_short_inbox(&self) -> Result<String> {
        self.hub.new_short_inbox()
    }

    /// Publishes and waits for the first answer.
    pub async fn request(
        &self,
        subject: impl Into<Subject>,
        payload: Bytes,
        headers: Option<HeaderMap>,
        timeout: Duration,
    ) -> Result<Message> {
        self.ask(Request { subject: subject.into(), payload, headers, timeout, verb: Verb::Request })?.await
    }

    /// Publishes a request now; what is returned waits for the first answer, and ends the request when it is dropped.
    pub fn ask(&self, request: Request) -> Result<impl Future<Output = Result<Message>> + Send + use<>> {
        self.requests.request(&self.outbox, request)
    }

    /// Holds a request in the outbox; `done` gets its answer, and `tag` is what it can be cancelled by.
    pub fn start_request(&self, request: Request, tag: usize, done: Done) -> Result<()> {
        self.requests.start(&self.outbox, request, tag, done).map(drop)
    }

    /// Ends a request whose answer nobody wants any more. Where it was not sent it never will be.
    pub fn cancel_request(&self, tag: usize) {
        self.requests.cancel(tag);
    }

    /// How many requests wait for an answer.
    pub fn pending_requests(&self) -> usize {
        self.requests.pending()
    }

    /// A round trip after everything that was published; fails where the link breaks meanwhile.
    pub async fn round_trip(&self, timeout: Duration) -> Result<()> {
        let late = || JetError::Flush { after: timeout };
        let breaks = self.breaks();
        let trip = async {
            self.outbox.passed(self.outbox.mark()).await;
            trip(&self.client, &self.hub, breaks).await
        };
        match tokio::time::timeout(timeout, trip).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(JetError::FlushBroken),
            Ok(Err(error)) => Err(error),
            Err(_) if self.link.borrow().closed => Err(self.closed()),
            Err(_) => Err(late()),
        }
    }

    /// Drops the link, and connects anew, to another server where there are several. Comes back when it is dropped: what
    /// is asked for next goes to the next link.
    pub async fn force_reconnect(&self) -> Result<()> {
        let mut link = self.link.clone();
        let (breaks, up) = (self.breaks(), link.borrow().up);
        if !self.hub.settings.allow_reconnect || !up {
            return Ok(());
        }
        self.client.force_reconnect();
        let _ended = link.wait_for(|link| link.breaks != breaks).await;
        Ok(())
    }

    /// Puts another list of servers in the place of the present one. It is used at the next reconnect.
    pub fn set_server_pool(&self, addresses: &[String]) -> Result<()> {
        self.hub.pool().replace(addresses)
    }

    /// Sends all that is queued, then ends the connection. In a hurry it does not wait for a server that is slow.
    pub async fn close(&self, hurry: bool) {
        if self.link.borrow().closed {
            return;
        }
        self.hub.stop();
        let sent = self.while_up(async {
            let _not_confirmed = self.round_trip(Duration::MAX).await;
        });
        if hurry {
            let _late = tokio::time::timeout(HURRY, sent).await;
        } else {
            self.run_until_stalled(sent).await;
        }
        let mut link = self.link.clone();
        self.client.end();
        let ended = link.wait_for(|link| link.closed);
        let _stuck = tokio::time::timeout(if hurry { MARGIN / 2 } else { MARGIN }, ended).await;
        self.hub.closed(None);
    }

    /// Does the work, but gives it up when nothing was sent or received for a while.
    pub async fn run_until_stalled(&self, work: impl Future<Output = ()>) {
        run_until_stalled(&self.client, self.outbox.recall(), work).await;
    }

    /// Waits until the server has all that was sent so far, or nothing moves any more.
    pub async fn settle(&self) {
        self.while_up(self.run_until_stalled(async {
            let _not_confirmed = self.round_trip(Duration::MAX).await;
        }))
        .await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.link.borrow().closed {
            // Subscriptions keep the task alive, which ends when it is told to.
            self.hub.stop();
            let (client, hub, rest) = (self.client.clone(), self.hub.clone(), self.outbox.rest());
            let outbox = self.outbox.recall();
            runtime::linger(async move {
                let sent = async {
                    rest.await;
                    let _away = trip(&client, &hub, 0).await;
                };
                run_until_stalled(&client, outbox, sent).await;
                client.end();
                let mut link = hub.link.subscribe();
                let _closed = tokio::time::timeout(MARGIN, link.wait_for(|link| link.closed)).await;
            });
        }
    }
}

/// A round trip by PING and PONG: the server has processed all that was sent before, and what it had sent has come. False
/// where the link has broken more often than `breaks` says.
async fn trip(client: &Client, hub: &ConnectionState, breaks: u64) -> Result<bool> {
    let mut link = hub.link.subscribe();
    let mut pings = hub.pings.subscribe();
    let ours = loop {
        if client.ping() {
            break *pings.borrow_and_update();
        }
        let _gone = link.wait_for(|link| link.up || link.closed).await.map(drop);
        if link.borrow().closed {
            return Err(hub.closed_error());
        }
        tokio::task::yield_now().await;
    };
    let answered = |now: &Pings| now.attempts != ours.attempts || now.answered >= ours.written;
    let same = tokio::select! {
        now = pings.wait_for(answered) => now.is_ok_and(|now| now.attempts == ours.attempts),
        _ = link.wait_for(|link| link.closed) => false,
    };
    // The tasks that were woken before this one have not run yet: subscriptions take what came first. One turn is
    // not enough: tokio may give a task that yields the next turn at once.
    for _ in 0..YIELDS {
        tokio::task::yield_now().await;
    }
    let link = *link.borrow();
    if link.closed { Err(hub.closed_error()) } else { Ok(same && link.breaks == breaks) }
}

/// Ends what a connect began that was cancelled, or failed.
struct Wanted(Option<(Arc<ConnectionState>, Client)>);

impl Drop for Wanted {
    fn drop(&mut self) {
        if let Some((hub, client)) = self.0.take() {
            hub.stop();
            client.end();
        }
    }
}

/// What is to be done where one of the connection's own tasks has failed.
pub fn failing(client: &Client, hub: &Arc<ConnectionState>) -> impl FnOnce(JetError) + Send + 'static {
    let (client, hub) = (client.clone(), hub.clone());
    move |error| {
        hub.failed_within(error);
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
        credentials: std::mem::take(&mut options.credentials),
        connect_timeout: options.connect_timeout,
        allow_reconnect: options.allow_reconnect,
        retry_first: options.retry_first,
        choose: options.choose.take(),
        inbox_prefix: options.inbox_prefix.clone(),
        notices: options.notices.take(),
    };
    let hub = Arc::new(ConnectionState::new(settings, pool, servers.clone(), first));
    let all_servers = options.connect_timeout.saturating_mul(count as u32).saturating_add(MARGIN);
    let settings = options.settings(&hub)?;
    let client = Client::new(hub.clone());
    let mut wanted = Wanted(Some((hub.clone(), client.clone())));
    let (failed, ended) = (failing(&client, &hub), client.clone());
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
            Err(_) => Err(hub.verdict().unwrap_or_else(|| JetError::NoAnswer {
                servers: servers.to_string(),
                cause: format!("no answer within {} s", options.connect_timeout.as_secs_f64()),
            })),
        }
    };
    connected.await?;
    let traffic = Arc::new(Traffic::default());
    let failed = failing(&client, &hub);
    let telling = Arc::downgrade(&hub);
    let refused = move |error| drop(telling.upgrade().inspect(|hub: &Arc<ConnectionState>| hub.tell(error)));
    let outbox =
        Outbox::start(client.clone(), hub.link.subscribe(), traffic.clone(), options.pending_size, refused, failed)?;
    wanted.0 = None;
    Ok(Connection {
        link: hub.link.subscribe(),
        requests: Requests::new(client.clone(), hub.clone(), traffic.clone(), outbox.recall()),
        outbox,
        path: PathEstimate::default(),
        path_back: PathEstimate::default(),
        pull_budget: Arc::default(),
        traffic,
        client,
        hub,
        skip_subject_validation: options.skip_subject_validation,
    })
}
