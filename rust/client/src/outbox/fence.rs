//! Fence: core publishes queued after it wait until the publisher's earlier messages are written.
//!
//! A publisher writes its messages past the outbox. It enqueues a fence in the outbox, and its loop opens the fence
//! once all its earlier messages are handed over. A fence makes the loop hand those over regardless of its window, so a
//! stream that does not answer keeps no fence closed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, watch};

use crate::connection_state::link::Link;

#[derive(Default)]
struct FenceState {
    open: AtomicBool,
    opened: Notify,
}

/// A fence in the outbox.
pub struct Fence(Arc<FenceState>);

/// The fence's counterpart among the publisher's messages. Dropping it opens the fence.
pub struct FenceGuard(Arc<FenceState>);

impl Fence {
    pub fn new() -> (Self, FenceGuard) {
        let shared = Arc::new(FenceState::default());
        (Fence(shared.clone()), FenceGuard(shared))
    }

    /// Waits until the fence is open, or until the link is down, because no order holds across a disconnect.
    ///
    /// The publisher may wait for the entries before the fence, so `drained` notifies it first.
    pub async fn pass(&self, link: &mut watch::Receiver<Link>, drained: &Notify) {
        drained.notify_waiters();
        let opened = self.0.opened.notified();
        if self.is_open() {
            return;
        }
        tokio::select! {
            () = opened => {}
            _ = link.wait_for(|link| !link.up) => {}
        }
    }

    fn is_open(&self) -> bool {
        self.0.open.load(Ordering::Acquire)
    }
}

impl Drop for FenceGuard {
    fn drop(&mut self) {
        self.0.open.store(true, Ordering::Release);
        self.0.opened.notify_waiters();
    }
}

/// Fences of an outbox that are not passed yet, with their places.
#[derive(Default)]
pub struct Fences(VecDeque<(u64, Fence)>);

impl Fences {
    pub fn add(&mut self, place: u64, gate: &Fence) {
        self.0.push_back((place, Fence(gate.0.clone())));
    }

    /// Returns the place of the first closed fence. Fences before `taken` are passed.
    pub fn first_closed(&mut self, taken: u64) -> Option<u64> {
        while self.0.front().is_some_and(|(place, gate)| *place < taken || gate.is_open()) {
            self.0.pop_front();
        }
        self.0.front().map(|(place, _)| *place)
    }
}
