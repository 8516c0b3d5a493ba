//! Acks of stored messages as `PubAck`, Python's class.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::engine::publish::puback::PubAck;
use crate::python_names::{JS_API, import};

/// `PubAck(stream, seq)` without its `__init__`: the other fields are class attributes until they are set.
pub fn build<'py>(py: Python<'py>, stream: &str, seq: u64, duplicate: bool) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || import(py, JS_API, "PubAck").map(Bound::unbind))?.bind(py);
    let ack = class.call_method1(intern!(py, "__new__"), (class,))?;
    ack.setattr(intern!(py, "stream"), stream)?;
    ack.setattr(intern!(py, "seq"), seq)?;
    if duplicate {
        ack.setattr(intern!(py, "duplicate"), true)?;
    }
    Ok(ack)
}

/// The whole ack, its domain included.
pub fn build_in_full(py: Python<'_>, ack: PubAck) -> PyResult<Bound<'_, PyAny>> {
    let built = build(py, &ack.stream, ack.seq, ack.duplicate)?;
    if let Some(domain) = ack.domain {
        built.setattr(intern!(py, "domain"), domain)?;
    }
    Ok(built)
}
