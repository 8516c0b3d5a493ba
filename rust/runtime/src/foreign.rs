//! Memory that Python, or another producer of Arrow data, owns.
//!
//! Releasing it can call back into its owner, and pyarrow's callback takes the GIL. Under one of our locks that is a
//! deadlock, and during finalization it ends the process. So a drop only queues the memory, and `release` drops it in a
//! thread that may take the GIL. Memory that is still queued at finalization is leaked.

use std::sync::Mutex;
use std::time::Duration;

use crate::finalization::{self, PythonCall};
use crate::task::{blocking, spawn};
use base::lock::{self, lock};

static HANDED_OVER: Mutex<Vec<Box<dyn Send>>> = Mutex::new(Vec::new());
/// Time for which memory waits for a thread that has the GIL anyway.
const RELEASE_AFTER: Duration = Duration::from_millis(20);

/// A value that is not dropped in place.
pub struct Foreign<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> Foreign<T> {
    pub fn new(value: T) -> Self {
        Foreign(Some(value))
    }

    pub fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }

    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut()
    }
}

impl<T: Send + 'static> Drop for Foreign<T> {
    fn drop(&mut self) {
        debug_assert_eq!(lock::held(), 0, "foreign memory is dropped under a lock");
        let Some(value) = self.0.take() else { return };
        if finalization::has_begun() {
            return std::mem::forget(value);
        }
        let first = {
            let mut handed_over = lock(&HANDED_OVER);
            handed_over.push(Box::new(value));
            handed_over.len() == 1
        };
        if first {
            // Without a runtime there is no other thread. The next call into native code releases the memory.
            let _no_runtime = spawn(release_later(), |_panicked| ());
        }
    }
}

async fn release_later() {
    tokio::time::sleep(RELEASE_AFTER).await;
    if !lock(&HANDED_OVER).is_empty() {
        let _panicked = blocking(|| PythonCall::begin().map(|_call| release())).await;
    }
}

/// Drops all queued values. For threads that hold the GIL, or may wait for it, within a `PythonCall`.
pub fn release() {
    debug_assert_eq!(lock::held(), 0, "foreign memory is released under a lock");
    let values = std::mem::take(&mut *lock(&HANDED_OVER));
    drop(values);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    struct SentOnDrop(Sender<usize>);

    impl Drop for SentOnDrop {
        fn drop(&mut self) {
            self.0.send(lock::held()).unwrap();
        }
    }

    #[test]
    fn value_is_dropped_later_and_without_locks() {
        let (send, dropped) = channel();
        let mut first = Foreign::new(SentOnDrop(send.clone()));
        assert!(first.get().is_some() && first.get_mut().is_some());
        drop(first);
        let rest = Foreign::new(SentOnDrop(send));
        assert_eq!(dropped.recv(), Ok(0));
        drop(rest);
        assert_eq!(dropped.recv(), Ok(0));
    }

    #[test]
    #[should_panic(expected = "dropped under a lock")]
    fn drop_under_a_lock_panics() {
        let mutex = Mutex::new(());
        let value = Foreign::new(());
        let _guard = lock(&mutex);
        drop(value);
    }
}
