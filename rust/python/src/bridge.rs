//! Delivery of results to asyncio, with one wake-up for many results.
//!
//! A tokio thread puts a result into the loop's mailbox, and writes one byte to a pipe if the mailbox was empty. The
//! loop watches the pipe with `add_reader` and calls `drain`, which resolves the futures of all results. No tokio
//! thread takes the GIL. A loop that cannot watch a pipe is woken by `call_soon_threadsafe`, also once for many
//! results.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use idle::Idle;
use pyo3::exceptions::{PyException, PyRuntimeError, PyStopIteration, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use system::until_due;
use tokio::sync::Notify;
use wake::Wake;

use crate::call::Call;
use crate::error::{PyResult, Raised};
use crate::python_call::begin_call;
use base::error::Result;
use base::lock::lock;
use base::panics::caught;
use runtime::foreign;

mod idle;
#[cfg_attr(unix, path = "bridge/unix.rs")]
#[cfg_attr(not(unix), path = "bridge/elsewhere.rs")]
mod system;
mod wake;

/// Number of awaited calls up to which the loop's thread waits for a result itself. With more the loop has work soon.
pub const MOST_LINGERED_FOR: usize = 512;

/// A result that becomes a Python object when the GIL is held.
pub type Reply = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send>;

/// An event for the loop's thread.
pub enum Event {
    Done(Result<Reply>),
    /// A request to call the progress function.
    Tick,
    /// Many small results at once, from a source that has its own futures.
    Many(Box<dyn FnOnce(Python<'_>) -> PyResult<()> + Send>),
}

/// Waiting events with the ids of their futures.
#[derive(Default)]
struct Events {
    waiting: Vec<(u64, Event)>,
    /// The loop's thread waits in `Bridge::linger`, not in its selector.
    lingering: bool,
}

/// The queue between tokio threads and one event loop.
pub struct Mailbox {
    events: Mutex<Events>,
    /// An event arrived while the loop's thread lingered.
    arrived: Notify,
    wake: Wake,
}

impl Mailbox {
    /// Adds an event, and wakes the loop if the mailbox was empty.
    pub fn push(&self, id: u64, event: Event) {
        let (first, lingering) = {
            let mut events = lock(&self.events);
            events.waiting.push((id, event));
            (events.waiting.len() == 1, events.lingering)
        };
        if first && lingering {
            self.arrived.notify_one();
        } else if first {
            self.wake.ring();
        }
    }

    /// Disables wake-ups; false if events are waiting.
    fn begin_linger(&self) -> bool {
        let mut events = lock(&self.events);
        events.lingering = events.waiting.is_empty();
        events.lingering
    }

    /// Enables wake-ups and returns the events that arrived without one.
    fn end_linger(&self) -> Vec<(u64, Event)> {
        let mut events = lock(&self.events);
        events.lingering = false;
        std::mem::take(&mut events.waiting)
    }
}

/// A progress function, and the code that calls it.
pub struct Progress {
    pub report: Box<dyn Fn(Python<'_>) -> PyResult<()> + Send + Sync>,
}

impl Progress {
    pub fn tell(&self, py: Python<'_>) -> PyResult<()> {
        Ok((self.report)(py).map_err(|err| raisable(py, err.into()))?)
    }
}

/// A future of the loop whose work has not ended.
struct WaitingFuture {
    future: Py<PyAny>,
    progress: Option<Arc<Progress>>,
    cancel: tokio::task::AbortHandle,
}

/// The mailbox of an event loop. It has no reference to the loop, so it does not keep the loop alive.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Bridge {
    pub mailbox: Arc<Mailbox>,
    waiting: Mutex<(u64, HashMap<u64, WaitingFuture>)>,
    idle: OnceLock<Idle>,
}

impl Bridge {
    /// Starts work for a future of the loop. `start` gets the id for the work's events.
    pub fn register(
        &self,
        future: Py<PyAny>,
        progress: Option<Arc<Progress>>,
        start: impl FnOnce(u64) -> Result<tokio::task::AbortHandle>,
    ) -> Result<()> {
        let id = {
            let mut waiting = lock(&self.waiting);
            waiting.0 += 1;
            waiting.0
        };
        // Events of the work wait until this thread, the loop's, drains them.
        let cancel = start(id)?;
        lock(&self.waiting).1.insert(id, WaitingFuture { future, progress, cancel });
        Ok(())
    }

    fn take_future(&self, id: u64) -> Option<WaitingFuture> {
        lock(&self.waiting).1.remove(&id)
    }

    fn deliver_all(&self, py: Python<'_>, events: Vec<(u64, Event)>) -> PyResult<()> {
        let _call = begin_call(py);
        let delivered = events.into_iter().map(|(id, event)| {
            caught(|| self.deliver(py, id, event)).map_err(Raised::from).and_then(|delivered| delivered)
        });
        let raised = all(py, delivered);
        foreign::release();
        raised
    }

    fn deliver(&self, py: Python<'_>, id: u64, event: Event) -> PyResult<()> {
        match event {
            Event::Many(deliver) => deliver(py),
            Event::Done(result) => {
                let Some(waiting) = self.take_future(id) else { return Ok(()) };
                let future = waiting.future.bind(py);
                // The future was cancelled. Dropping the result returns fetched messages.
                if future.call_method0(intern!(py, "done"))?.is_truthy()? {
                    return Ok(());
                }
                settle(future, result.map_err(Raised::from).and_then(|reply| reply(py)))
            }
            Event::Tick => {
                let progress = lock(&self.waiting).1.get(&id).and_then(|waiting| waiting.progress.clone());
                let Some(Err(err)) = progress.map(|progress| progress.tell(py)) else { return Ok(()) };
                // An exception of the caller's function ends the call.
                let Some(waiting) = self.take_future(id) else { return Ok(()) };
                waiting.cancel.abort();
                settle(waiting.future.bind(py), Err(err))
            }
        }
    }
}

#[pymethods]
impl Bridge {
    /// `wake` is called from any thread when `drain` has work; without it `fileno` becomes readable.
    #[new]
    #[pyo3(signature = (wake=None))]
    fn new(wake: Option<Py<PyAny>>) -> PyResult<Self> {
        let mailbox = Mailbox { events: Mutex::default(), arrived: Notify::new(), wake: Wake::new(wake)? };
        Ok(Bridge { mailbox: Arc::new(mailbox), waiting: Mutex::default(), idle: OnceLock::new() })
    }

    /// The file descriptor that becomes readable when `drain` has work.
    fn fileno(&self) -> PyResult<i32> {
        let none = || PyValueError::new_err("this bridge calls a function, so it has no descriptor");
        Ok(self.mailbox.wake.descriptor().ok_or_else(none)?)
    }

    /// Wakes the loop, even if no event is waiting.
    fn ring(&self) {
        self.mailbox.wake.ring();
    }

    /// Resolves the futures of all waiting events. Runs in the loop's thread.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        self.mailbox.wake.heard()?;
        let events = std::mem::take(&mut lock(&self.mailbox.events).waiting);
        self.deliver_all(py, events)
    }

    /// Lets `linger` detect work of the loop, from its selector's descriptor, its queue, its timers and its clock.
    fn watch_loop(&self, selector: i32, ready: Py<PyAny>, scheduled: Py<PyAny>, clock: Py<PyAny>) {
        let _already_set = self.idle.set(Idle::new(selector, ready, scheduled, clock));
    }

    /// Waits for the next event in the loop's thread, if the loop has no other work.
    ///
    /// This thread drives the connection meanwhile, so a short round trip, and the bytes of a bulk call, do not change
    /// threads. Ends as soon as the loop has work.
    #[pyo3(signature = (call=None))]
    fn linger(&self, py: Python<'_>, call: Option<&Call>) -> PyResult<()> {
        self.linger_after(py, None, call.is_some_and(Call::is_bulk))
    }
}

impl Bridge {
    /// As `linger`, if the loop has no work other than this call, which is made first.
    pub fn linger_after(&self, py: Python<'_>, call: Option<&dyn Fn() -> PyResult<()>>, bulk: bool) -> PyResult<()> {
        let Some(idle) = self.idle.get() else { return Ok(()) };
        let Some(spell) = idle.spell(py, usize::from(call.is_some()), bulk)? else { return Ok(()) };
        if let Some(call) = call {
            call()?;
        }
        if !self.mailbox.begin_linger() {
            return Ok(());
        }
        let (mailbox, selector) = (&self.mailbox, idle.selector);
        let waited = py.detach(|| runtime::visit(until_due(&mailbox.arrived, selector), spell));
        let events = mailbox.end_linger();
        if !bulk {
            idle.learn(!events.is_empty());
        }
        waited?;
        self.deliver_all(py, events)
    }
}

/// Sets the outcome of a future, unless it has one because it was cancelled.
pub fn settle<'py>(future: &Bound<'py, PyAny>, outcome: PyResult<Bound<'py, PyAny>>) -> PyResult<()> {
    let py = future.py();
    let set = match outcome {
        Ok(value) => future.call_method1(intern!(py, "set_result"), (value,)),
        Err(err) => future.call_method1(intern!(py, "set_exception"), (raisable(py, err.into()).into_value(py),)),
    };
    match set {
        // asyncio and concurrent.futures have different classes of this name.
        Err(err) if err.get_type(py).name()? != "InvalidStateError" => Err(err.into()),
        _ => Ok(()),
    }
}

/// Processes all outcomes, even after an error, so that no future waits forever. Raises one error at the end. Reports
/// the others as unraisable.
pub fn all(py: Python<'_>, outcomes: impl Iterator<Item = PyResult<()>>) -> PyResult<()> {
    let mut raised: Option<PyErr> = None;
    for err in outcomes.filter_map(PyResult::err).map(PyErr::from) {
        // Ctrl-C has precedence.
        let (first, second) = match raised.take() {
            Some(earlier) if earlier.is_instance_of::<PyException>(py) => (err, Some(earlier)),
            Some(earlier) => (earlier, Some(err)),
            None => (err, None),
        };
        raised = Some(first);
        if let Some(other) = second {
            other.write_unraisable(py, None);
        }
    }
    raised.map_or(Ok(()), |err| Err(err.into()))
}

/// Replaces a StopIteration, which a future rejects because a coroutine would misinterpret it.
fn raisable(py: Python<'_>, err: PyErr) -> PyErr {
    if !err.is_instance_of::<PyStopIteration>(py) {
        return err;
    }
    let other = PyRuntimeError::new_err("a callback raised StopIteration");
    other.set_cause(py, Some(err));
    other
}
