//! Python inputs into rows: references to the objects' bytes, taken once with the GIL held, read later without it.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::engine::rows::{Headers, Payloads, Rows, Subjects, Texts};
use crate::py::headers;

/// One payload. `bytes` and `str` cannot change, so a reference does; anything else is copied.
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
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return Ok(Cell::Bytes(bytes.clone().into()));
        }
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Cell::Text(text.clone().try_into()?));
        }
        let buffer = PyBuffer::<u8>::get(value).map_err(|_| {
            PyTypeError::new_err(format!("a payload must be bytes-like or str, not {}", type_name(value)))
        })?;
        Ok(Cell::Copied(buffer.to_vec(value.py())?))
    }
}

struct Cells(Vec<Cell>);

impl Payloads for Cells {
    fn get(&self, row: usize) -> Option<&[u8]> {
        self.0.get(row).map(Cell::as_slice)
    }
}

struct Strings(Vec<Option<PyBackedStr>>);

impl Texts for Strings {
    fn get(&self, row: usize) -> Option<&str> {
        self.0.get(row)?.as_deref()
    }
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "an object".into(), |name| name.to_string())
}

/// A sequence of strings, one per row.
fn strings(what: &str, values: &Bound<'_, PyAny>, rows: usize, nulls: bool) -> PyResult<Strings> {
    let mut strings = Vec::with_capacity(rows);
    for (row, value) in values.try_iter()?.enumerate() {
        let value = value?;
        if value.is_none() && nulls {
            strings.push(None);
            continue;
        }
        let text = value
            .cast::<PyString>()
            .map_err(|_| PyTypeError::new_err(format!("{what}[{row}] must be str, not {}", type_name(&value))))?;
        strings.push(Some(text.clone().try_into()?));
    }
    same_length(what, strings.len(), rows)?;
    Ok(Strings(strings))
}

fn same_length(what: &str, found: usize, rows: usize) -> PyResult<()> {
    if found == rows {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{what} has {found} entries, payloads has {rows}")))
}

fn header_rows(headers: Option<&Bound<'_, PyAny>>, rows: usize) -> PyResult<Headers> {
    let Some(headers) = headers else { return Ok(Headers::None) };
    if let Ok(dict) = headers.cast::<PyDict>() {
        return Ok(Headers::One(headers::from_python(dict)?));
    }
    let mut maps = Vec::with_capacity(rows);
    for (row, value) in headers.try_iter()?.enumerate() {
        let value = value?;
        maps.push(match value.cast::<PyDict>() {
            _ if value.is_none() => None,
            Ok(dict) => Some(headers::from_python(dict)?),
            Err(_) => {
                let found = type_name(&value);
                return Err(PyTypeError::new_err(format!("headers[{row}] must be a dict or None, not {found}")));
            }
        });
    }
    same_length("headers", maps.len(), rows)?;
    Ok(Headers::Each(maps))
}

/// Rows of a sequence, every one looked at, nothing sent.
pub fn rows(
    subject: &Bound<'_, PyAny>,
    payloads: &Bound<'_, PyAny>,
    headers: Option<&Bound<'_, PyAny>>,
    msg_ids: Option<&Bound<'_, PyAny>>,
    expected_stream: Option<String>,
) -> PyResult<Rows> {
    let single = payloads.is_instance_of::<PyString>() || PyBuffer::<u8>::get(payloads).is_ok();
    if single || payloads.is_none() {
        return Err(PyTypeError::new_err(format!(
            "payloads must be a sequence of bytes-like or str, not {}; for one message use publish()",
            type_name(payloads)
        )));
    }
    let mut cells = Vec::with_capacity(payloads.len().unwrap_or(0));
    for (row, value) in payloads.try_iter()?.enumerate() {
        let value = value?;
        cells.push(Cell::new(&value).map_err(|err| {
            if err.is_instance_of::<PyTypeError>(value.py()) {
                PyTypeError::new_err(format!("payloads[{row}] must be bytes-like or str, not {}", type_name(&value)))
            } else {
                err
            }
        })?);
    }
    let len = cells.len();
    let subjects = match subject.cast::<PyString>() {
        Ok(one) => Subjects::One(one.to_str()?.into()),
        Err(_) => Subjects::Each(Box::new(strings("subject", subject, len, false)?)),
    };
    let msg_ids = match msg_ids {
        None => None,
        Some(ids) => Some(Box::new(strings("msg_ids", ids, len, true)?) as Box<dyn Texts>),
    };
    Ok(Rows {
        len,
        subjects,
        payloads: Box::new(Cells(cells)),
        msg_ids,
        headers: header_rows(headers, len)?,
        expected_stream: expected_stream.map(Arc::from),
    })
}
