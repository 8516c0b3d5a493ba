//! The way of a publisher's messages into its loop, and how core messages stay behind them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Weak};

use base::lock::lock;
use client::outbox::Outbox;
use client::outbox::fence::{Fence, FenceGuard};

/// One publisher, as its connection knows it.
pub trait PublisherFeed: Send + Sync {
    /// Whether some message has no answer yet: it may not have been sent.
    fn is_busy(&self) -> bool;
    /// Opens the gate once what was published before has been handed over.
    fn open_after_sent(&self, guard: FenceGuard);
}

/// The publishers of a connection.
#[derive(Default)]
pub struct PublisherFences {
    publishers: Mutex<Vec<Weak<dyn PublisherFeed>>>,
    /// Something was published since the last gate.
    used: AtomicBool,
}

impl PublisherFences {
    pub fn add(&self, publisher: Weak<dyn PublisherFeed>) {
        let mut publishers = lock(&self.publishers);
        publishers.retain(|publisher| publisher.strong_count() > 0);
        publishers.push(publisher);
    }

    /// A message was published.
    pub fn publish(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// What comes into the outbox from now on goes after what was published so far.
    pub fn close_fences(&self, outbox: &Outbox) {
        if !self.used.load(Ordering::Relaxed) || !self.used.swap(false, Ordering::Relaxed) {
            return;
        }
        let publishers: Vec<_> = lock(&self.publishers).iter().filter_map(Weak::upgrade).collect();
        for publisher in publishers.iter().filter(|publisher| publisher.is_busy()) {
            let (fence, guard) = Fence::new();
            outbox.add_fence(fence);
            publisher.open_after_sent(guard);
        }
    }
}
