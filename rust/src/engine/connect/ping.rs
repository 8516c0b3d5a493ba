//! A round trip by PING and PONG: the server has processed all that was sent before, and what it had sent has come.

use std::time::Duration;

use async_nats::Subscriber;
use tokio::sync::Mutex;

use crate::engine::connect::Connection;
use crate::error::{JetError, Result};

/// async-nats sends a PING of ours only when a subscription is drained. This one has ended long ago; draining it again
/// sends the PING and nothing else.
#[derive(Default)]
pub struct Pinger(Mutex<Option<Subscriber>>);

impl Pinger {
    async fn ping(&self, conn: &Connection) -> Result<()> {
        let closed = |_| conn.closed();
        let mut pinger = self.0.lock().await;
        let subscriber = match &mut *pinger {
            Some(subscriber) => subscriber,
            empty => {
                let subject = conn.hub.quiet.get_or_init(|| conn.client.new_inbox()).clone();
                let mut subscriber = conn.client.subscribe(subject).await.map_err(|_| conn.closed())?;
                subscriber.unsubscribe().await.map_err(closed)?;
                empty.insert(subscriber)
            }
        };
        subscriber.drain().await.map_err(closed)
    }
}

/// A round trip after everything that was published; fails where the link breaks meanwhile.
pub async fn round_trip(conn: &Connection, timeout: Duration) -> Result<()> {
    let lost = || JetError::Flush { after: timeout };
    let trip = async {
        let breaks = conn.breaks();
        conn.outbox.room(0).await;
        conn.pinger.ping(conn).await?;
        // The PING is written once this comes back.
        conn.client.flush().await.map_err(|_| conn.closed())?;
        let mut pings = conn.hub.pings.subscribe();
        let ours = *pings.borrow();
        let answered = pings.wait_for(|now| now.attempts != ours.attempts || now.answered >= ours.written).await;
        // The tasks that were woken before this one have not run yet: subscriptions take what came first.
        let answered = answered.map(|now| *now);
        tokio::task::yield_now().await;
        match answered.map(|now| now.attempts != ours.attempts) {
            Ok(false) if conn.breaks() == breaks => Ok(()),
            _ if conn.link.borrow().closed => Err(conn.closed()),
            _ => Err(lost()),
        }
    };
    match tokio::time::timeout(timeout, trip).await {
        Ok(result) => result,
        Err(_) if conn.link.borrow().closed => Err(conn.closed()),
        Err(_) => Err(lost()),
    }
}
