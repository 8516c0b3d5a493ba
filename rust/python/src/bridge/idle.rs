//! Detection of an idle asyncio event loop from its queue, its timers and its selector.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pyo3::intern;
use pyo3::prelude::*;

use crate::error::PyResult;
use crate::python_call::begin_call;

/// State to detect that an asyncio loop is idle.
pub struct Idle {
    pub selector: i32,
    ready: Py<PyAny>,
    scheduled: Py<PyAny>,
    /// The loop's clock.
    clock: Py<PyAny>,
    turns: AtomicU32,
    /// Calls that skip the wait, and the number of calls to skip after the next wait without an event.
    rest: AtomicU32,
    next_rest: AtomicU32,
}

/// Maximum time for which one call blocks the loop's thread. A longer round trip gains nothing from waiting in this
/// thread, and blocks other work of the loop.
const MAX_LINGER: Duration = Duration::from_millis(2);
/// The same for a bulk call, whose bytes this thread receives meanwhile.
const MAX_BULK_LINGER: Duration = Duration::from_millis(50);
/// One in this many calls returns to the loop without a wait, so that the loop also removes its cancelled timers.
const STRETCH: u32 = 64;
/// Number of calls that skip the wait after a wait without an event. It doubles after each further one.
const MIN_SKIPPED_CALLS: u32 = 8;
const MAX_SKIPPED_CALLS: u32 = 1024;

impl Idle {
    pub fn new(selector: i32, ready: Py<PyAny>, scheduled: Py<PyAny>, clock: Py<PyAny>) -> Self {
        Idle {
            selector,
            ready,
            scheduled,
            clock,
            turns: AtomicU32::new(0),
            rest: AtomicU32::new(0),
            next_rest: AtomicU32::new(MIN_SKIPPED_CALLS),
        }
    }

    /// Returns how long the loop is idle, except for `ours` calls of the bridge. `None` if it is not idle.
    pub fn spell(&self, py: Python<'_>, ours: usize, bulk: bool) -> PyResult<Option<Duration>> {
        let most = if bulk { MAX_BULK_LINGER } else { MAX_LINGER };
        let rest = self.rest.load(Ordering::Relaxed);
        if rest > 0 && !bulk {
            self.rest.store(rest - 1, Ordering::Relaxed);
            return Ok(None);
        }
        if self.turns.fetch_add(1, Ordering::Relaxed) % STRETCH == STRETCH - 1 || self.ready.bind(py).len()? > ours {
            return Ok(None);
        }
        let scheduled = self.scheduled.bind(py);
        if scheduled.len()? == 0 {
            return Ok(Some(most));
        }
        let _call = begin_call(py);
        let due: f64 = scheduled.get_item(0)?.getattr(intern!(py, "_when"))?.extract()?;
        let now: f64 = self.clock.bind(py).call0()?.extract()?;
        Ok((due > now).then(|| Duration::try_from_secs_f64(due - now).map_or(most, |left| left.min(most))))
    }

    /// Records whether the last wait had an event. Runs in the loop's thread only.
    pub fn learn(&self, came: bool) {
        let next = self.next_rest.load(Ordering::Relaxed);
        self.rest.store(if came { 0 } else { next }, Ordering::Relaxed);
        self.next_rest
            .store(if came { MIN_SKIPPED_CALLS } else { (2 * next).min(MAX_SKIPPED_CALLS) }, Ordering::Relaxed);
    }
}
