//! A round trip by PING and PONG: the server has processed all that was sent before, and what it had sent has come.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, Subscriber};
use tokio::sync::Mutex;

use crate::engine::connection::Connection;
use crate::engine::connection::hub::Hub;
use crate::error::{JetError, Result};

pub struct Pinger {
    client: Client,
    hub: Arc<Hub>,
    /// async-nats sends a PING of ours only when a subscription is drained. This one has ended long ago; draining it
    /// again sends the PING and nothing else.
    subscriber: Mutex<Option<Subscriber>>,
}

impl Pinger {
    pub fn new(client: Client, hub: Arc<Hub>) -> Self {
        Pinger { client, hub, subscriber: Mutex::default() }
    }

    fn closed(&self) -> JetError {
        JetError::Closed { servers: self.hub.servers.to_string() }
    }

    async fn send(&self) -> Result<()> {
        let mut held = self.subscriber.lock().await;
        let subscriber = match &mut *held {
            Some(subscriber) => subscriber,
            empty => {
                let subject = self.hub.quiet.get_or_init(|| self.client.new_inbox()).clone();
                let mut subscriber = self.client.subscribe(subject).await.map_err(|_| self.closed())?;
                subscriber.unsubscribe().await.map_err(|_| self.closed())?;
                empty.insert(subscriber)
            }
        };
        subscriber.drain().await.map_err(|_| self.closed())?;
        // It is written once this comes back.
        self.client.flush().await.map_err(|_| self.closed())
    }

    /// One round trip; false where the link has broken since there were so many breaks.
    pub async fn trip(&self, breaks: u64) -> Result<bool> {
        self.send().await?;
        let mut pings = self.hub.pings.subscribe();
        let ours = *pings.borrow();
        let answer = pings.wait_for(|now| now.attempts != ours.attempts || now.answered >= ours.written).await;
        let same = answer.is_ok_and(|now| now.attempts == ours.attempts);
        // The tasks that were woken before this one have not run yet: subscriptions take what came first.
        tokio::task::yield_now().await;
        let link = *self.hub.link.borrow();
        if link.closed { Err(self.closed()) } else { Ok(same && link.breaks == breaks) }
    }
}

/// A round trip after everything that was published; fails where the link breaks meanwhile.
pub async fn round_trip(conn: &Connection, timeout: Duration) -> Result<()> {
    let lost = || JetError::Flush { after: timeout };
    let breaks = conn.breaks();
    let trip = async {
        conn.outbox.caught_up().await;
        conn.pinger.trip(breaks).await
    };
    match tokio::time::timeout(timeout, trip).await {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(lost()),
        Ok(Err(error)) => Err(error),
        Err(_) if conn.link.borrow().closed => Err(conn.closed()),
        Err(_) => Err(lost()),
    }
}
