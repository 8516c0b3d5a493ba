//! What asyncio knows a future by, and what one calls on it: as of its own.

use std::sync::atomic::Ordering;

use pyo3::exceptions::{PyBaseException, PyStopIteration};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::{Callback, PubAckFuture, State};
use crate::lock::lock;
use crate::python_names::import;

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

fn future_class(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || import(py, "asyncio", "Future").map(Bound::unbind))?;
    Ok(class.bind(py).clone())
}

pub fn asyncio_error(py: Python<'_>, name: &str, text: &str) -> PyErr {
    let made = import(py, "asyncio", name).and_then(|class| class.call1((text,)));
    made.map_or_else(|err| err, PyErr::from_value)
}

pub fn cancelled_error(py: Python<'_>, message: Option<Py<PyAny>>) -> PyErr {
    let class = import(py, "asyncio", "CancelledError");
    let made = class.and_then(|class| match message {
        Some(message) => class.call1((message,)),
        None => class.call0(),
    });
    made.map_or_else(|err| err, PyErr::from_value)
}
