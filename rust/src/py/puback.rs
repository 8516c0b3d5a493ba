//! Acks of stored messages as `PubAck`, Python's class.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::engine::publish::puback::PubAck;
use crate::python_names::{JS_API, import};

/// `PubAck(stream, seq)` without its `__init__`: the other fields are class attributes until they are set.
pub fn build<'py>(
    py: Python<'py>,
    stream: &str,
    domain: Option<&str>,
    seq: u64,
    duplicate: bool,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || import(py, JS_API, "PubAck").map(Bound::unbind))?.bind(py);
    let ack = class.call_method1(intern!(py, "__new__"), (class,))?;
    ack.setattr(intern!(py, "stream"), stream)?;
    ack.setattr(intern!(py, "seq"), seq)?;
    if duplicate {
        ack.setattr(intern!(py, "duplicate"), true)?;
    }
    if let Some(domain) = domain {
        ack.setattr(intern!(py, "domain"), domain)?;
    }
    Ok(ack)
}

/// The whole ack, with what only some of them say.
pub fn build_in_full(py: Python<'_>, ack: PubAck) -> PyResult<Bound<'_, PyAny>> {
    let built = build(py, &ack.stream, ack.domain.as_deref(), ack.seq, ack.duplicate)?;
    if let Some(batch) = ack.batch {
        built.setattr(intern!(py, "batch_id"), batch)?;
    }
    if let Some(count) = ack.count {
        built.setattr(intern!(py, "batch_size"), count)?;
    }
    if let Some(val) = ack.val {
        built.setattr(intern!(py, "val"), val)?;
    }
    Ok(built)
}
