//! Completions into asyncio: one wake-up for many.
//!
//! A tokio thread puts a finished result into the loop's mailbox, and writes one byte to a pipe if the mailbox was
//! empty. The loop watches the pipe with `add_reader` and calls `drain`, which resolves all futures that are due. No
//! tokio thread takes the GIL. A loop without `add_reader` is woken by `call_soon_threadsafe`, also once for many.

use std::collections::HashMap;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, OnceLock};

use pyo3::prelude::*;

use crate::error::{JetError, Result};
use crate::lock::lock;

/// A result that becomes a Python object once the GIL is held.
pub type Reply = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send>;

pub enum Event {
    Done(Result<Reply>),
    /// Time to call the progress function.
    Tick,
    /// Many small results at once, from a source that keeps its own futures.
    Many(Box<dyn FnOnce(Python<'_>) -> PyResult<()> + Send>),
}

pub struct Mailbox {
    events: Mutex<Vec<(u64, Event)>>,
    pipe: PipeWriter,
    /// Instead of the pipe, where a loop cannot watch one. No lock: the caller may wait for the GIL.
    wake: OnceLock<Py<PyAny>>,
}

impl Mailbox {
    pub fn push(&self, id: u64, event: Event) {
        let first = {
            let mut events = lock(&self.events);
            events.push((id, event));
            events.len() == 1
        };
        if first {
            // A closed loop wants no wake-up: both errors mean just that.
            match self.wake.get() {
                None => drop((&self.pipe).write_all(&[1])),
                Some(call) => drop(Python::attach(|py| call.call0(py).map(drop))),
            }
        }
    }
}

/// A progress function, and how to call it.
pub struct Progress {
    pub report: Box<dyn Fn(Python<'_>) -> PyResult<()> + Send + Sync>,
}

struct Waiting {
    future: Py<PyAny>,
    progress: Option<Arc<Progress>>,
    cancel: tokio::task::AbortHandle,
}

/// One event loop's mailbox. Holds no reference to the loop, so that it goes when the loop goes.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Bridge {
    pub mailbox: Arc<Mailbox>,
    pipe: PipeReader,
    waiting: Mutex<(u64, HashMap<u64, Waiting>)>,
}

impl Bridge {
    /// Starts work for a future of the loop; `spawn` gets the id under which to push its events.
    pub fn register(
        &self,
        future: Py<PyAny>,
        progress: Option<Arc<Progress>>,
        spawn: impl FnOnce(u64) -> tokio::task::AbortHandle,
    ) {
        let mut waiting = lock(&self.waiting);
        waiting.0 += 1;
        let id = waiting.0;
        let cancel = spawn(id);
        waiting.1.insert(id, Waiting { future, progress, cancel });
    }

    fn tick(&self, py: Python<'_>, id: u64) -> PyResult<()> {
        let progress = lock(&self.waiting).1.get(&id).and_then(|w| w.progress.clone());
        let Some(progress) = progress else { return Ok(()) };
        if let Err(err) = (progress.report)(py) {
            // The caller's own function failed: that ends the call.
            let waiting = lock(&self.waiting).1.remove(&id);
            if let Some(waiting) = waiting {
                waiting.cancel.abort();
                resolve(py, &waiting.future, |_| Err(err))?;
            }
        }
        Ok(())
    }
}

#[pymethods]
impl Bridge {
    #[new]
    fn new() -> PyResult<Self> {
        let (reader, writer) = std::io::pipe()?;
        Ok(Bridge {
            mailbox: Arc::new(Mailbox { events: Mutex::default(), pipe: writer, wake: OnceLock::new() }),
            pipe: reader,
            waiting: Mutex::default(),
        })
    }

    /// The file descriptor that becomes readable when `drain` has something to do.
    fn fileno(&self) -> i32 {
        self.pipe.as_raw_fd()
    }

    /// For loops without `add_reader`: `wake` is called, from any thread, when `drain` has something to do.
    fn wake_with(&self, wake: Py<PyAny>) {
        let _already_set = self.mailbox.wake.set(wake);
    }

    /// Resolves every future that is due. Runs in the loop's thread.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        if self.mailbox.wake.get().is_none() {
            (&self.pipe).read_exact(&mut [0])?;
        }
        let events = std::mem::take(&mut *lock(&self.mailbox.events));
        for (id, event) in events {
            match event {
                Event::Tick => self.tick(py, id)?,
                Event::Many(deliver) => deliver(py)?,
                Event::Done(result) => {
                    let waiting = lock(&self.waiting).1.remove(&id);
                    if let Some(waiting) = waiting {
                        resolve(py, &waiting.future, |py| result?(py))?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn resolve<'py>(
    py: Python<'py>,
    future: &Py<PyAny>,
    result: impl FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<()> {
    let future = future.bind(py);
    // Cancelled meanwhile: the result is dropped as it is, which gives fetched messages back.
    if future.call_method0("done")?.is_truthy()? {
        return Ok(());
    }
    match result(py) {
        Ok(value) => future.call_method1("set_result", (value,))?,
        Err(err) => future.call_method1("set_exception", (err.into_value(py),))?,
    };
    Ok(())
}

/// Text of a panic, for the exception that it becomes.
pub fn panicked(panic: Box<dyn std::any::Any + Send>) -> JetError {
    let text =
        panic.downcast_ref::<&str>().map(|s| (*s).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
    JetError::Internal(text.unwrap_or_else(|| "panic".into()))
}
