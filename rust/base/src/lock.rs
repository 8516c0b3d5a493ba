//! Locks that outlive a panic.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(debug_assertions)]
thread_local! {
    static HELD: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A held lock. Debug builds count those of a thread: foreign memory is never dropped under one.
pub struct Guard<'a, T>(MutexGuard<'a, T>);

/// A panic elsewhere must not make every later call fail: the data behind our locks is whole at every step.
pub fn lock<T>(mutex: &Mutex<T>) -> Guard<'_, T> {
    let guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    #[cfg(debug_assertions)]
    HELD.with(|held| held.set(held.get() + 1));
    Guard(guard)
}

/// Locks that this thread holds; 0 in release builds.
pub fn held() -> usize {
    #[cfg(debug_assertions)]
    return HELD.try_with(std::cell::Cell::get).unwrap_or(0);
    #[cfg(not(debug_assertions))]
    0
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cfg(debug_assertions)]
impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        let _thread_is_over = HELD.try_with(|held| held.set(held.get() - 1));
    }
}
