//! A call: work that is started at most once, and that a coroutine awaits through a bridge or a thread waits for.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{join, join_all};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::task::AbortHandle;

use crate::bridge::{Bridge, Event, Mailbox, Progress, Reply};
use crate::connect::Connection;
use crate::convert::seconds;
use crate::error::PyResult;
use crate::python_call::{begin_call, create_future};
use base::error::{JetError, Result};
use base::lock::lock;
use base::panics::caught;
use runtime::foreign;
use runtime::task::{Spot, spawn, weak_spot};

/// Minimum time between two progress reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

type Work = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;

fn reply(wrap: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send + 'static) -> Reply {
    Box::new(wrap)
}

/// Work that is started at most once.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Call {
    work: Mutex<Option<Work>>,
    abort: Mutex<Option<AbortHandle>>,
    progress: Option<Arc<Progress>>,
    bulk: bool,
    /// Called before the work is cancelled.
    ending: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Call {
    /// Creates a call. `work` runs without Python; `wrap` converts its result into an object.
    pub fn new<T: Send + 'static>(
        work: impl Future<Output = Result<T>> + Send + 'static,
        wrap: impl for<'py> FnOnce(Python<'py>, T) -> PyResult<Bound<'py, PyAny>> + Send + 'static,
    ) -> Self {
        let work = async move {
            weak_spot(Spot::Call);
            let value = work.await?;
            Ok(reply(move |py| caught(|| wrap(py, value))?))
        };
        Call {
            work: Mutex::new(Some(Box::pin(work))),
            abort: Mutex::default(),
            progress: None,
            bulk: false,
            ending: None,
        }
    }

    /// Creates a call whose result is None.
    pub fn unit(work: impl Future<Output = Result<()>> + Send + 'static) -> Self {
        Call::new(work, |py, ()| Ok(py.None().into_bound(py)))
    }

    /// Marks a call that receives many messages: an idle loop's thread receives them itself.
    pub fn bulk(mut self) -> Self {
        self.bulk = true;
        self
    }

    pub fn is_bulk(&self) -> bool {
        self.bulk
    }

    /// Sets a function that is called before a cancellation.
    pub fn before_cancel(mut self, ending: impl Fn() + Send + Sync + 'static) -> Self {
        self.ending = Some(Box::new(ending));
        self
    }

    /// Sets the progress function.
    pub fn with_progress(mut self, progress: Option<Progress>) -> Self {
        self.progress = progress.map(Arc::new);
        self
    }

    fn take_work(&self) -> PyResult<Work> {
        Ok(lock(&self.work).take().ok_or_else(|| PyRuntimeError::new_err("a call can be started only once"))?)
    }
}

#[pymethods]
impl Call {
    /// Starts the work and returns the future of `loop` that `bridge` resolves.
    fn start<'py>(&self, event_loop: &Bound<'py, PyAny>, bridge: &Bridge) -> PyResult<Bound<'py, PyAny>> {
        let mut work = self.take_work()?;
        let future = create_future(event_loop)?;
        let progress = self.progress.clone();
        let ticks = progress.is_some();
        bridge.register(future.clone().unbind(), progress, |id| {
            let mailbox = bridge.mailbox.clone();
            let failed = move |error| mailbox.push(id, Event::Done(Err(error)));
            // Created here, because the task can be cancelled before it has begun.
            let outcome = Outcome { mailbox: bridge.mailbox.clone(), id, told: false };
            let work = async move {
                let outcome = outcome;
                let done = if ticks {
                    loop {
                        match tokio::time::timeout(REPORT_INTERVAL, work.as_mut()).await {
                            Ok(done) => break done,
                            Err(_) => outcome.mailbox.push(id, Event::Tick),
                        }
                    }
                } else {
                    work.await
                };
                outcome.tell(done);
            };
            let task = spawn(work, failed)?.abort_handle();
            *lock(&self.abort) = Some(task.clone());
            Ok(task)
        })?;
        Ok(future)
    }

    /// Runs the work while this thread waits with the GIL released. Ctrl-C cancels it.
    fn block<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let work = self.take_work()?;
        let tick = |py: Python<'_>| self.progress.as_ref().map_or(Ok(()), |progress| progress.tell(py));
        let done = crate::block_on::block_on(py, work, tick);
        let _call = begin_call(py);
        foreign::release();
        if done.is_err() {
            self.ending.iter().for_each(|ending| ending());
        }
        done??(py)
    }

    /// Cancels work that was started. The caller cancels its future.
    fn cancel(&self) {
        if let Some(abort) = lock(&self.abort).take() {
            self.ending.iter().for_each(|ending| ending());
            abort.abort();
        }
    }
}

/// Reports the outcome of a call, even if its task is cancelled. Otherwise the bridge would keep the future.
struct Outcome {
    mailbox: Arc<Mailbox>,
    id: u64,
    told: bool,
}

impl Outcome {
    fn tell(mut self, done: Result<Reply>) {
        self.told = true;
        self.mailbox.push(self.id, Event::Done(done));
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        // After a panic the task reports the panic's text.
        if !self.told && !std::thread::panicking() {
            self.mailbox.push(self.id, Event::Done(Err(JetError::Internal("the call was cancelled".into()))));
        }
    }
}

/// Waits at the end of the process until the servers have received all data of these and of dropped connections.
///
/// Waits at most `timeout` seconds, and only while there is progress. None if there is nothing to wait for.
#[pyfunction]
pub fn last_words(connections: Vec<Bound<'_, Connection>>, timeout: f64) -> PyResult<Option<Call>> {
    let timeout = seconds("timeout", timeout)?;
    runtime::ending();
    // A forked child has inherited data that its parent sends.
    let ours: Vec<_> = connections.iter().filter_map(|connection| connection.get().get().ok()).collect();
    if ours.is_empty() && !runtime::any_lingering() {
        return Ok(None);
    }
    let work = async move {
        let settled = join_all(ours.iter().map(|connection| connection.settle()));
        let _given_up = tokio::time::timeout(timeout, join(settled, runtime::lingering())).await;
        Ok(())
    };
    Ok(Some(Call::unit(work)))
}

/// Number of native tasks of this process that have not ended, for tests of leaks.
#[pyfunction]
pub fn alive_tasks() -> PyResult<usize> {
    Ok(runtime::handle()?.metrics().num_alive_tasks())
}

/// Makes the next task panic at this place, for tests. Debug builds only.
#[cfg(debug_assertions)]
#[pyfunction]
pub fn force_panic(spot: &str) -> PyResult<()> {
    Ok(runtime::task::forced::arm(spot)?)
}
