//! Driver of the runtime: a Python thread that waits for a result, or else a thread of the driver's own.
//!
//! A result that changes threads costs more than the rest of a short round trip: two system calls and two context
//! switches. So a waiting thread runs the connection itself. The driver's own thread stays parked while such calls
//! follow each other. Only one thread drives at a time; tokio moves the role to one of the others.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::Notify;

use base::error::{JetError, Result};

/// Time for which the driver's own thread stays parked after a short call, and the maximum delay of data that is queued
/// meanwhile. A longer call unparks it at once.
const PARK_TIMEOUT: Duration = Duration::from_millis(1);

/// A single-threaded runtime and the state of its driving threads.
pub struct Driver {
    pub runtime: Runtime,
    /// Number of threads that wait in [`Driver::visit`].
    guests: AtomicUsize,
    /// Number of visits that have ended.
    gone: AtomicU64,
    /// The last visit may have left work behind.
    hurry: AtomicBool,
    /// The driver's own thread drives the runtime.
    inside: AtomicBool,
    wanted: Notify,
    thread: OnceLock<Thread>,
    ended: AtomicBool,
}

impl Driver {
    /// Creates a runtime and its own thread.
    pub fn start() -> Result<Arc<Self>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .thread_name("jetarrow")
            .enable_all()
            .build()
            .map_err(|e| JetError::Internal(format!("could not start a runtime: {e}")))?;
        let driver = Arc::new(Driver {
            runtime,
            guests: AtomicUsize::new(0),
            gone: AtomicU64::new(0),
            hurry: AtomicBool::new(false),
            inside: AtomicBool::new(false),
            wanted: Notify::new(),
            thread: OnceLock::new(),
            ended: AtomicBool::new(false),
        });
        let own = driver.clone();
        let thread = std::thread::Builder::new()
            .name("jetarrow".into())
            .spawn(move || own.host())
            .map_err(|e| JetError::Internal(format!("could not start a thread: {e}")))?;
        let _only_once = driver.thread.set(thread.thread().clone());
        Ok(driver)
    }

    /// Ends the driver's own thread, which otherwise ends with the process.
    pub fn end(&self) {
        self.ended.store(true, SeqCst);
        self.wanted.notify_one();
    }

    fn host(&self) {
        while !self.ended.load(SeqCst) {
            self.inside.store(true, SeqCst);
            self.runtime.block_on(self.wanted.notified());
            self.inside.store(false, SeqCst);
            loop {
                let gone = self.gone.load(SeqCst);
                std::thread::park_timeout(PARK_TIMEOUT);
                let hurry = self.hurry.swap(false, SeqCst);
                if self.guests.load(SeqCst) == 0 && (hurry || self.gone.load(SeqCst) == gone) {
                    break;
                }
            }
        }
    }

    /// Waits for `work` in this thread, and drives the runtime meanwhile. `None` if `max_wait` elapses first.
    pub fn visit<T>(&self, work: impl Future<Output = T>, max_wait: Duration) -> Option<T> {
        let begin = Instant::now();
        let done = {
            let _guest = Guest::new(self);
            self.runtime.block_on(async { tokio::time::timeout(max_wait, work).await.ok() })
        };
        // After a long wait the runtime can have more work than this thread waited for.
        if done.is_none() || begin.elapsed() > PARK_TIMEOUT {
            self.hurry.store(true, SeqCst);
            self.thread.get().inspect(|thread| thread.unpark());
        }
        done
    }
}

/// A thread in [`Driver::visit`].
struct Guest<'a>(&'a Driver);

impl<'a> Guest<'a> {
    fn new(driver: &'a Driver) -> Self {
        driver.guests.fetch_add(1, SeqCst);
        if driver.inside.load(SeqCst) {
            driver.wanted.notify_one();
        }
        Guest(driver)
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.0.gone.fetch_add(1, SeqCst);
        self.0.guests.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[allow(clippy::disallowed_methods)]
    fn hops(driver: &Arc<Driver>) -> impl Future<Output = thread::ThreadId> + use<> {
        let task = driver.runtime.spawn(async {
            tokio::task::yield_now().await;
            thread::current().id()
        });
        async move { task.await.unwrap() }
    }

    #[test]
    fn waiting_thread_drives_the_runtime_and_otherwise_the_own_thread() {
        let driver = Driver::start().unwrap();
        let long = Duration::from_secs(60);
        let me = thread::current().id();
        // In the first visits the other thread may still drive.
        let seen: Vec<_> = (0..50).map(|_| driver.visit(hops(&driver), long).unwrap()).collect();
        assert!(seen.contains(&me), "{seen:?}");
        let (send, done) = channel();
        let work = hops(&driver);
        #[allow(clippy::disallowed_methods)]
        driver.runtime.spawn(async move { send.send(work.await).unwrap() });
        assert_ne!(done.recv_timeout(long).unwrap(), me);
        assert_eq!(driver.guests.load(SeqCst), 0);
    }

    #[test]
    fn work_continues_after_the_wait_elapses() {
        let driver = Driver::start().unwrap();
        let (send, heard) = channel();
        let never = async {
            std::future::pending::<()>().await;
        };
        #[allow(clippy::disallowed_methods)]
        driver.runtime.spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            send.send(()).unwrap();
        });
        assert_eq!(driver.visit(never, Duration::from_millis(1)), None);
        heard.recv_timeout(Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn many_threads_can_wait_at_once() {
        let driver = Driver::start().unwrap();
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let driver = driver.clone();
                thread::spawn(move || {
                    for _ in 0..500 {
                        driver.visit(hops(&driver), Duration::from_secs(60)).unwrap();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(driver.gone.load(SeqCst), 4_000);
    }

    #[test]
    fn end_ends_the_own_thread() {
        let driver = Driver::start().unwrap();
        driver.end();
        while Arc::strong_count(&driver) > 1 {
            thread::yield_now();
        }
    }
}
