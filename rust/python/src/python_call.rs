//! Calls into Python with the GIL held.
//!
//! Python code can lose the GIL, and a thread that loses it during finalization is ended below our frames. So a native
//! method that calls code of the user, of an event loop or of a producer of Arrow data counts that call.

use pyo3::intern;
use pyo3::prelude::*;

use runtime::finalization::PythonCall;

use crate::error::PyResult;

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

/// Calls `event_loop.create_future()`.
pub fn create_future<'py>(event_loop: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let _call = begin_call(event_loop.py());
    Ok(event_loop.call_method0(intern!(event_loop.py(), "create_future"))?)
}

/// Calls `event_loop.call_soon(callback)`.
pub fn call_soon(event_loop: &Bound<'_, PyAny>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
    let _call = begin_call(event_loop.py());
    Ok(event_loop.call_method1(intern!(event_loop.py(), "call_soon"), (callback,)).map(drop)?)
}
