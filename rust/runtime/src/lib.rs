//! The tokio runtime: created at first use, one per process, and unusable after a fork.
//!
//! This crate also has tasks whose panics become errors, memory that its owner must release, and the finalization of
//! the interpreter. Uses `base` only, and has no NATS and no Python types. Begin at [`handle`] and [`task::spawn`].
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

/// Number of forks between this process and the first one. Python calls `forked` in the child before any other code. A
/// counter is cheaper than a system call for the process id.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Records a fork, in the child.
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// The runtime of one process, with the generation of that process.
struct Stamped {
    generation: u32,
    driver: Arc<Driver>,
    /// Work that only the end of the process waits for.
    lingering: Mutex<Vec<JoinHandle<()>>>,
}

// Lock-free, so a fork in another thread cannot leave a held lock in the child.
static CURRENT: LazyLock<ArcSwapOption<Stamped>> = LazyLock::new(ArcSwapOption::empty);

/// Waits for `work` in this thread, and drives the runtime meanwhile. `None` if `max_wait` elapses first.
pub fn visit<T>(work: impl Future<Output = T>, max_wait: Duration) -> Result<Option<T>> {
    Ok(current()?.driver.visit(work, max_wait))
}

/// Returns a handle of this process's runtime, and starts the runtime if necessary.
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
        // The thread starts before another thread can use the runtime. If another thread was faster, this runtime is
        // discarded.
        let driver = Driver::start()?;
        let fresh = Stamped { generation, driver: driver.clone(), lingering: Mutex::default() };
        let previous = CURRENT.compare_and_swap(&current, Some(Arc::new(fresh)));
        if previous.as_ref().map(Arc::as_ptr) != current.as_ref().map(Arc::as_ptr) {
            driver.end();
        }
        // Threads of the parent's runtime do not exist in the child, so dropping it would wait for them forever.
        if let Some(inherited) = current.filter(|s| s.generation != generation) {
            std::mem::forget(inherited);
            std::mem::forget(arc_swap::Guard::into_inner(previous));
        }
    }
}

/// Time after which a shutdown gives up on a server that neither reads nor writes.
const STALL_LIMIT: Duration = Duration::from_secs(2);
/// The same at the end of the process, which has one second after Ctrl-C.
const LAST_STALL: Duration = Duration::from_millis(300);

static ENDING: AtomicBool = AtomicBool::new(false);

/// Records that the process is about to end, so that [`stall`] is short.
pub fn ending() {
    ENDING.store(true, Ordering::Relaxed);
}

/// Returns how long to wait for a connection without progress.
pub fn stall() -> Duration {
    if ENDING.load(Ordering::Relaxed) { LAST_STALL } else { STALL_LIMIT }
}

/// Starts work that continues after its owner is dropped. [`lingering`] waits for it.
pub fn linger(work: impl Future<Output = ()> + Send + 'static) {
    let (Ok(current), Ok(task)) = (current(), spawn(work, |_nobody_waits| ())) else { return };
    let mut lingering = lock(&current.lingering);
    lingering.retain(|task| !task.is_finished());
    lingering.push(task);
}

/// Takes the lingering tasks, to wait for them.
fn take_lingering() -> Vec<JoinHandle<()>> {
    // Does not start a runtime. The parent's tasks do not run in a child.
    let current = CURRENT.load_full().filter(|current| current.generation == generation());
    current.map_or_else(Vec::new, |current| std::mem::take(&mut *lock(&current.lingering)))
}

/// True if there is lingering work.
pub fn any_lingering() -> bool {
    let current = CURRENT.load_full().filter(|current| current.generation == generation());
    current.is_some_and(|current| !lock(&current.lingering).is_empty())
}

/// Waits for all lingering work, and for the work that it starts.
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

/// A value that only the process that created it may use. In a forked child `get` fails, and a drop does nothing.
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
            // The tasks and locks of the value are in the parent.
            std::mem::forget(self.value.take());
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn handle_is_the_same_in_all_threads() {
        let ids: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| super::handle().map(|h| h.id())))
            .filter_map(|t| t.join().ok())
            .collect();
        assert_eq!(ids.len(), 4);
        assert!(ids.windows(2).all(|w| w[0] == w[1]));
    }
}
