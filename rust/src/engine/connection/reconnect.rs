//! Which server comes next, and when no more attempts are made.
//!
//! Missing upstream: a way to end the attempts to connect. async-nats goes on for ever, also without anyone who holds
//! its client, unless a fixed number of attempts was set at the start. How we get it: it asks `next_server` before
//! every attempt, in its own task, and there `give_up` ends that task by a panic that no hook hears and tokio catches.
//! Held in place by `test_given_up_after_max_reconnect_attempts` (tests/connect/test_reconnect.py) and
//! `test_close_while_the_server_is_away` (tests/connect/test_callbacks.py).

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ReconnectToServer, ServerAddr, ServerInfo};

use crate::engine::connection::hub::Hub;
use crate::engine::connection::tap;
use crate::error::{JetError, Result};
use crate::task::{Spot, weak_spot};

impl Hub {
    /// Called by async-nats before every attempt: first takes note of what happened, then says which server is next.
    /// Never returns once no more attempts are wanted.
    pub async fn next_server(
        self: Arc<Self>,
        known: Vec<async_nats::Server>,
        info: ServerInfo,
    ) -> Option<ReconnectToServer> {
        tap::listen(&self);
        weak_spot(Spot::Connection);
        self.connected();
        let outage = self.link.borrow().up;
        if outage {
            self.lost();
            self.pool().shuffle();
        } else {
            self.failed(&known);
        }
        let usable: Vec<_> = known.into_iter().map(|server| server.addr).collect();
        let (addr, wait) = match self.choose(&usable, info).await {
            Ok(choice) => choice,
            Err(error) => self.give_up(error),
        };
        let mut closing = self.closing.subscribe();
        let closed = closing.wait_for(|closing| *closing);
        if tokio::time::timeout(wait, closed).await.is_ok() {
            self.give_up(None);
        }
        self.begin(addr.clone());
        Some(ReconnectToServer { addr, delay: Some(Duration::ZERO) })
    }

    /// The next server; an error, with its cause where there is one, ends all attempts.
    async fn choose(
        &self,
        usable: &[ServerAddr],
        info: ServerInfo,
    ) -> Result<(ServerAddr, Duration), Option<JetError>> {
        if self.is_closing() {
            return Err(None);
        }
        let was_up = self.was_up();
        if !was_up {
            if let Some(addr) = self.pool().first() {
                return Ok((addr, Duration::ZERO));
            }
            if !self.settings.retry_first {
                return Err(None);
            }
        } else if !self.settings.allow_reconnect {
            return Err(None);
        }
        let exhausted = || {
            let outage = self.outage().map_or_else(String::new, |outage| format!("; {outage}"));
            let cause = format!("all were tried as often as max_reconnect_attempts allows{outage}");
            Some(JetError::NoServers { servers: self.servers.to_string(), cause })
        };
        let Some(choose) = self.settings.choose.as_ref().filter(|_| was_up) else {
            return self.pool().next(usable).ok_or_else(exhausted);
        };
        let candidates = self.pool().candidates(usable);
        if candidates.is_empty() {
            return Err(exhausted());
        }
        match choose(candidates.clone(), info).await {
            Ok((index, wait)) => {
                let chosen = index.and_then(|index| candidates.get(index)).unwrap_or(&candidates[0]);
                Ok((chosen.0.clone(), wait))
            }
            // Python holds the handler's exception; the next in turn, so that a broken handler does not end the
            // connection.
            Err(_) => self.pool().next(usable).ok_or_else(exhausted),
        }
    }

    /// Ends async-nats's task.
    fn give_up(&self, error: Option<JetError>) -> ! {
        self.closed(error);
        std::panic::resume_unwind(Box::new("jetarrow: closed"))
    }
}

/// Keeps async-nats's list of servers up to ours. Ends with the client.
pub async fn share_pool(hub: Arc<Hub>, client: Client) {
    loop {
        hub.pool_grew.notified().await;
        weak_spot(Spot::Pool);
        let addresses = hub.pool().addresses();
        if client.set_server_pool(addresses).await.is_err() && hub.link.borrow().closed {
            return;
        }
    }
}
