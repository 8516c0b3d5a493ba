//! Conversion of Python inputs into rows to publish.
//!
//! A sequence's objects are referenced and read later without the GIL. Arrow columns and tables are not copied, and
//! streams are read block by block.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::DataType;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyDict, PyString};
use pyo3_arrow::ffi::ArrayReader;
use pyo3_arrow::input::AnyArray;

use crate::arrow::{extract, header_column, is_producer, payload_column, strings, text_column};
use crate::convert::{SURROGATE, entries, type_name, utf8};
use crate::error::{PyResult, Raised};
use crate::headers;
use crate::payload::Cell;
use crate::python_call::begin_call;
use base::error::{JetError, Result};
use jetstream::publish::outcome::RowBlocks;
use jetstream::publish::rows::{OffsetTexts, Payloads, RowHeaders, RowSubjects, Rows, Texts};
use jetstream::publish::table::ERROR;
use runtime::finalization::PythonCall;
use runtime::foreign::{self, Foreign};
use runtime::task::{Spot, blocking, weak_spot};
use wire::nats::header::{NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};
use wire::nats::{HeaderMap, HeaderName, HeaderValue};
use wire::subject;

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

/// Returns the text of a subject or message id.
fn encoded(what: &str, row: Option<usize>, text: &Bound<'_, PyString>) -> PyResult<PyBackedStr> {
    utf8(text, || match (what, row) {
        ("subject", Some(row)) => JetError::BadSubject { subject: format!("subject[{row}]"), reason: SURROGATE },
        ("subject", None) => JetError::BadSubject { subject: what.to_owned(), reason: SURROGATE },
        _ => JetError::BadHeader { name: NATS_MESSAGE_ID.to_string(), reason: SURROGATE },
    })
}

/// Converts a sequence of strings, one per row.
fn str_sequence(what: &str, values: &Bound<'_, PyAny>, nulls: bool) -> PyResult<Strings> {
    let mut strings = Vec::with_capacity(values.len().unwrap_or(0));
    for (row, value) in entries(what, values)?.enumerate() {
        let value = value?;
        if value.is_none() && nulls {
            strings.push(None);
            continue;
        }
        let text = value
            .cast::<PyString>()
            .map_err(|_| PyTypeError::new_err(format!("{what}[{row}] must be str, not {}", type_name(&value))))?;
        strings.push(Some(encoded(what, Some(row), text)?));
    }
    Ok(Strings(strings))
}

fn same_length(what: &str, found: usize, rows: usize) -> PyResult<()> {
    if found == rows {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{what} has {found} entries, payloads has {rows}")).into())
}

fn header_rows(headers: Option<&Bound<'_, PyAny>>, rows: Option<usize>) -> PyResult<RowHeaders> {
    let Some(headers) = headers else { return Ok(RowHeaders::None) };
    if let Ok(dict) = headers.cast::<PyDict>() {
        return Ok(RowHeaders::One(headers::from_python(dict)?));
    }
    let Some(rows) = rows else {
        return Err(PyTypeError::new_err("with a stream of rows, headers is one dict, or a column of the table").into());
    };
    let mut maps = Vec::with_capacity(rows);
    for (row, value) in entries("headers", headers)?.enumerate() {
        let value = value?;
        maps.push(match value.cast::<PyDict>() {
            _ if value.is_none() => None,
            Ok(dict) => Some(headers::from_python(dict)?),
            Err(_) => {
                let found = type_name(&value);
                return Err(PyTypeError::new_err(format!("headers[{row}] must be a dict or None, not {found}")).into());
            }
        });
    }
    same_length("headers", maps.len(), rows)?;
    Ok(RowHeaders::Each(maps))
}

/// Arguments that accompany the payloads: one for all rows, or one entry per row.
pub struct RowArguments<'a, 'py> {
    pub subject: Option<&'a Bound<'py, PyAny>>,
    pub headers: Option<&'a Bound<'py, PyAny>>,
    pub msg_ids: Option<&'a Bound<'py, PyAny>>,
    pub expected_stream: Option<String>,
    /// Seconds, in the server's format.
    pub msg_ttl: Option<String>,
    /// Number of the first row, for errors.
    pub first_row: u64,
    /// Unknown columns of a table are ignored instead of rejected.
    pub ignore_extra: bool,
}

impl RowArguments<'_, '_> {
    /// Returns the headers that all rows share.
    fn fixed(&self) -> Arc<[(HeaderName, HeaderValue)]> {
        let stream = self.expected_stream.as_deref().map(|stream| (NATS_EXPECTED_STREAM, stream.into()));
        let ttl = self.msg_ttl.as_deref().map(|ttl| (HeaderName::from_static("Nats-TTL"), ttl.into()));
        stream.into_iter().chain(ttl).collect()
    }

    fn msg_ids(&self, rows: Option<usize>) -> PyResult<Option<Arc<dyn Texts>>> {
        match self.msg_ids.map(|ids| texts("msg_ids", ids, rows, true)).transpose()? {
            None => Ok(None),
            Some(TextColumn::Each(each)) => Ok(Some(each)),
            Some(TextColumn::One(_)) => {
                Err(PyTypeError::new_err("msg_ids must be a sequence, one (or None) per row").into())
            }
        }
    }
}

/// Converts a sequence of payloads. Validates all rows before any is sent.
pub fn rows(payloads: &Bound<'_, PyAny>, arguments: RowArguments<'_, '_>, max_payload: usize) -> PyResult<Rows> {
    let _call = begin_call(payloads.py());
    let single = payloads.is_instance_of::<PyString>() || PyBuffer::<u8>::get(payloads).is_ok();
    if single || payloads.is_none() {
        return Err(PyTypeError::new_err(format!(
            "payloads must be a sequence of bytes-like or str, or an Arrow column or table, not {}; for one message use publish()",
            type_name(payloads)
        )).into());
    }
    let mut cells = Vec::with_capacity(payloads.len().unwrap_or(0));
    for (row, value) in entries("payloads", payloads)?.enumerate() {
        let value = value?;
        cells.push(Cell::new(&value).map_err(|err| -> Raised {
            match err {
                _ if err.is_instance_of::<PyTypeError>(value.py()) => PyTypeError::new_err(format!(
                    "payloads[{row}] must be bytes-like or str, not {}",
                    type_name(&value)
                ))
                .into(),
                _ if value.is_instance_of::<PyString>() => {
                    let row = arguments.first_row.saturating_add(row as u64);
                    JetError::Row { row, reason: format!("the payload is of type str: {SURROGATE}") }.into()
                }
                err => err,
            }
        })?);
    }
    let len = cells.len();
    let Some(subject) = arguments.subject else {
        return Err(PyTypeError::new_err("subject is missing: one for all rows, or one per row").into());
    };
    let subjects = match texts("subject", subject, Some(len), false)? {
        TextColumn::One(one) => RowSubjects::One(one.as_str().into()),
        TextColumn::Each(each) => RowSubjects::Each(Box::new(each)),
    };
    let msg_ids = arguments.msg_ids(Some(len))?.map(|ids| Box::new(ids) as Box<dyn Texts>);
    let rows = Rows {
        len,
        fixed: arguments.fixed(),
        subjects,
        payloads: Box::new(Cells(cells)),
        msg_ids,
        headers: header_rows(arguments.headers, Some(len))?,
        expected_stream: arguments.expected_stream.map(Arc::from),
        reasons: None,
        checked: false,
    };
    Ok(checked(rows, arguments.first_row, max_payload)?)
}

fn checked(rows: Rows, first_row: u64, max_payload: usize) -> Result<Rows> {
    rows.checked(max_payload).map_err(|err| err.counted_from(first_row))
}

/// One text for all rows, or one per row.
enum TextColumn {
    One(String),
    Each(Arc<dyn Texts>),
}

/// Converts a str, a sequence of str, or an Arrow string column.
fn texts(what: &str, value: &Bound<'_, PyAny>, rows: Option<usize>, nulls: bool) -> PyResult<TextColumn> {
    if let Ok(one) = value.cast::<PyString>() {
        return Ok(TextColumn::One(encoded(what, None, one)?.to_string()));
    }
    let (each, len): (Arc<dyn Texts>, usize) = if is_producer(value)? {
        text_column(what, value)?
    } else {
        let strings = str_sequence(what, value, nulls)?;
        let len = strings.0.len();
        (Arc::new(strings), len)
    };
    if let Some(rows) = rows {
        same_length(what, len, rows)?;
    }
    Ok(TextColumn::Each(each))
}

/// Columns of a table to publish. A misspelt `msg_id` is rejected, because its rows would have no id.
const COLUMNS: [&str; 6] = ["data", "subject", "headers", "msg_id", "msg_ids", ERROR];
/// Other columns of a read's table, which can be published again unchanged.
const OF_A_READ: [&str; 7] = ["stream", "seq", "timestamp", "delivered", "consumer_seq", "pending", "reply"];

fn check_columns(kind: &DataType, ignore_extra: bool) -> Result<()> {
    let DataType::Struct(fields) = kind else { return Ok(()) };
    let has = |name: &str| fields.iter().any(|field| field.name() == name);
    if has("msg_id") && has("msg_ids") {
        return Err(JetError::Value("the table has both columns \"msg_id\" and \"msg_ids\"".into()));
    }
    let known = |name: &str| COLUMNS.contains(&name) || OF_A_READ.contains(&name);
    let unknown: Vec<_> =
        fields.iter().map(|f| format!("{:?}", f.name())).filter(|f| !known(f.trim_matches('"'))).collect();
    if unknown.is_empty() || ignore_extra {
        return Ok(());
    }
    let (s, names) = (if unknown.len() == 1 { "" } else { "s" }, unknown.join(", "));
    Err(JetError::Value(format!(
        "unknown column{s} {names}: a table has data, and may have subject, headers and msg_id; extra=\"ignore\" leaves others out"
    )))
}

/// Joins a row's headers with those of the argument, which have precedence.
fn joined(own: Option<HeaderMap>, given: Option<&HeaderMap>) -> HeaderMap {
    let mut all = own.unwrap_or_default();
    for (name, values) in given.into_iter().flat_map(HeaderMap::iter) {
        for (number, value) in values.iter().enumerate() {
            if number == 0 {
                all.insert(name.clone(), value.clone());
            } else {
                all.append(name.clone(), value.clone());
            }
        }
    }
    all
}

/// Arguments that the rows of all blocks share.
struct Template {
    subject: Option<TextColumn>,
    msg_ids: Option<Arc<dyn Texts>>,
    headers: RowHeaders,
    fixed: Arc<[(HeaderName, HeaderValue)]>,
    expected_stream: Option<Arc<str>>,
}

impl Template {
    /// Returns the rows of a block that starts at row `at` of the whole.
    fn rows(&self, array: &ArrayRef, at: usize) -> Result<Rows> {
        let table = array.as_struct_opt();
        let column = |name: &str| table.and_then(|t: &StructArray| t.column_by_name(name));
        let payloads = match (table, column("data")) {
            (None, _) => payload_column("payloads", array)?,
            (Some(_), Some(data)) => payload_column("data", data)?,
            (Some(_), None) => return Err(JetError::Value("the table has no column \"data\"".into())),
        };
        let from = |texts: &Arc<dyn Texts>| Box::new(OffsetTexts { texts: texts.clone(), at });
        let subjects = match (&self.subject, column("subject")) {
            (Some(TextColumn::One(one)), _) => RowSubjects::One(one.as_str().into()),
            (Some(TextColumn::Each(each)), _) => RowSubjects::Each(from(each)),
            (None, Some(subjects)) => RowSubjects::Each(Box::new(strings("subject", subjects)?)),
            (None, None) => {
                return Err(JetError::Type(
                    "subject is missing: give one, or a table with a column \"subject\"".into(),
                ));
            }
        };
        let msg_ids = match (&self.msg_ids, column("msg_id").or_else(|| column("msg_ids"))) {
            (Some(ids), _) => Some(from(ids) as Box<dyn Texts>),
            (None, Some(ids)) => Some(Box::new(strings("msg_id", ids)?) as Box<dyn Texts>),
            (None, None) => None,
        };
        let own = column("headers").map(header_column).transpose()?;
        let headers = match (&self.headers, own) {
            (RowHeaders::None, None) => RowHeaders::None,
            (RowHeaders::None, Some(own)) => RowHeaders::Each(own),
            (RowHeaders::One(one), None) => RowHeaders::One(one.clone()),
            (RowHeaders::One(one), Some(own)) => {
                RowHeaders::Each(own.into_iter().map(|own| Some(joined(own, Some(one)))).collect())
            }
            (RowHeaders::Each(maps), own) => {
                let own = own.unwrap_or_else(|| vec![None; array.len()]);
                let given = maps.iter().skip(at).map(Option::as_ref);
                RowHeaders::Each(own.into_iter().zip(given).map(|(own, given)| Some(joined(own, given))).collect())
            }
        };
        let (expected_stream, fixed) = (self.expected_stream.clone(), self.fixed.clone());
        let reasons = column(ERROR).map(|reasons| strings(ERROR, reasons)).transpose()?;
        let len = array.len();
        Ok(Rows { len, fixed, subjects, payloads, msg_ids, headers, expected_stream, reasons, checked: false })
    }
}

/// Returns blocks of rows, and the number of rows if it is known.
pub fn blocks(
    payloads: &Bound<'_, PyAny>,
    arguments: RowArguments<'_, '_>,
    max_payload: usize,
) -> PyResult<(RowBlocks, Option<usize>)> {
    let _call = begin_call(payloads.py());
    let input = extract("payloads", payloads)?;
    let kind = match &input {
        AnyArray::Array(array) => array.field().data_type().clone(),
        AnyArray::Stream(stream) => stream.field_ref()?.data_type().clone(),
    };
    check_columns(&kind, arguments.ignore_extra)?;
    let known = match &input {
        AnyArray::Array(array) => Some(array.array().len()),
        AnyArray::Stream(_) => payloads.len().ok(),
    };
    let subject = arguments.subject.map(|s| texts("subject", s, known, false)).transpose()?;
    let msg_ids = arguments.msg_ids(known)?;
    let headers = header_rows(arguments.headers, known)?;
    let (fixed, first_row) = (arguments.fixed(), arguments.first_row);
    let expected_stream = arguments.expected_stream.map(Arc::from);
    let template = Template { subject, msg_ids, headers, fixed, expected_stream };
    if let Some(TextColumn::One(one)) = &template.subject {
        subject::check(one)?;
    }
    match input {
        AnyArray::Array(array) => {
            let rows =
                template.rows(array.array(), 0)?.checked(max_payload).map_err(|err| err.counted_from(first_row))?;
            Ok((Box::pin(futures_util::stream::iter([Ok(Arc::new(rows))])), known))
        }
        AnyArray::Stream(stream) => {
            let reader = stream.into_reader()?;
            // The schema is known before the first row, so its errors are exceptions, not errors of a row.
            template.rows(&arrow_array::new_empty_array(reader.field().data_type()), 0)?;
            Ok((read_blocks(reader, template), known))
        }
    }
}

/// Reads the next block on demand, in a thread that may block and take the GIL.
fn read_blocks(reader: Box<dyn ArrayReader + Send>, template: Template) -> RowBlocks {
    let state = (Foreign::new(reader), template, 0);
    Box::pin(futures_util::stream::try_unfold(state, |(mut reader, template, at)| async move {
        let read = move || {
            weak_spot(Spot::Rows);
            let Some(_call) = PythonCall::begin() else { return (reader, Some(Err(JetError::ProcessEnds))) };
            foreign::release();
            let array = reader.get_mut().and_then(Iterator::next);
            let failed = |error| JetError::Value(format!("payloads: {error}"));
            (reader, array.map(|array| array.map(Foreign::new).map_err(failed)))
        };
        let (reader, array) = blocking(read).await?;
        let Some(array) = array.transpose()? else { return Ok(None) };
        let Some(array) = array.get() else { return Ok(None) };
        let rows = template.rows(array, at)?;
        let next = at + rows.len;
        Ok(Some((Arc::new(rows), (reader, template, next))))
    }))
}
