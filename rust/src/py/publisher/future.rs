//! The future of one message: as asyncio's in all that one does with it, and without an ack where nobody holds it.
//!
//! asyncio's own takes 0.24 us to be made, by a call of the loop's. What is awaited at once has that nevertheless: a task
//! waits for it without a call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyBaseException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyDict};
use pyo3::{PyTraverseError, PyVisit};

use crate::bridge::{all, raisable};
use crate::engine::publish::puback::Origin;
use crate::lock::lock;
use crate::py::puback::Acks;

mod asyncio;

use asyncio::{asyncio_error, cancelled_error};

/// What a message that was stored has got.
pub enum Settled {
    /// Nobody has it: the ack is made should somebody ask all the same.
    Stored {
        origin: Arc<Origin>,
        seq: u64,
        duplicate: bool,
    },
    Known(Py<PyAny>),
}

impl Settled {
    pub fn ack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Settled::Known(ack) => Ok(ack.bind(py).clone()),
            Settled::Stored { origin, seq, duplicate } => Acks::default().build(py, origin, *seq, *duplicate),
        }
    }
}

enum State {
    Pending(Vec<Callback>),
    Done(Settled),
    Failed(Py<PyBaseException>),
    /// With the message of whoever cancelled it.
    Cancelled(Option<Py<PyAny>>),
}

struct Callback {
    function: Py<PyAny>,
    context: Py<PyAny>,
}

#[pyclass(frozen, weakref, module = "jetarrow._jetarrow")]
pub struct PubAckFuture {
    event_loop: Py<PyAny>,
    /// No Python runs while it is locked.
    state: Mutex<State>,
    /// Made when it is first looked at: whoever asks gets the same one.
    ack: PyOnceLock<Py<PyAny>>,
    /// A task is about to wait for it.
    blocking: AtomicBool,
    /// It failed, and nobody has looked at how.
    unseen: AtomicBool,
}

impl PubAckFuture {
    pub fn new(event_loop: Py<PyAny>) -> Self {
        PubAckFuture {
            event_loop,
            state: Mutex::new(State::Pending(Vec::new())),
            ack: PyOnceLock::new(),
            blocking: AtomicBool::new(false),
            unseen: AtomicBool::new(false),
        }
    }

    /// Gives it its outcome. One that has an outcome keeps it: it was cancelled.
    pub fn settle(&self, this: &Bound<'_, Self>, outcome: PyResult<Settled>) -> PyResult<()> {
        let py = this.py();
        let state = match outcome {
            Ok(settled) => State::Done(settled),
            Err(err) => State::Failed(raisable(py, err).into_value(py)),
        };
        let failed = matches!(state, State::Failed(_));
        let Some(callbacks) = self.end(state) else { return Ok(()) };
        self.unseen.store(failed, Ordering::Relaxed);
        self.schedule(this, callbacks)
    }

    /// Ends it, where it has not ended yet; gives what is to be called.
    fn end(&self, with: State) -> Option<Vec<Callback>> {
        let mut state = lock(&self.state);
        let State::Pending(callbacks) = &mut *state else {
            // `with` holds objects: they go when the lock is free.
            drop(state);
            return None;
        };
        let callbacks = std::mem::take(callbacks);
        *state = with;
        Some(callbacks)
    }

    fn schedule(&self, this: &Bound<'_, Self>, callbacks: Vec<Callback>) -> PyResult<()> {
        let py = this.py();
        let one = |callback: Callback| {
            let context = [(intern!(py, "context"), callback.context)].into_py_dict(py)?;
            let arguments = (callback.function, this);
            self.event_loop.bind(py).call_method(intern!(py, "call_soon"), arguments, Some(&context)).map(drop)
        };
        all(py, callbacks.into_iter().map(one))
    }

    /// The ack, or the error, which is looked at now; one that is not done has none.
    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(ack) = self.ack.get(py) {
            return Ok(ack.bind(py).clone());
        }
        let state = lock(&self.state).copied(py);
        match state {
            State::Pending(_) => Err(asyncio_error(py, "InvalidStateError", "Result is not set.")),
            State::Done(settled) => {
                let ack = self.ack.get_or_try_init(py, || settled.ack(py).map(Bound::unbind))?;
                Ok(ack.bind(py).clone())
            }
            State::Failed(error) => {
                self.unseen.store(false, Ordering::Relaxed);
                Err(PyErr::from_value(error.into_bound(py).into_any()))
            }
            State::Cancelled(message) => Err(cancelled_error(py, message)),
        }
    }

    fn is(&self, kind: impl FnOnce(&State) -> bool) -> bool {
        kind(&lock(&self.state))
    }
}

impl State {
    /// As it is, without what is to be called.
    fn copied(&self, py: Python<'_>) -> State {
        match self {
            State::Pending(_) => State::Pending(Vec::new()),
            State::Done(Settled::Known(ack)) => State::Done(Settled::Known(ack.clone_ref(py))),
            State::Done(Settled::Stored { origin, seq, duplicate }) => {
                State::Done(Settled::Stored { origin: origin.clone(), seq: *seq, duplicate: *duplicate })
            }
            State::Failed(error) => State::Failed(error.clone_ref(py)),
            State::Cancelled(message) => State::Cancelled(message.as_ref().map(|message| message.clone_ref(py))),
        }
    }
}

#[pymethods]
impl PubAckFuture {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop)?;
        // One that is just being changed is looked at next time.
        let Ok(state) = self.state.try_lock() else { return Ok(()) };
        match &*state {
            State::Pending(callbacks) => {
                for callback in callbacks {
                    visit.call(&callback.function)?;
                    visit.call(&callback.context)?;
                }
                Ok(())
            }
            State::Failed(error) => visit.call(error),
            State::Cancelled(message) => visit.call(message),
            // An ack refers to nothing.
            State::Done(_) => Ok(()),
        }
    }

    /// A cycle goes through what is to be called, or through the frames of an error.
    fn __clear__(&self) {
        let before = match &mut *lock(&self.state) {
            State::Pending(callbacks) => State::Pending(std::mem::take(callbacks)),
            state => std::mem::replace(state, State::Cancelled(None)),
        };
        drop(before);
    }
}

impl Drop for PubAckFuture {
    fn drop(&mut self) {
        if !*self.unseen.get_mut() {
            return;
        }
        let State::Failed(error) = self.state.get_mut().unwrap_or_else(PoisonError::into_inner) else { return };
        Python::attach(|py| {
            let context = PyDict::new(py);
            // As asyncio says it: who looks for that finds it.
            let told = context.set_item("message", "Future exception was never retrieved").and_then(|()| {
                context.set_item("exception", &*error)?;
                self.event_loop.call_method1(py, "call_exception_handler", (context,))
            });
            if let Err(err) = told {
                err.write_unraisable(py, None);
            }
        });
    }
}
