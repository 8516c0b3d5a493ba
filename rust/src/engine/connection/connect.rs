//! The connection: opened, watched and closed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::{Client, HeaderMap, Message};
use bytes::Bytes;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::engine::connection::hub::{Hub, Settings};
use crate::engine::connection::link::{Link, Traffic};
use crate::engine::connection::options::Options;
use crate::engine::connection::outbox::Outbox;
use crate::engine::connection::ping::Pinger;
use crate::engine::connection::pool::{Pool, display_servers};
use crate::engine::connection::reconnect::share_pool;
use crate::engine::connection::refusals::Refusals;
use crate::engine::connection::request::{Done, Request, Requests};
use crate::error::{JetError, Result};
use crate::runtime;
use crate::task::spawn;

/// Closing is given up when nothing was sent or received for this long.
const CLOSE_STALL: Duration = Duration::from_secs(2);
/// How much longer than their sum all attempts of the first round may take; also how long a link takes to end.
const MARGIN: Duration = Duration::from_millis(250);

pub struct Connection {
    pub client: Client,
    pub link: watch::Receiver<Link>,
    /// Core messages on their way out.
    pub outbox: Outbox,
    requests: Requests,
    pub traffic: Arc<Traffic>,
    pub hub: Arc<Hub>,
    pinger: Arc<Pinger>,
    pool: AbortHandle,
}

impl Connection {
    /// How often the link broke.
    pub fn breaks(&self) -> u64 {
        self.link.borrow().breaks
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
        if !self.outbox.is_idle() {
            self.while_up(self.outbox.caught_up()).await;
        }
    }

    /// A subject that is used nowhere else.
    pub fn new_inbox(&self) -> Result<String> {
        self.hub.new_inbox()
    }

    /// Publishes and waits for the first answer.
    pub async fn request(
        &self,
        subject: String,
        payload: Bytes,
        headers: Option<HeaderMap>,
        timeout: Duration,
    ) -> Result<Message> {
        self.requests.request(&self.outbox, Request { subject, payload, headers, timeout }).await
    }

    /// Holds a request in the outbox; `done` gets its answer. Only once `can_start_requests` says so.
    pub fn start_request(&self, request: Request, done: Done) -> Result<()> {
        self.requests.start(&self.outbox, request, done).map(drop)
    }

    /// True once `start_request` can be used: after the first `request`.
    pub fn can_start_requests(&self) -> bool {
        self.requests.is_open()
    }

    /// How many requests wait for an answer.
    pub fn pending_requests(&self) -> usize {
        self.requests.pending()
    }

    /// A round trip after everything that was published; fails where the link breaks meanwhile.
    pub async fn round_trip(&self, timeout: Duration) -> Result<()> {
        let lost = || JetError::Flush { after: timeout };
        let breaks = self.breaks();
        let trip = async {
            self.outbox.caught_up().await;
            self.pinger.trip(breaks).await
        };
        match tokio::time::timeout(timeout, trip).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(lost()),
            Ok(Err(error)) => Err(error),
            Err(_) if self.link.borrow().closed => Err(self.closed()),
            Err(_) => Err(lost()),
        }
    }

    /// Drops the link, and connects anew, to another server where there are several.
    pub async fn force_reconnect(&self) -> Result<()> {
        if !self.hub.settings.allow_reconnect || !self.link.borrow().up {
            return Ok(());
        }
        self.client.force_reconnect().await.map_err(|_| self.closed())
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
    async fn while_moving(&self, work: impl Future<Output = ()>) {
        let moved = || {
            let all = self.client.statistics();
            (all.in_bytes.load(Ordering::Relaxed), all.out_bytes.load(Ordering::Relaxed), self.outbox.bytes())
        };
        let mut work = std::pin::pin!(work);
        let (mut before, mut since) = (moved(), Instant::now());
        while tokio::time::timeout(CLOSE_STALL / 10, work.as_mut()).await.is_err() {
            let now = moved();
            if now != before {
                (before, since) = (now, Instant::now());
            } else if since.elapsed() >= CLOSE_STALL {
                return;
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.pool.abort();
        if !self.link.borrow().closed {
            // Subscriptions keep async-nats's task alive, and only it can end them.
            self.hub.stop();
            let (client, pinger, rest) = (self.client.clone(), self.pinger.clone(), self.outbox.rest());
            runtime::linger(async move {
                let sent = async {
                    rest.await;
                    pinger.trip(0).await
                };
                let _away = tokio::time::timeout(CLOSE_STALL, sent).await;
                let _closed = client.drain().await;
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
        let closed = |_| JetError::Closed { servers: servers.to_string() };
        if options.retry_first {
            return connected.await.map_err(closed)?;
        }
        match tokio::time::timeout(all_servers, connected).await {
            Ok(result) => result.map_err(closed)?,
            Err(_) => Err(hub.verdict().unwrap_or_else(|| JetError::NoServers {
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
    Ok(Connection {
        outbox: Outbox::start(client.clone(), hub.link.subscribe(), traffic.clone(), failing(&client, &hub))?,
        link: hub.link.subscribe(),
        requests: Requests::new(client.clone(), hub.clone(), traffic.clone()),
        traffic,
        pinger: Arc::new(Pinger::new(client.clone(), hub.clone())),
        client,
        hub,
        pool,
    })
}
