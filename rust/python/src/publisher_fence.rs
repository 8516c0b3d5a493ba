//! Order between publishers and core publish: core messages stay behind earlier messages of the publishers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Weak};

use base::lock::lock;
use client::outbox::Outbox;
use client::outbox::fence::{Fence, FenceGuard};

/// A publisher, as its connection sees it.
pub trait PublisherFeed: Send + Sync {
    /// True if a message has no result, because it may not have been sent.
    fn is_busy(&self) -> bool;
    /// Opens the fence after all earlier messages were sent.
    fn open_after_sent(&self, guard: FenceGuard);
}

/// The publishers of a connection.
#[derive(Default)]
pub struct PublisherFences {
    publishers: Mutex<Vec<Weak<dyn PublisherFeed>>>,
    /// A message was published since the last fence.
    used: AtomicBool,
}

impl PublisherFences {
    /// Adds a publisher to the connection.
    pub fn add(&self, publisher: Weak<dyn PublisherFeed>) {
        let mut publishers = lock(&self.publishers);
        publishers.retain(|publisher| publisher.strong_count() > 0);
        publishers.push(publisher);
    }

    /// Records that a message was published.
    pub fn publish(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Makes later messages of the outbox wait for all messages that were published so far.
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
