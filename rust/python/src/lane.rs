//! The way of a publisher's messages into its loop, and how core messages stay behind them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Weak};

use base::lock::lock;
use client::gate::{Gate, Opener};
use client::outbox::Outbox;

/// One publisher, as its connection knows it.
pub trait Lane: Send + Sync {
    /// Whether some message has no answer yet: it may not have been sent.
    fn is_busy(&self) -> bool;
    /// Opens the gate once what was published before has been handed over.
    fn follow(&self, opener: Opener);
}

/// The publishers of a connection.
#[derive(Default)]
pub struct Lanes {
    lanes: Mutex<Vec<Weak<dyn Lane>>>,
    /// Something was published since the last gate.
    used: AtomicBool,
}

impl Lanes {
    pub fn add(&self, lane: Weak<dyn Lane>) {
        let mut lanes = lock(&self.lanes);
        lanes.retain(|lane| lane.strong_count() > 0);
        lanes.push(lane);
    }

    /// A message was published.
    pub fn publish(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// What comes into the outbox from now on goes after what was published so far.
    pub fn close_gates(&self, outbox: &Outbox) {
        if !self.used.load(Ordering::Relaxed) || !self.used.swap(false, Ordering::Relaxed) {
            return;
        }
        let lanes: Vec<_> = lock(&self.lanes).iter().filter_map(Weak::upgrade).collect();
        for lane in lanes.iter().filter(|lane| lane.is_busy()) {
            let (gate, opener) = Gate::new();
            outbox.gate(gate);
            lane.follow(opener);
        }
    }
}
