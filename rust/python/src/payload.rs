//! One payload with its headers.

use bytes::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyString};

use crate::convert::{SURROGATE, type_name, utf8};
use crate::error::PyResult;
use crate::python_call::begin_call;
use base::error::{About, JetError};
use wire::nats::HeaderMap;
use wire::size::check_size;

/// One payload. `bytes` and `str` are immutable, so they are referenced.
///
/// All other types are copied, also subclasses: they can have finalizers, which must not run at the place where the
/// payload is dropped.
pub enum Cell {
    Bytes(PyBackedBytes),
    Text(PyBackedStr),
    Copied(Vec<u8>),
}

impl Cell {
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Cell::Bytes(bytes) => bytes,
            Cell::Text(text) => text.as_bytes(),
            Cell::Copied(bytes) => bytes,
        }
    }

    pub fn new(value: &Bound<'_, PyAny>) -> PyResult<Cell> {
        if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            return Ok(Cell::Bytes(bytes.clone().into()));
        }
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Cell::Text(utf8(text, || JetError::Value(format!("a payload of type str: {SURROGATE}")))?));
        }
        // Before Python 3.12 no class in Python can have a buffer.
        let _call = begin_call(value.py());
        let buffer = PyBuffer::<u8>::get(value).map_err(|_| {
            PyTypeError::new_err(format!("a payload must be bytes-like or str, not {}", type_name(value)))
        })?;
        Ok(Cell::Copied(buffer.to_vec(value.py())?))
    }

    /// Sends the object's memory without a copy. Python releases the object when native code next holds the GIL, for a
    /// message with a response not later than with the response.
    pub fn in_place(self) -> Bytes {
        match self {
            Cell::Bytes(bytes) => Bytes::from_owner(bytes),
            Cell::Text(text) => Bytes::from_owner(text),
            Cell::Copied(bytes) => bytes.into(),
        }
    }
}

/// Returns a payload, converted by `sent`, and its headers. Together they are at most `limit` bytes; `what` names them
/// in the error.
pub fn message(
    what: impl FnOnce() -> About,
    payload: &Bound<'_, PyAny>,
    sent: impl FnOnce(Cell) -> Bytes,
    headers: impl FnOnce() -> PyResult<Option<HeaderMap>>,
    limit: usize,
) -> PyResult<(Bytes, Option<HeaderMap>)> {
    let payload = sent(Cell::new(payload)?);
    let headers = headers()?;
    check_size(what, payload.len(), headers.as_ref(), limit)?;
    Ok((payload, headers))
}
