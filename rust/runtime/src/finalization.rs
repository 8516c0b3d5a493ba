//! Finalization of the interpreter, for threads that call into Python.
//!
//! Before Python 3.14 a thread that waits for the GIL during finalization is ended in place (`pthread_exit`). This
//! unwinds through its Rust frames, so the process ends with SIGABRT or SIGSEGV. So native code counts its calls into
//! Python. The exit hook waits for calls in progress, and later calls do not begin.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

static ENDED: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// The thread that finalizes. Exit hooks of the user can still call native code there.
static LAST: OnceLock<ThreadId> = OnceLock::new();

/// A call into Python, which delays finalization.
pub struct PythonCall(());

impl PythonCall {
    /// Begins a call; `None` if another thread finalizes the interpreter.
    pub fn begin() -> Option<Self> {
        CALLS.fetch_add(1, SeqCst);
        let call = PythonCall(());
        let last = || LAST.get() == Some(&std::thread::current().id());
        (!ENDED.load(SeqCst) || last()).then_some(call)
    }
}

impl Drop for PythonCall {
    fn drop(&mut self) {
        // A call that forks ends in the child too, which counts from 0.
        let _forked = CALLS.fetch_update(SeqCst, SeqCst, |calls| calls.checked_sub(1));
    }
}

/// True after the exit hook has run.
pub fn has_begun() -> bool {
    ENDED.load(SeqCst)
}

/// Begins finalization, in the thread that finalizes. Waits at most `max_wait` for calls in progress.
pub fn begin(max_wait: Duration) {
    let _only_once = LAST.set(std::thread::current().id());
    ENDED.store(true, SeqCst);
    let begun = Instant::now();
    while CALLS.load(SeqCst) > 0 && begun.elapsed() < max_wait {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Resets the count in a forked child, because the calls of its parent do not end there.
pub fn forked() {
    CALLS.store(0, SeqCst);
}
