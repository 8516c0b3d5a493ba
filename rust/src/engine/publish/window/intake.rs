//! Messages as they come in: numbered, and with their time.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use async_nats::Subscriber;
use futures_util::{FutureExt, Stream, StreamExt};
use tokio::time::Instant;

use super::trouble::{expire, silence};
use super::{Item, Outlet, TICK};
use crate::engine::connection::Connection;
use crate::engine::publish::inflight::Sent;
use crate::error::Result;

/// Subscribes to the acks. That waits where the connection takes nothing; messages that come alone have their time
/// from now on, one call has its own.
pub async fn subscribe(
    conn: &Connection,
    inbox: String,
    feed: &mut (impl Stream<Item = Result<Item>> + Send + Unpin),
    outlet: &mut impl Outlet,
    intake: &mut Intake,
    early: &mut VecDeque<Sent>,
) -> Result<Subscriber> {
    let begun = Instant::now();
    let mut subscribing = pin!(conn.subscribe(inbox, Duration::MAX));
    loop {
        if let Ok(subscribed) = tokio::time::timeout(TICK, subscribing.as_mut()).await {
            return subscribed;
        }
        let now = Instant::now();
        if conn.link.borrow().closed {
            return Err(conn.closed());
        }
        if intake.one_call {
            if now.duration_since(begun) > intake.timeout {
                return Err(silence(intake.timeout));
            }
            continue;
        }
        while let Some(Some(item)) = feed.next().now_or_never() {
            early.push_back(intake.first(item?, now));
        }
        expire(early, outlet, now, intake.timeout);
        outlet.flush();
    }
}

/// Numbers messages as they come.
pub struct Intake {
    pub places: u64,
    pub timeout: Duration,
    pub one_call: bool,
}

impl Intake {
    pub fn first(&mut self, (row, body): Item, now: Instant) -> Sent {
        self.places += 1;
        // A message that came alone has its time from now on, a row of one call from when it is sent.
        let deadline = (!self.one_call).then(|| now + body.timeout().unwrap_or(self.timeout));
        Sent { row, place: self.places, bytes: body.size(), body, deadline, first: None, sent_at: None, tries: 0 }
    }
}
