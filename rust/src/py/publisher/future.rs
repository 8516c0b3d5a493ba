//! The future of one message: as asyncio's in all that one does with it, and made an ack once somebody looks at it.
//!
//! asyncio's own takes 0.24 us to be made, 0.15 of the garbage collector's time, and 0.25 for an ack that hardly anybody
//! looks at: a fifth of what a message costs in Python. What is awaited at once has asyncio's nevertheless: a task waits
//! for that without a call.
//!
//! The garbage collector does not see it, which is most of the gain. A task that waits for one that will never be done,
//! in a loop that was closed around it, is never freed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyBaseException, PyStopIteration};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyDict, PyType};

use crate::bridge::{all, raisable};
use crate::engine::publish::puback::Origin;
use crate::lock::lock;
use crate::py::puback;
use crate::python_names::import;

/// What a message that was stored has got.
pub enum Settled {
    Stored {
        origin: Arc<Origin>,
        seq: u64,
        duplicate: bool,
    },
    /// The ack, made before.
    Known(Py<PyAny>),
}

impl Settled {
    pub fn ack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Settled::Known(ack) => Ok(ack.bind(py).clone()),
            Settled::Stored { origin, seq, duplicate } => {
                puback::build(py, &origin.stream, origin.domain.as_deref(), *seq, *duplicate)
            }
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

/// What asyncio knows a future by, and what one calls on it.
#[pymethods]
impl PubAckFuture {
    /// For `isinstance`: it is one in all but its making.
    #[getter(__class__)]
    fn class<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        future_class(py)
    }

    #[classmethod]
    fn __class_getitem__<'py>(class: &Bound<'py, PyType>, _of: &Bound<'py, PyAny>) -> Bound<'py, PyType> {
        class.clone()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let state = lock(&self.state).copied(py);
        Ok(match state {
            State::Pending(_) => "<PubAckFuture pending>".into(),
            State::Done(_) => format!("<PubAckFuture finished result={}>", self.outcome(py)?.repr()?),
            State::Failed(error) => format!("<PubAckFuture finished exception={}>", error.bind(py).repr()?),
            State::Cancelled(_) => "<PubAckFuture cancelled>".into(),
        })
    }

    fn __await__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let (py, future) = (this.py(), this.get());
        if future.done() {
            return Err(PyStopIteration::new_err((future.outcome(py)?.unbind(),)));
        }
        future.blocking.store(true, Ordering::Relaxed);
        Ok(this.clone())
    }

    fn done(&self) -> bool {
        !self.is(|state| matches!(state, State::Pending(_)))
    }

    fn cancelled(&self) -> bool {
        self.is(|state| matches!(state, State::Cancelled(_)))
    }

    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.outcome(py)
    }

    fn exception<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let state = lock(&self.state).copied(py);
        match state {
            State::Pending(_) => Err(asyncio_error(py, "InvalidStateError", "Exception is not set.")),
            State::Done(_) => Ok(None),
            State::Failed(error) => {
                self.unseen.store(false, Ordering::Relaxed);
                Ok(Some(error.into_bound(py).into_any()))
            }
            State::Cancelled(message) => Err(cancelled_error(py, message)),
        }
    }

    #[pyo3(signature = (msg=None))]
    fn cancel(this: &Bound<'_, Self>, msg: Option<Py<PyAny>>) -> PyResult<bool> {
        let Some(callbacks) = this.get().end(State::Cancelled(msg)) else { return Ok(false) };
        this.get().schedule(this, callbacks)?;
        Ok(true)
    }

    #[pyo3(signature = (function, /, *, context=None))]
    fn add_done_callback(
        this: &Bound<'_, Self>,
        function: Py<PyAny>,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let context = match context.filter(|context| !context.is_none()) {
            Some(context) => context,
            None => import(this.py(), "contextvars", "copy_context")?.call0()?,
        };
        let callback = Callback { function, context: context.unbind() };
        let done = match &mut *lock(&this.get().state) {
            State::Pending(callbacks) => {
                callbacks.push(callback);
                None
            }
            _ => Some(callback),
        };
        this.get().schedule(this, done.into_iter().collect())
    }

    fn remove_done_callback(&self, py: Python<'_>, function: &Bound<'_, PyAny>) -> PyResult<usize> {
        // They are compared by functions of theirs: not under the lock.
        let all: Vec<_> = match &*lock(&self.state) {
            State::Pending(callbacks) => callbacks.iter().map(|callback| callback.function.clone_ref(py)).collect(),
            _ => return Ok(0),
        };
        let mut gone = Vec::new();
        for other in all {
            if function.eq(other.bind(py))? {
                gone.push(other);
            }
        }
        let mut removed = Vec::new();
        if let State::Pending(callbacks) = &mut *lock(&self.state) {
            removed.extend(callbacks.extract_if(.., |callback| gone.iter().any(|other| other.is(&callback.function))));
        }
        Ok(removed.len())
    }

    fn get_loop<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.event_loop.bind(py).clone()
    }

    #[getter]
    fn _loop<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.get_loop(py)
    }

    #[getter(_asyncio_future_blocking)]
    fn is_blocking(&self) -> bool {
        self.blocking.load(Ordering::Relaxed)
    }

    #[setter(_asyncio_future_blocking)]
    fn set_blocking(&self, blocking: bool) {
        self.blocking.store(blocking, Ordering::Relaxed);
    }

    /// What `gather` raises.
    fn _make_cancelled_error(&self, py: Python<'_>) -> Py<PyBaseException> {
        let State::Cancelled(message) = lock(&self.state).copied(py) else {
            return cancelled_error(py, None).into_value(py);
        };
        cancelled_error(py, message).into_value(py)
    }

    /// It failed, and nobody has looked at how.
    #[getter]
    fn _log_traceback(&self) -> bool {
        self.unseen.load(Ordering::Relaxed)
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

fn future_class(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || import(py, "asyncio", "Future").map(Bound::unbind))?;
    Ok(class.bind(py).clone())
}

fn asyncio_error(py: Python<'_>, name: &str, text: &str) -> PyErr {
    let made = import(py, "asyncio", name).and_then(|class| class.call1((text,)));
    made.map_or_else(|err| err, PyErr::from_value)
}

fn cancelled_error(py: Python<'_>, message: Option<Py<PyAny>>) -> PyErr {
    let class = import(py, "asyncio", "CancelledError");
    let made = class.and_then(|class| match message {
        Some(message) => class.call1((message,)),
        None => class.call0(),
    });
    made.map_or_else(|err| err, PyErr::from_value)
}
