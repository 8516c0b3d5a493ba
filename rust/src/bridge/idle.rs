//! Whether an event loop of asyncio's has something to do, seen from outside: its queue, its timers, its selector.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pyo3::intern;
use pyo3::prelude::*;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// How to see that a loop of asyncio's has nothing to do.
pub struct Idle {
    pub selector: i32,
    ready: Py<PyAny>,
    scheduled: Py<PyAny>,
    /// The loop's clock.
    clock: Py<PyAny>,
    turns: AtomicU32,
}

/// How long one call may keep the loop's thread; a signal waits as long.
const LINGER: Duration = Duration::from_millis(20);
/// One of so many calls goes through the loop, which then also clears its timers.
const STRETCH: u32 = 64;

impl Idle {
    pub fn new(selector: i32, ready: Py<PyAny>, scheduled: Py<PyAny>, clock: Py<PyAny>) -> Self {
        Idle { selector, ready, scheduled, clock, turns: AtomicU32::new(0) }
    }

    /// How long nothing is due; None where something is.
    pub fn spell(&self, py: Python<'_>) -> PyResult<Option<Duration>> {
        if self.turns.fetch_add(1, Ordering::Relaxed) % STRETCH == STRETCH - 1 || self.ready.bind(py).len()? > 0 {
            return Ok(None);
        }
        let scheduled = self.scheduled.bind(py);
        if scheduled.len()? == 0 {
            return Ok(Some(LINGER));
        }
        let due: f64 = scheduled.get_item(0)?.getattr(intern!(py, "_when"))?.extract()?;
        let now: f64 = self.clock.bind(py).call0()?.extract()?;
        Ok((due > now).then(|| Duration::try_from_secs_f64(due - now).map_or(LINGER, |left| left.min(LINGER))))
    }
}

/// Something arrived, or the loop's selector (itself a descriptor that can be watched) has something.
#[allow(deprecated)] // what takes its place wants an owner, and the owner is Python
pub async fn until_due(arrived: &Notify, selector: i32) {
    // For this once: one that stayed registered would wake whoever drives the connection at each event of the loop.
    let Ok(selector) = AsyncFd::with_interest(selector, Interest::READABLE) else { return };
    tokio::select! {
        biased;
        () = arrived.notified() => {}
        _ = selector.readable() => {}
    }
}
