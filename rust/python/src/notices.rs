//! Delivery of connection events to the user's callbacks.

use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;

use crate::bridge::{Bridge, Event, Mailbox, all};
use crate::error::{PyResult, to_exception};
use crate::python_call::begin_call;
use base::lock::lock;
use client::connection_state::{ConnectionEvent, EventQueue};

/// Calls `sink(kind, error)` in the event loop for each event, in order.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Notices {
    inner: Arc<Inner>,
}

struct Inner {
    waiting: Arc<Mutex<Vec<ConnectionEvent>>>,
    sink: Py<PyAny>,
    /// The bridge's mailbox. The reference is weak, because an event that is never fetched from it holds this object.
    mailbox: Weak<Mailbox>,
    in_loop: bool,
}

impl Notices {
    /// Returns the queue that the connection writes to.
    pub fn taker(&self) -> EventQueue {
        let inner = self.inner.clone();
        let wake = move || {
            let inner = inner.clone();
            if let Some(mailbox) = inner.mailbox.upgrade() {
                mailbox.push(0, Event::Many(Box::new(move |py| inner.deliver(py))));
            }
        };
        EventQueue { waiting: self.inner.waiting.clone(), wake: Box::new(wake) }
    }

    /// Returns the event loop's mailbox; `None` if a thread delivers the events.
    pub fn of_loop(&self) -> Option<Arc<Mailbox>> {
        self.inner.in_loop.then(|| self.inner.mailbox.upgrade()).flatten()
    }
}

impl Inner {
    fn deliver(&self, py: Python<'_>) -> PyResult<()> {
        let notices = std::mem::take(&mut *lock(&self.waiting));
        all(py, notices.into_iter().map(|notice| self.tell(py, notice)))
    }

    fn tell(&self, py: Python<'_>, notice: ConnectionEvent) -> PyResult<()> {
        let (kind, error) = match notice {
            ConnectionEvent::Error(error) => ("error", Some(to_exception(py, &error)?)),
            ConnectionEvent::Disconnected => ("disconnected", None),
            ConnectionEvent::Reconnected => ("reconnected", None),
            ConnectionEvent::Closed => ("closed", None),
            ConnectionEvent::Discovered => ("discovered_server", None),
            ConnectionEvent::LameDuck => ("lame_duck_mode", None),
        };
        Ok(self.sink.call1(py, (kind, error)).map(drop)?)
    }
}

#[pymethods]
impl Notices {
    #[new]
    #[pyo3(signature = (sink, bridge, *, in_loop=true))]
    fn new(sink: Py<PyAny>, bridge: &Bridge, in_loop: bool) -> Self {
        let inner = Inner { waiting: Arc::default(), sink, mailbox: Arc::downgrade(&bridge.mailbox), in_loop };
        Notices { inner: Arc::new(inner) }
    }

    /// Wakes the thread that drains the bridge.
    fn wake(&self) {
        (self.taker().wake)();
    }

    /// Delivers the events that have arrived so far.
    fn deliver(&self, py: Python<'_>) -> PyResult<()> {
        let _call = begin_call(py);
        self.inner.deliver(py)
    }
}
