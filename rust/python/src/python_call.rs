//! Calls into Python with the GIL held.

use pyo3::prelude::*;

use runtime::finalization::PythonCall;

/// Begins a call with the GIL held. If another thread finalizes the interpreter, this thread sleeps forever, as Python
/// 3.14 does with threads that wait for the GIL.
pub fn begin_call(py: Python<'_>) -> PythonCall {
    match PythonCall::begin() {
        Some(call) => call,
        None => py.detach(|| {
            loop {
                std::thread::park();
            }
        }),
    }
}
