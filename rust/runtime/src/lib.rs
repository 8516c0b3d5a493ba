//! The tokio runtime: made at first use, one per process, never used across a fork. Beside it: tasks whose panics become
//! errors, memory that its owner must release, and the end of the interpreter.
//!
//! May use `base`; knows no NATS and no Python. Begin at [`handle`] and [`task::spawn`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use drive::Driver;
use tokio::task::JoinHandle;

use crate::task::spawn;
use base::error::{JetError, Result};
use base::lock::lock;

mod drive;
pub mod finalization;
pub mod foreign;
pub mod task;

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
    driver: Arc<Driver>,
    /// Work that only the end of the process waits for.
    lingering: Mutex<Vec<JoinHandle<()>>>,
}

// Lock-free, so that a fork in another thread cannot leave a lock held in the child.
static CURRENT: LazyLock<ArcSwapOption<Stamped>> = LazyLock::new(ArcSwapOption::empty);

/// Waits in this thread, and drives the runtime meanwhile; None where `patience` is over before.
pub fn visit<T>(work: impl Future<Output = T>, patience: Duration) -> Result<Option<T>> {
    Ok(current()?.driver.visit(work, patience))
}

/// A handle on this process's runtime; starts it where there is none yet.
pub fn handle() -> Result<tokio::runtime::Handle> {
    current().map(|current| current.driver.runtime.handle().clone())
}

fn current() -> Result<Arc<Stamped>> {
    let generation = generation();
    loop {
        let current = CURRENT.load_full();
        if let Some(stamped) = &current
            && stamped.generation == generation
        {
            return Ok(stamped.clone());
        }
        // Its thread is there before anybody can count on it. One that another thread was quicker than is not needed.
        let driver = Driver::start()?;
        let fresh = Stamped { generation, driver: driver.clone(), lingering: Mutex::default() };
        let previous = CURRENT.compare_and_swap(&current, Some(Arc::new(fresh)));
        if previous.as_ref().map(Arc::as_ptr) != current.as_ref().map(Arc::as_ptr) {
            driver.end();
        }
        // Threads of a parent's runtime do not exist in a child: dropping it would wait for them for ever.
        if let Some(inherited) = current.filter(|s| s.generation != generation) {
            std::mem::forget(inherited);
            std::mem::forget(arc_swap::Guard::into_inner(previous));
        }
    }
}

/// A server that takes and says nothing for this long is given up by what wants to end.
const STALL: Duration = Duration::from_secs(2);
/// The same at the end of the process, which has one second after Ctrl-C.
const LAST_STALL: Duration = Duration::from_millis(300);

static ENDING: AtomicBool = AtomicBool::new(false);

/// The process is about to end: from now on `stall` is short.
pub fn ending() {
    ENDING.store(true, Ordering::Relaxed);
}

/// How long to wait for something that does not move.
pub fn stall() -> Duration {
    if ENDING.load(Ordering::Relaxed) { LAST_STALL } else { STALL }
}

/// Starts work that goes on where its owner is gone; `lingering` waits for it.
pub fn linger(work: impl Future<Output = ()> + Send + 'static) {
    let (Ok(current), Ok(task)) = (current(), spawn(work, |_nobody_waits| ())) else { return };
    let mut lingering = lock(&current.lingering);
    lingering.retain(|task| !task.is_finished());
    lingering.push(task);
}

/// What lingers now, and is to be waited for.
fn take_lingering() -> Vec<JoinHandle<()>> {
    // Nothing is started for it, and a parent's tasks do not run in its child.
    let current = CURRENT.load_full().filter(|current| current.generation == generation());
    current.map_or_else(Vec::new, |current| std::mem::take(&mut *lock(&current.lingering)))
}

/// True where there is such work.
pub fn any_lingering() -> bool {
    let current = CURRENT.load_full().filter(|current| current.generation == generation());
    current.is_some_and(|current| !lock(&current.lingering).is_empty())
}

/// Waits for all such work, and for what it starts.
pub async fn lingering() {
    loop {
        let tasks = take_lingering();
        if tasks.is_empty() {
            return;
        }
        for task in tasks {
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
