//! Locks that survive a panic.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(debug_assertions)]
thread_local! {
    static HELD: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A held lock. Debug builds count the held locks of each thread, to assert that none is held when foreign memory is
/// dropped.
pub struct Guard<'a, T>(MutexGuard<'a, T>);

/// Locks the mutex, also after a panic of another holder: the data behind these locks is consistent at every step.
pub fn lock<T>(mutex: &Mutex<T>) -> Guard<'_, T> {
    let guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    #[cfg(debug_assertions)]
    HELD.with(|held| held.set(held.get() + 1));
    Guard(guard)
}

/// Number of locks that this thread holds. Always 0 in release builds.
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
