//! Waiting for messages, and for what else may happen to a subscription.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::sync::watch;

use super::{Subscription, SubscriptionKind};
use base::error::Result;
use base::lock::lock;
use client::Link;

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    Messages,
    /// No more will come.
    Ended,
    /// A message is missing in an ordered subscription.
    Gap,
    /// Nothing came for the time that was given, not even a heartbeat.
    Silent,
    /// The wait was over; heartbeats may have come.
    Late,
    /// The link broke and is there again: the server may have lost an ordered subscription's consumer. Said once.
    Relinked,
}

impl Subscription {
    /// Waits until a message waits or none will come; an error where it is over and nobody had asked for that.
    /// At most `silence` after the last sign of life, and at most `wait` in all.
    pub async fn ready(&self, silence: Option<Duration>, wait: Option<Duration>) -> Result<Ready> {
        match wait {
            None => self.changes(silence).await,
            Some(wait) => tokio::time::timeout(wait, self.changes(silence)).await.unwrap_or(Ok(Ready::Late)),
        }
    }

    async fn changes(&self, silence: Option<Duration>) -> Result<Ready> {
        let mut link = self.link();
        loop {
            let changed = self.shared.changed.notified();
            {
                let state = self.shared.lock();
                if state.messages > 0 {
                    return Ok(Ready::Messages);
                } else if state.gap {
                    return Ok(Ready::Gap);
                } else if let Some(failure) = &state.failure {
                    return Err(failure.clone());
                } else if state.ended {
                    return Ok(Ready::Ended);
                }
            }
            if self.relinked(&mut link) {
                return Ok(Ready::Relinked);
            }
            let changed = changed_or_linked(changed, &mut link);
            match silence {
                None => changed.await,
                Some(silence) => {
                    // Not from here on: who asks often, with little time, has to learn of it too.
                    let end = *lock(&self.shared.alive) + silence;
                    if tokio::time::timeout_at(end, changed).await.is_err() {
                        return Ok(Ready::Silent);
                    }
                }
            }
        }
    }

    /// Waits until nothing came for so long, not even a heartbeat, or the link broke and is there again, or it is over:
    /// whether anybody takes what has come, or not.
    pub async fn quiet(&self, silence: Duration) -> Ready {
        let mut link = self.link();
        loop {
            let changed = self.shared.changed.notified();
            if self.shared.lock().ended {
                return Ready::Ended;
            }
            if self.relinked(&mut link) {
                return Ready::Relinked;
            }
            let changed = changed_or_linked(changed, &mut link);
            if tokio::time::timeout(silence, changed).await.is_err() {
                return Ready::Silent;
            }
        }
    }

    /// The link, where it matters.
    fn link(&self) -> Option<watch::Receiver<Link>> {
        (self.shared.kind == SubscriptionKind::Ordered).then(|| self.conn.link.clone())
    }

    fn relinked(&self, link: &mut Option<watch::Receiver<Link>>) -> bool {
        let Some(link) = link else { return false };
        let now = link.borrow_and_update();
        now.up && self.breaks.swap(now.breaks, Ordering::Relaxed) != now.breaks
    }
}

async fn changed_or_linked(changed: Notified<'_>, link: &mut Option<watch::Receiver<Link>>) {
    let Some(link) = link else { return changed.await };
    tokio::select! {
        () = changed => {}
        Ok(()) = link.changed() => {}
    }
}
