//! The connection: opened, watched and closed.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, HeaderMap, Message, Subject, Subscriber};
use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use crate::engine::connection::hub::{Hub, Settings};
use crate::engine::connection::link::Link;
use crate::engine::connection::movement::while_moving;
use crate::engine::connection::options::Options;
use crate::engine::connection::outbox::{Outbox, Outgoing};
use crate::engine::connection::path::Path;
use crate::engine::connection::ping::Pinger;
use crate::engine::connection::pool::{Pool, display_servers};
use crate::engine::connection::reconnect::share_pool;
use crate::engine::connection::refusals::Refusals;
use crate::engine::connection::request::{Done, Request, Requests};
use crate::engine::connection::traffic::{Traffic, Verb};
use crate::engine::connection::wire::Wire;
use crate::engine::subject;
use crate::error::{JetError, Result};
use crate::runtime;
use crate::task::spawn;

/// How much longer than their sum all attempts of the first round may take; also how long a link takes to end.
const MARGIN: Duration = Duration::from_millis(250);

pub struct Connection {
    pub client: Client,
    pub link: watch::Receiver<Link>,
    /// Core messages, requests and subscriptions on their way out.
    pub outbox: Outbox,
    /// The last step out, and the only one of what is published in bulk.
    pub wire: Arc<Wire>,
    /// What publishers have learnt of the way to the server.
    pub path: Path,
    /// And readers of the way back.
    pub path_back: Path,
    requests: Requests,
    pub traffic: Arc<Traffic>,
    pub hub: Arc<Hub>,
    skip_subject_validation: bool,
    pinger: Arc<Pinger>,
    pool: AbortHandle,
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
        let mark = self.outbox.mark_before_gates();
        if !self.outbox.has_passed(mark) {
            self.while_up(self.outbox.passed(mark)).await;
        }
    }

    /// Refuses a message of so many bytes where the link is down and what is queued meanwhile is at its limit.
    pub fn check_room(&self, bytes: usize) -> Result<()> {
        self.requests.check_room(&self.outbox, bytes)
    }

    /// Subscribes, and fails where that takes longer than `within`.
    pub async fn subscribe(&self, subject: String, within: Duration) -> Result<Subscriber> {
        match tokio::time::timeout(within, self.client.subscribe(subject)).await {
            Ok(made) => made.map_err(|_| self.closed()),
            Err(_) => Err(self.stuck("the subscription", within)),
        }
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
        let mut send = std::pin::pin!(self.wire.publish(message));
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
        sent.map_err(|_| self.closed())
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
            self.pinger.trip(breaks).await
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
        let mut asked = Ok(());
        self.while_up(async { asked = self.client.force_reconnect().await.map_err(|_| self.closed()) }).await;
        let _ended = link.wait_for(|link| link.breaks != breaks).await;
        asked
    }

    /// Puts another list of servers in the place of the present one. It is used at the next reconnect.
    pub fn set_server_pool(&self, addresses: &[String]) -> Result<()> {
        self.hub.pool().replace(addresses)?;
        self.hub.pool_grew.notify_one();
        Ok(())
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
            let _late = tokio::time::timeout(MARGIN / 2, sent).await;
        } else {
            self.while_moving(sent).await;
        }
        let mut link = self.link.clone();
        let ended = async {
            if self.client.drain().await.is_ok() {
                // A link that is down has nothing to drain; its task ends by itself.
                let _gone = link.wait_for(|link| link.closed || !link.up).await;
            }
        };
        let _stuck = tokio::time::timeout(if hurry { MARGIN / 2 } else { MARGIN }, ended).await;
        self.hub.closed(None);
    }

    /// Does the work, but gives it up when nothing was sent or received for a while.
    pub async fn while_moving(&self, work: impl Future<Output = ()>) {
        while_moving(self.client.statistics(), self.outbox.recall(), work).await;
    }

    /// Waits until the server has all that was sent so far, or nothing moves any more.
    pub async fn settle(&self) {
        self.while_up(self.while_moving(async {
            let _not_confirmed = self.round_trip(Duration::MAX).await;
        }))
        .await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.pool.abort();
        if !self.link.borrow().closed {
            // Subscriptions keep async-nats's task alive, and only it can end them.
            self.hub.stop();
            let (client, pinger, rest) = (self.client.clone(), self.pinger.clone(), self.outbox.rest());
            let (statistics, outbox) = (client.statistics(), self.outbox.recall());
            runtime::linger(async move {
                let sent = async {
                    rest.await;
                    let _away = pinger.trip(0).await;
                };
                while_moving(statistics, outbox, sent).await;
                let _closed = tokio::time::timeout(MARGIN, client.drain()).await;
            });
        }
    }
}

/// Ends the attempts of a connect that was cancelled.
struct Wanted(Option<Arc<Hub>>);

impl Drop for Wanted {
    fn drop(&mut self) {
        if let Some(hub) = self.0.take() {
            hub.stop();
        }
    }
}

/// What is to be done where one of the connection's own tasks has failed.
pub fn failing(client: &Client, hub: &Arc<Hub>) -> impl FnOnce(JetError) + Send + 'static {
    let (client, hub) = (client.clone(), hub.clone());
    move |error| {
        hub.failed_within(error);
        // Nobody else ends async-nats's task now.
        runtime::linger(async move { drop(client.drain().await) });
    }
}

pub async fn connect(mut options: Options) -> Result<Connection> {
    let servers: Arc<str> = display_servers(&options.servers).into();
    options.credentials.check()?;
    let pool = Pool::new(&options.servers, options.rules())?;
    let addresses = pool.addresses();
    let (first, connected) = oneshot::channel();
    let settings = Settings {
        credentials: std::mem::take(&mut options.credentials),
        connect_timeout: options.connect_timeout,
        allow_reconnect: options.allow_reconnect,
        retry_first: options.retry_first,
        choose: options.choose.take(),
        inbox_prefix: options.inbox_prefix.clone(),
        notices: options.notices.take(),
    };
    let hub = Arc::new(Hub::new(settings, pool, servers.clone(), first));
    let mut wanted = Wanted(Some(hub.clone()));
    let all_servers = options.connect_timeout.saturating_mul(addresses.len() as u32).saturating_add(MARGIN);
    let config = options.configure(&hub)?;
    let client = config
        .connect(addresses)
        .await
        .map_err(|e| JetError::Internal(format!("async-nats does not connect by itself: {}", e.kind())))?;
    let _first_time = hub.statistics.set(client.statistics());
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
    // async-nats stores the INFO right after the event that it is connected.
    while client.try_server_info().is_none() && !hub.link.borrow().closed {
        tokio::task::yield_now().await;
    }
    wanted.0 = None;
    let pool = spawn(share_pool(hub.clone(), client.clone()), failing(&client, &hub))?.abort_handle();
    let traffic = Arc::new(Traffic::default());
    let wire = Wire::start(client.clone(), failing(&client, &hub))?;
    let failed = failing(&client, &hub);
    let telling = Arc::downgrade(&hub);
    let refused = move |error| drop(telling.upgrade().inspect(|hub: &Arc<Hub>| hub.tell(error)));
    let outbox = Outbox::start(
        client.clone(),
        wire.clone(),
        hub.link.subscribe(),
        traffic.clone(),
        options.pending_size,
        refused,
        failed,
    )?;
    Ok(Connection {
        link: hub.link.subscribe(),
        requests: Requests::new(client.clone(), hub.clone(), traffic.clone(), outbox.recall()),
        outbox,
        wire,
        path: Path::default(),
        path_back: Path::default(),
        traffic,
        pinger: Arc::new(Pinger::new(client.clone(), hub.clone())),
        client,
        hub,
        skip_subject_validation: options.skip_subject_validation,
        pool,
    })
}
