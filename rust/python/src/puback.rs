//! Publish acks as objects of Python's class `PubAck`.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

use crate::error::PyResult;
use crate::python_names::{JS_API, import};
use jetstream::publish::puback::{Origin, PubAck};

/// Builder of acks, nearly all of which have the same stream.
#[derive(Default)]
pub struct Acks<'py> {
    last: Option<(Arc<Origin>, Bound<'py, PyString>)>,
}

impl<'py> Acks<'py> {
    pub fn build(
        &mut self,
        py: Python<'py>,
        origin: &Arc<Origin>,
        seq: u64,
        duplicate: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (_, stream) = match self.last.take_if(|(last, _)| Arc::ptr_eq(last, origin)) {
            Some(last) => self.last.insert(last),
            None => self.last.insert((origin.clone(), PyString::new(py, &origin.stream))),
        };
        build(py, stream, origin.domain.as_deref(), seq, duplicate)
    }
}

/// Builds `PubAck(stream, seq)` without its `__init__`. The other fields are class attributes until they are set.
pub fn build<'py>(
    py: Python<'py>,
    stream: &Bound<'py, PyString>,
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

/// Builds an ack with the optional fields.
pub fn build_in_full(py: Python<'_>, ack: PubAck) -> PyResult<Bound<'_, PyAny>> {
    let stream = PyString::new(py, &ack.stream);
    let built = build(py, &stream, ack.domain.as_deref(), ack.seq, ack.duplicate)?;
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
