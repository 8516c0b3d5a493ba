//! The way of messages into a publisher's loop, those of one turn of the event loop together.

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

/// Messages of this turn of the loop; handed over together at its end.
#[derive(Default)]
pub struct PendingTurn {
    pub items: Vec<Feed>,
    pub copies: Copies,
}

/// From here into the loop.
pub struct PublisherQueue {
    pub inner: Owned<engine::Publisher>,
    pub shared: Arc<ResultState>,
    pub turn: Mutex<PendingTurn>,
}

impl Drop for PublisherQueue {
    fn drop(&mut self) {
        // Its loop was closed before the turn's end.
        let _refused = caught(|| self.hand_over());
    }
}

impl PublisherQueue {
    /// Hands over what was published in this turn of the loop.
    pub fn hand_over(&self) -> PyResult<()> {
        let items = std::mem::take(&mut lock(&self.turn).items);
        if items.is_empty() { Ok(()) } else { self.send(items) }
    }

    /// Hands messages over; where the connection is closed their futures say so.
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
            // Where nobody takes it it opens.
            let _closed = inner.send(vec![fence]);
        } else {
            // At the end of the turn, with the messages before it.
            turn.items.push(fence);
        }
    }
}
