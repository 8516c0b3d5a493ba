//! The tokio runtime: made at first use, one per process, never used across a fork.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use arc_swap::ArcSwapOption;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::error::{JetError, Result};
use crate::lock::lock;
use crate::task::spawn;

/// One thread does all: on two cores shared with a server, handing messages to a second one costs more than it gains.
const WORKERS: usize = 1;

/// How often this process is a forked child. A counter, because asking the system for the process id costs a call
/// each time; Python calls `forked` in the child, before anything else runs there.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// To be called in a forked child.
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

struct Stamped {
    generation: u32,
    runtime: Runtime,
}

// Lock-free, so that a fork in another thread cannot leave a lock held in the child.
static CURRENT: LazyLock<ArcSwapOption<Stamped>> = LazyLock::new(ArcSwapOption::empty);

/// A handle on this process's runtime; starts it where there is none yet.
pub fn handle() -> Result<tokio::runtime::Handle> {
    let generation = generation();
    loop {
        let current = CURRENT.load_full();
        if let Some(stamped) = &current
            && stamped.generation == generation
        {
            return Ok(stamped.runtime.handle().clone());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("jetarrow")
            .enable_all()
            .build()
            .map_err(|e| JetError::Internal(format!("cannot start threads: {e}")))?;
        let fresh = Some(Arc::new(Stamped { generation, runtime }));
        let previous = CURRENT.compare_and_swap(&current, fresh);
        // Threads of a parent's runtime do not exist in a child: dropping it would wait for them for ever.
        if let Some(inherited) = current.filter(|s| s.generation != generation) {
            std::mem::forget(inherited);
            std::mem::forget(arc_swap::Guard::into_inner(previous));
        }
    }
}

/// Work that only the end of the process waits for.
static LINGERING: Mutex<Vec<(u32, JoinHandle<()>)>> = Mutex::new(Vec::new());

/// Starts work that goes on where its owner is gone; `lingering` waits for it.
pub fn linger(work: impl Future<Output = ()> + Send + 'static) {
    let Ok(task) = spawn(work, |_nobody_waits| ()) else { return };
    let mut lingering = lock(&LINGERING);
    lingering.retain(|(_, task)| !task.is_finished());
    lingering.push((generation(), task));
}

/// True where there is such work.
pub fn any_lingering() -> bool {
    !lock(&LINGERING).is_empty()
}

/// Waits for all such work, and for what it starts.
pub async fn lingering() {
    loop {
        let tasks = std::mem::take(&mut *lock(&LINGERING));
        if tasks.is_empty() {
            return;
        }
        // A parent's tasks do not run in its child.
        for (_, task) in tasks.into_iter().filter(|(generation, _)| *generation == self::generation()) {
            let _cut_off = task.await;
        }
    }
}

/// Something that only the process that made it may touch: elsewhere `get` fails, and dropping it does nothing.
pub struct Owned<T> {
    generation: u32,
    pid: u32,
    value: Option<T>,
}

impl<T> Owned<T> {
    pub fn new(value: T) -> Self {
        Owned { generation: generation(), pid: std::process::id(), value: Some(value) }
    }

    pub fn get(&self) -> Result<&T> {
        match &self.value {
            Some(value) if self.generation == generation() => Ok(value),
            _ => Err(JetError::Fork { owner: self.pid }),
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.generation != generation() {
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
    use crate::task::spawn;

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
        let panicked = send.clone();
        let work = async move {
            let _nobody_waits = send.send(Ok(future.await));
        };
        let task = spawn(work, move |error| drop(panicked.send(Err(error))))?;
        loop {
            // By exclusive reference: a shared receiver must not cross into the detached part.
            let answer = &mut receive;
            match py.detach(move || answer.recv_timeout(POLL)) {
                Ok(value) => return Ok(value?),
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
