//! Waits for messages and other events of a subscription.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::sync::watch;

use super::{OnArrival, Subscription, SubscriptionKind, SubscriptionState};
use base::error::Result;
use base::lock::lock;
use client::Link;

/// Result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    Messages,
    /// No more messages follow.
    Ended,
    /// An ordered subscription lacks a message.
    Gap,
    /// No message and no heartbeat arrived within the given silence.
    Silent,
    /// The wait timed out; heartbeats may have arrived.
    Late,
    /// A reconnect: the server may have lost an ordered subscription's consumer. Reported once.
    Relinked,
}

impl Subscription {
    /// Waits for a message or the end; an error if the caller did not request the end. Waits at most `silence` after
    /// the last message or heartbeat, and at most `wait` in total.
    pub async fn ready(&self, silence: Option<Duration>, wait: Option<Duration>) -> Result<Ready> {
        match wait {
            None => self.changes(silence).await,
            Some(wait) => tokio::time::timeout(wait, self.changes(silence)).await.unwrap_or(Ok(Ready::Late)),
        }
    }

    pub fn is_ordered(&self) -> bool {
        self.shared.kind == SubscriptionKind::Ordered
    }

    /// No message is buffered, and the end has not come.
    pub fn is_waiting(&self) -> bool {
        self.shared.lock().is_waiting()
    }

    /// Calls `arrived` at the next message or at the end, from the task that buffers messages. Replaces the function of
    /// an earlier call. False, without a call, if there is a message or the end already. Not for ordered subscriptions,
    /// of which a wait has other ends too.
    pub fn on_arrival(&self, arrived: OnArrival) -> bool {
        let mut state = self.shared.lock();
        let waits = state.is_waiting();
        // Dropped without the lock.
        let _replaced = if waits { state.on_arrival.replace(arrived) } else { Some(arrived) };
        drop(state);
        waits
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
                    // Counted from the last message, so that frequent short waits detect the silence too.
                    let end = *lock(&self.shared.alive) + silence;
                    if tokio::time::timeout_at(end, changed).await.is_err() {
                        return Ok(Ready::Silent);
                    }
                }
            }
        }
    }

    /// Waits for a silence without message or heartbeat, a reconnect, or the end, regardless of unread messages.
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

    /// Returns the link for ordered subscriptions, which depend on it.
    fn link(&self) -> Option<watch::Receiver<Link>> {
        self.is_ordered().then(|| self.conn.link.clone())
    }

    fn relinked(&self, link: &mut Option<watch::Receiver<Link>>) -> bool {
        let Some(link) = link else { return false };
        let now = link.borrow_and_update();
        now.up && self.breaks.swap(now.breaks, Ordering::Relaxed) != now.breaks
    }
}

impl SubscriptionState {
    /// No message is buffered, and the end has not come.
    pub(super) fn is_waiting(&self) -> bool {
        self.messages == 0 && !self.ended
    }
}

async fn changed_or_linked(changed: Notified<'_>, link: &mut Option<watch::Receiver<Link>>) {
    let Some(link) = link else { return changed.await };
    tokio::select! {
        () = changed => {}
        Ok(()) = link.changed() => {}
    }
}
