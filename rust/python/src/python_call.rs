//! Calls into Python with the GIL held.

use pyo3::prelude::*;

use runtime::finalization::PythonCall;

/// Begins a call with the GIL held. Once the interpreter finalizes in another thread this thread sleeps for ever, as Python
/// 3.14 makes threads that wait for the GIL.
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
