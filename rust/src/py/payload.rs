//! Python inputs into rows: references to the objects' bytes, taken once with the GIL held, read later without it.

use std::sync::Arc;

use async_nats::header::NATS_EXPECTED_STREAM;
use async_nats::{HeaderName, HeaderValue};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::engine::publish::rows::{Headers, Payloads, Rows, Subjects, Texts};
use crate::py::{arrow, headers};

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

pub fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "an object".into(), |name| name.to_string())
}

/// A sequence of strings, one per row.
fn strings(what: &str, values: &Bound<'_, PyAny>, nulls: bool) -> PyResult<Strings> {
    let mut strings = Vec::with_capacity(values.len().unwrap_or(0));
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
    Ok(Strings(strings))
}

pub fn same_length(what: &str, found: usize, rows: usize) -> PyResult<()> {
    if found == rows {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{what} has {found} entries, payloads has {rows}")))
}

pub fn header_rows(headers: Option<&Bound<'_, PyAny>>, rows: usize) -> PyResult<Headers> {
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

/// What goes with the payloads: for all rows, or one entry per row.
pub struct Beside<'a, 'py> {
    pub subject: Option<&'a Bound<'py, PyAny>>,
    pub headers: Option<&'a Bound<'py, PyAny>>,
    pub msg_ids: Option<&'a Bound<'py, PyAny>>,
    pub expected_stream: Option<String>,
    /// Seconds, as the server reads it.
    pub msg_ttl: Option<String>,
}

impl Beside<'_, '_> {
    /// The headers of all rows.
    pub fn fixed(&self) -> Arc<[(HeaderName, HeaderValue)]> {
        let stream = self.expected_stream.as_deref().map(|stream| (NATS_EXPECTED_STREAM, stream.into()));
        let ttl = self.msg_ttl.as_deref().map(|ttl| (HeaderName::from_static("Nats-TTL"), ttl.into()));
        stream.into_iter().chain(ttl).collect()
    }
}

/// Rows of a sequence, every one looked at, nothing sent.
pub fn rows(payloads: &Bound<'_, PyAny>, beside: Beside<'_, '_>) -> PyResult<Rows> {
    let single = payloads.is_instance_of::<PyString>() || PyBuffer::<u8>::get(payloads).is_ok();
    if single || payloads.is_none() {
        return Err(PyTypeError::new_err(format!(
            "payloads must be a sequence of bytes-like or str, or an Arrow column or table, not {}; for one message use publish()",
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
    let Some(subject) = beside.subject else {
        return Err(PyTypeError::new_err("subject is missing: one for all rows, or one per row"));
    };
    let subjects = match texts("subject", subject, Some(len), false)? {
        Column::One(one) => Subjects::One(one.as_str().into()),
        Column::Each(each) => Subjects::Each(Box::new(each)),
    };
    let msg_ids = match beside.msg_ids.map(|ids| texts("msg_ids", ids, Some(len), true)).transpose()? {
        None => None,
        Some(Column::One(_)) => return Err(PyTypeError::new_err("msg_ids must be a sequence, one (or None) per row")),
        Some(Column::Each(each)) => Some(Box::new(each) as Box<dyn Texts>),
    };
    Ok(Rows {
        len,
        fixed: beside.fixed(),
        subjects,
        payloads: Box::new(Cells(cells)),
        msg_ids,
        headers: header_rows(beside.headers, len)?,
        expected_stream: beside.expected_stream.map(Arc::from),
        checked: false,
    })
}

/// One text for all rows, or one per row.
pub enum Column {
    One(String),
    Each(Arc<dyn Texts>),
}

/// A str, a sequence of str, or an Arrow string column.
pub fn texts(what: &str, value: &Bound<'_, PyAny>, rows: Option<usize>, nulls: bool) -> PyResult<Column> {
    if let Ok(one) = value.cast::<PyString>() {
        return Ok(Column::One(one.to_str()?.to_owned()));
    }
    let (each, len): (Arc<dyn Texts>, usize) = if arrow::is_producer(value)? {
        arrow::text_column(what, value)?
    } else {
        let strings = strings(what, value, nulls)?;
        let len = strings.0.len();
        (Arc::new(strings), len)
    };
    if let Some(rows) = rows {
        same_length(what, len, rows)?;
    }
    Ok(Column::Each(each))
}
