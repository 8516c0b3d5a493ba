//! A round trip by PING and PONG: the server has processed all that was sent before, and what it had sent has come.
//!
//! Missing upstream: async-nats's `flush` waits for the socket, not for the server, and nothing else sends a PING when
//! we want one. How we get it: draining a subscription sends a PING and waits for nothing. One subscription to a
//! subject of our own, ended long ago, is drained each time: that sends the PING and nothing else. Written PINGs and
//! PONGs are counted by `tap`. Held in place by tests/connect/test_options.py:
//! `test_flush_and_rtt_where_somebody_hears_everything`, `test_many_flushes_at_once`,
//! `test_a_flush_is_not_confirmed_by_a_server_that_stands_still`.

use std::sync::Arc;

use async_nats::{Client, Subscriber};
use tokio::sync::Mutex;

use crate::engine::connection::hub::Hub;
use crate::error::Result;

/// Turns that are left to other tasks after a PONG.
const YIELDS: usize = 3;

pub struct Pinger {
    client: Client,
    hub: Arc<Hub>,
    /// The one that is drained for every PING.
    subscriber: Mutex<Option<Subscriber>>,
}

impl Pinger {
    pub fn new(client: Client, hub: Arc<Hub>) -> Self {
        Pinger { client, hub, subscriber: Mutex::default() }
    }

    async fn send(&self) -> Result<()> {
        let mut held = self.subscriber.lock().await;
        let subscriber = match &mut *held {
            Some(subscriber) => subscriber,
            empty => {
                let drawn = self.hub.new_inbox()?;
                let subject = self.hub.quiet.get_or_init(|| drawn).clone();
                let mut subscriber = self.client.subscribe(subject).await.map_err(|_| self.hub.closed_error())?;
                subscriber.unsubscribe().await.map_err(|_| self.hub.closed_error())?;
                empty.insert(subscriber)
            }
        };
        subscriber.drain().await.map_err(|_| self.hub.closed_error())?;
        // It is written once this comes back.
        self.client.flush().await.map_err(|_| self.hub.closed_error())
    }

    /// One round trip; false where the link has broken more often than `breaks` says.
    pub async fn trip(&self, breaks: u64) -> Result<bool> {
        self.send().await?;
        let mut pings = self.hub.pings.subscribe();
        let ours = *pings.borrow();
        let answer = pings.wait_for(|now| now.attempts != ours.attempts || now.answered >= ours.written).await;
        let same = answer.is_ok_and(|now| now.attempts == ours.attempts);
        // The tasks that were woken before this one have not run yet: subscriptions take what came first. One turn is
        // not enough: tokio may give a task that yields the next turn at once.
        for _ in 0..YIELDS {
            tokio::task::yield_now().await;
        }
        let link = *self.hub.link.borrow();
        if link.closed { Err(self.hub.closed_error()) } else { Ok(same && link.breaks == breaks) }
    }
}
