//! Whether an event loop of asyncio's has something to do, seen from outside: its queue, its timers, its selector.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pyo3::intern;
use pyo3::prelude::*;

use crate::error::PyResult;

/// How to see that a loop of asyncio's has nothing to do.
pub struct Idle {
    pub selector: i32,
    ready: Py<PyAny>,
    scheduled: Py<PyAny>,
    /// The loop's clock.
    clock: Py<PyAny>,
    turns: AtomicU32,
    /// Calls that are not to wait here, and how many it is after the next wait in vain.
    rest: AtomicU32,
    next_rest: AtomicU32,
}

/// How long one call may keep the loop's thread. What takes longer gains nothing from being waited for here, and may be
/// work that would keep the loop from its own.
const LINGER: Duration = Duration::from_millis(2);
/// One of so many calls goes through the loop, which then also clears its timers.
const STRETCH: u32 = 64;
/// After a wait that brought nothing so many calls do not wait here; after the next one twice as many, and so on.
const REST: u32 = 8;
const MOST_REST: u32 = 1024;

impl Idle {
    pub fn new(selector: i32, ready: Py<PyAny>, scheduled: Py<PyAny>, clock: Py<PyAny>) -> Self {
        Idle {
            selector,
            ready,
            scheduled,
            clock,
            turns: AtomicU32::new(0),
            rest: AtomicU32::new(0),
            next_rest: AtomicU32::new(REST),
        }
    }

    /// How long nothing is due but so many calls of ours; None where something is.
    pub fn spell(&self, py: Python<'_>, ours: usize) -> PyResult<Option<Duration>> {
        let rest = self.rest.load(Ordering::Relaxed);
        if rest > 0 {
            self.rest.store(rest - 1, Ordering::Relaxed);
            return Ok(None);
        }
        if self.turns.fetch_add(1, Ordering::Relaxed) % STRETCH == STRETCH - 1 || self.ready.bind(py).len()? > ours {
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

    /// Whether the last wait brought something. All of this happens in the loop's thread.
    pub fn learn(&self, came: bool) {
        let next = self.next_rest.load(Ordering::Relaxed);
        self.rest.store(if came { 0 } else { next }, Ordering::Relaxed);
        self.next_rest.store(if came { REST } else { (2 * next).min(MOST_REST) }, Ordering::Relaxed);
    }
}
