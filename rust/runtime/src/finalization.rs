//! The end of the interpreter, as seen by threads that call into Python.
//!
//! A thread that waits for the GIL while the interpreter finalizes is ended in place (`pthread_exit`, before Python 3.14),
//! by unwinding through the frames below: through those of Rust that ends the process with SIGABRT or SIGSEGV. So native
//! code that runs Python's code counts its calls, the exit hook waits for those under way, and later ones do not begin.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

static ENDED: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// The thread that finalizes. Exit hooks of the user may still call us there.
static LAST: OnceLock<ThreadId> = OnceLock::new();

/// A call into Python that the end of the interpreter waits for.
pub struct PythonCall(());

impl PythonCall {
    /// `None` once the interpreter is about to finalize in another thread.
    pub fn begin() -> Option<Self> {
        CALLS.fetch_add(1, SeqCst);
        let call = PythonCall(());
        let last = || LAST.get() == Some(&std::thread::current().id());
        (!ENDED.load(SeqCst) || last()).then_some(call)
    }
}

impl Drop for PythonCall {
    fn drop(&mut self) {
        CALLS.fetch_sub(1, SeqCst);
    }
}

/// True once the interpreter is about to finalize.
pub fn has_begun() -> bool {
    ENDED.load(SeqCst)
}

/// Begins the end of the interpreter, in the thread that finalizes it: waits for calls into Python that are under way, at
/// most for `patience`.
pub fn begin(patience: Duration) {
    let _only_once = LAST.set(std::thread::current().id());
    ENDED.store(true, SeqCst);
    let begun = Instant::now();
    while CALLS.load(SeqCst) > 0 && begun.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// To be called in a forked child, where the calls of its parent do not end.
pub fn forked() {
    CALLS.store(0, SeqCst);
}
