//! What keeps core messages behind those of a publisher, which go their own way to the wire: a gate in the outbox, which
//! the publisher's loop opens once all that it was given before has been handed over. A gate makes the loop hand that over
//! whatever its window says, so a stream that does not answer keeps none closed.

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

/// The gate's place in the outbox.
pub struct Fence(Arc<FenceState>);

/// The same place among a publisher's messages. Dropping it opens the gate.
pub struct FenceGuard(Arc<FenceState>);

impl Fence {
    pub fn new() -> (Self, FenceGuard) {
        let shared = Arc::new(FenceState::default());
        (Fence(shared.clone()), FenceGuard(shared))
    }

    /// Waits until it is open; not where the link is gone, as nothing keeps its order over a break. The publisher may
    /// wait for what was before the gate: `drained` tells it.
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

/// The gates of an outbox that were not passed, with their places.
#[derive(Default)]
pub struct Fences(VecDeque<(u64, Fence)>);

impl Fences {
    pub fn add(&mut self, place: u64, gate: &Fence) {
        self.0.push_back((place, Fence(gate.0.clone())));
    }

    /// The place of the first one that is closed; those before `taken` were passed.
    pub fn first_closed(&mut self, taken: u64) -> Option<u64> {
        while self.0.front().is_some_and(|(place, gate)| *place < taken || gate.is_open()) {
            self.0.pop_front();
        }
        self.0.front().map(|(place, _)| *place)
    }
}
