//! The tokio runtime: made at first use, one per process, never used across a fork.

use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwapOption;
use tokio::runtime::Runtime;

use crate::error::{JetError, Result};

/// One thread does all: on two cores shared with a server, handing messages to a second one costs more than it gains.
const WORKERS: usize = 1;

struct Stamped {
    pid: u32,
    runtime: Runtime,
}

// Lock-free, so that a fork in another thread cannot leave a lock held in the child.
static CURRENT: LazyLock<ArcSwapOption<Stamped>> = LazyLock::new(ArcSwapOption::empty);

/// A handle on this process's runtime; starts it where there is none yet.
pub fn handle() -> Result<tokio::runtime::Handle> {
    let pid = std::process::id();
    loop {
        let current = CURRENT.load_full();
        if let Some(stamped) = &current
            && stamped.pid == pid
        {
            return Ok(stamped.runtime.handle().clone());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("jetarrow")
            .enable_all()
            .build()
            .map_err(|e| JetError::Internal(format!("cannot start threads: {e}")))?;
        let fresh = Some(Arc::new(Stamped { pid, runtime }));
        let previous = CURRENT.compare_and_swap(&current, fresh);
        // Threads of a parent's runtime do not exist in a child: dropping it would wait for them for ever.
        if let Some(inherited) = current.filter(|s| s.pid != pid) {
            std::mem::forget(inherited);
            std::mem::forget(arc_swap::Guard::into_inner(previous));
        }
    }
}

/// Something that only the process that made it may touch: elsewhere `get` fails, and dropping it does nothing.
pub struct Owned<T> {
    pid: u32,
    value: Option<T>,
}

impl<T> Owned<T> {
    pub fn new(value: T) -> Self {
        Owned { pid: std::process::id(), value: Some(value) }
    }

    pub fn get(&self) -> Result<&T> {
        match &self.value {
            Some(value) if self.pid == std::process::id() => Ok(value),
            _ => Err(JetError::Fork { owner: self.pid }),
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            // Its tasks and locks live in the parent.
            std::mem::forget(self.value.take());
        }
    }
}

#[cfg(feature = "python")]
pub use python::block_on;

#[cfg(feature = "python")]
mod python {
    use std::future::Future;
    use std::sync::mpsc::{RecvTimeoutError, sync_channel};
    use std::time::Duration;

    use pyo3::prelude::*;

    use crate::error::JetError;

    /// How long a signal may wait while native code blocks.
    const POLL: Duration = Duration::from_millis(50);

    /// The only place that blocks: waits with the GIL released, and lets Ctrl-C and the caller's `tick` in every 50 ms.
    /// An error from either ends the work. The work itself runs beside the connection, not in this thread: a message
    /// that changes threads costs more than all the rest.
    pub fn block_on<T: Send + 'static>(
        py: Python<'_>,
        future: impl Future<Output = T> + Send + 'static,
        mut tick: impl FnMut(Python<'_>) -> PyResult<()>,
    ) -> PyResult<T> {
        let (send, mut receive) = sync_channel(1);
        let task = super::handle()?.spawn(async move {
            let _nobody_waits = send.send(future.await);
        });
        loop {
            // By exclusive reference: a shared receiver must not cross into the detached part.
            let answer = &mut receive;
            match py.detach(move || answer.recv_timeout(POLL)) {
                Ok(value) => return Ok(value),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(err) = py.check_signals().and_then(|()| tick(py)) {
                        task.abort();
                        return Err(err);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(JetError::Internal("the work was dropped".into()).into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_runtime_serves_all_threads() {
        let ids: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| super::handle().map(|h| h.id())))
            .filter_map(|t| t.join().ok())
            .collect();
        assert_eq!(ids.len(), 4);
        assert!(ids.windows(2).all(|w| w[0] == w[1]));
    }
}
