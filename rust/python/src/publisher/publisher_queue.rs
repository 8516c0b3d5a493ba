//! The queue of a publisher, which sends the messages of one iteration of the event loop together.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;

use super::{ResultState, RowResult};
use crate::copies::Copies;
use crate::error::PyResult;
use crate::publisher_fence::PublisherFeed;
use base::lock::lock;
use base::panics::caught;
use client::outbox::fence::FenceGuard;
use jetstream::publish::publisher::{self as engine, Feed};
use runtime::Owned;

/// Messages of this iteration of the loop.
#[derive(Default)]
pub struct PendingTurn {
    pub items: Vec<Feed>,
    pub copies: Copies,
}

/// The queue between the Python object and the publish loop.
pub struct PublisherQueue {
    pub inner: Owned<engine::Publisher>,
    pub shared: Arc<ResultState>,
    pub turn: Mutex<PendingTurn>,
}

impl Drop for PublisherQueue {
    fn drop(&mut self) {
        // The loop was closed before the end of the iteration.
        let _refused = caught(|| self.hand_over());
    }
}

impl PublisherQueue {
    /// Sends the messages of this iteration.
    pub fn hand_over(&self) -> PyResult<()> {
        let items = std::mem::take(&mut lock(&self.turn).items);
        if items.is_empty() { Ok(()) } else { self.send(items) }
    }

    /// Sends messages to the publish loop. If the connection is closed, their futures get the error.
    pub fn send(&self, items: Vec<Feed>) -> PyResult<()> {
        let Err((items, closed)) = self.inner.get()?.send(items) else { return Ok(()) };
        let failed = items.into_iter().filter_map(|item| match item {
            Feed::Row((row, _)) => Some((row, RowResult::Failed(Box::new(closed.clone())))),
            Feed::Fence(_) => None,
        });
        Python::attach(|py| self.shared.deliver(py, failed.collect()))
    }
}

impl PublisherFeed for PublisherQueue {
    fn is_busy(&self) -> bool {
        self.shared.pending() > 0
    }

    fn open_after_sent(&self, guard: FenceGuard) {
        let Ok(inner) = self.inner.get() else { return };
        let fence = Feed::Fence(guard);
        let mut turn = lock(&self.turn);
        if turn.items.is_empty() {
            drop(turn);
            // If the publisher has ended, dropping the guard opens the fence.
            let _closed = inner.send(vec![fence]);
        } else {
            // Sent at the end of the iteration, after the messages before it.
            turn.items.push(fence);
        }
    }
}
