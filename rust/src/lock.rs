//! Locks that outlive a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A panic elsewhere must not make every later call fail: the data behind our locks is whole at every step.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
