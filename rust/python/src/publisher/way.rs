//! The way of messages into a publisher's loop, those of one turn of the event loop together.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;

use super::{Answer, Shared};
use crate::copies::Copies;
use crate::error::PyResult;
use crate::lane::Lane;
use base::lock::lock;
use base::panics::caught;
use client::gate::Opener;
use jetstream::publish::publisher::{self as engine, Feed};
use runtime::Owned;

/// Messages of this turn of the loop; handed over together at its end.
#[derive(Default)]
pub struct Turn {
    pub items: Vec<Feed>,
    pub copies: Copies,
}

/// From here into the loop.
pub struct Way {
    pub inner: Owned<engine::Publisher>,
    pub shared: Arc<Shared>,
    pub turn: Mutex<Turn>,
}

impl Drop for Way {
    fn drop(&mut self) {
        // Its loop was closed before the turn's end.
        let _refused = caught(|| self.hand_over());
    }
}

impl Way {
    /// Hands over what was published in this turn of the loop.
    pub fn hand_over(&self) -> PyResult<()> {
        let items = std::mem::take(&mut lock(&self.turn).items);
        if items.is_empty() { Ok(()) } else { self.send(items) }
    }

    /// Hands messages over; where the connection is closed their futures say so.
    pub fn send(&self, items: Vec<Feed>) -> PyResult<()> {
        let Err((items, closed)) = self.inner.get()?.send(items) else { return Ok(()) };
        let failed = items.into_iter().filter_map(|item| match item {
            Feed::Item((row, _)) => Some((row, Answer::Failed(Box::new(closed.clone())))),
            Feed::Gate(_) => None,
        });
        Python::attach(|py| self.shared.deliver(py, failed.collect()))
    }
}

impl Lane for Way {
    fn is_busy(&self) -> bool {
        self.shared.pending() > 0
    }

    fn follow(&self, opener: Opener) {
        let Ok(inner) = self.inner.get() else { return };
        let gate = Feed::Gate(opener);
        let mut turn = lock(&self.turn);
        if turn.items.is_empty() {
            drop(turn);
            // Where nobody takes it it opens.
            let _closed = inner.send(vec![gate]);
        } else {
            // At the end of the turn, with the messages before it.
            turn.items.push(gate);
        }
    }
}
