//! Arrow inputs into rows: columns and tables of any producer, no Python object per row, streams block by block.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, LargeBinaryArray, LargeStringArray, ListArray, MapArray,
    StringArray, StringViewArray, StructArray,
};
use arrow_schema::DataType;
use async_nats::{HeaderMap, HeaderName, HeaderValue};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3_arrow::ffi::ArrayReader;
use pyo3_arrow::input::AnyArray;

use crate::engine::publish::outcome::Blocks;
use crate::engine::publish::rows::{From, Headers, Payloads, Rows, Subjects, Texts};
use crate::error::{JetError, Result};
use crate::py::headers;
use crate::py::payload::{Beside, Column, header_rows, texts, type_name};

pub fn is_producer(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(value.hasattr("__arrow_c_array__")? || value.hasattr("__arrow_c_stream__")?)
}

fn extract(what: &str, value: &Bound<'_, PyAny>) -> PyResult<AnyArray> {
    value.extract::<AnyArray>().map_err(|err| {
        PyTypeError::new_err(format!("{what}: cannot take this {} as Arrow data: {err}", type_name(value)))
    })
}

fn unfit(what: &str, wanted: &str, found: &DataType) -> JetError {
    JetError::Type(format!("{what} must be a column of {wanted}, not {found}"))
}

fn payload_column(what: &str, array: &ArrayRef) -> Result<Box<dyn Payloads>> {
    Ok(match array.data_type() {
        DataType::Binary => Box::new(array.as_binary::<i32>().clone()) as Box<BinaryArray>,
        DataType::LargeBinary => Box::new(array.as_binary::<i64>().clone()) as Box<LargeBinaryArray>,
        DataType::BinaryView => Box::new(array.as_binary_view().clone()) as Box<BinaryViewArray>,
        DataType::Utf8 => Box::new(array.as_string::<i32>().clone()) as Box<StringArray>,
        DataType::LargeUtf8 => Box::new(array.as_string::<i64>().clone()) as Box<LargeStringArray>,
        DataType::Utf8View => Box::new(array.as_string_view().clone()) as Box<StringViewArray>,
        other => return Err(unfit(what, "binary or string", other)),
    })
}

struct AllNull;

impl Texts for AllNull {
    fn get(&self, _row: usize) -> Option<&str> {
        None
    }
}

fn strings(what: &str, array: &ArrayRef) -> Result<Arc<dyn Texts>> {
    Ok(match array.data_type() {
        DataType::Utf8 => Arc::new(array.as_string::<i32>().clone()) as Arc<StringArray>,
        DataType::LargeUtf8 => Arc::new(array.as_string::<i64>().clone()) as Arc<LargeStringArray>,
        DataType::Utf8View => Arc::new(array.as_string_view().clone()) as Arc<StringViewArray>,
        DataType::Null => Arc::new(AllNull),
        other => return Err(unfit(what, "string", other)),
    })
}

/// A whole string column, however many chunks it has.
struct Chunks(Vec<(usize, Arc<dyn Texts>)>);

impl Texts for Chunks {
    fn get(&self, row: usize) -> Option<&str> {
        let chunk = self.0.partition_point(|(start, _)| *start <= row).checked_sub(1)?;
        let (start, texts) = &self.0[chunk];
        texts.get(row - start)
    }
}

pub fn text_column(what: &str, value: &Bound<'_, PyAny>) -> PyResult<(Arc<dyn Texts>, usize)> {
    let reader = extract(what, value)?.into_reader()?;
    let mut chunks = Vec::new();
    let mut rows = 0;
    for array in reader {
        let array = array.map_err(|e| PyValueError::new_err(format!("{what}: {e}")))?;
        chunks.push((rows, strings(what, &array)?));
        rows += array.len();
    }
    Ok((Arc::new(Chunks(chunks)), rows))
}

/// What the rows of every block have in common.
struct Template {
    subject: Option<Column>,
    msg_ids: Option<Arc<dyn Texts>>,
    headers: Option<HeaderMap>,
    fixed: Arc<[(HeaderName, HeaderValue)]>,
    expected_stream: Option<Arc<str>>,
}

impl Template {
    /// Rows of one block, which starts at row `at` of the whole.
    fn rows(&self, array: &ArrayRef, at: usize) -> Result<Rows> {
        let table = array.as_struct_opt();
        let column = |name: &str| table.and_then(|t: &StructArray| t.column_by_name(name));
        let payloads = match (table, column("data")) {
            (None, _) => payload_column("payloads", array)?,
            (Some(_), Some(data)) => payload_column("data", data)?,
            (Some(_), None) => return Err(JetError::Value("the table has no column \"data\"".into())),
        };
        let from = |texts: &Arc<dyn Texts>| Box::new(From { texts: texts.clone(), at });
        let subjects = match (&self.subject, column("subject")) {
            (Some(Column::One(one)), _) => Subjects::One(one.as_str().into()),
            (Some(Column::Each(each)), _) => Subjects::Each(from(each)),
            (None, Some(subjects)) => Subjects::Each(Box::new(strings("subject", subjects)?)),
            (None, None) => {
                return Err(JetError::Type(
                    "subject is missing: give one, or a table with a column \"subject\"".into(),
                ));
            }
        };
        let msg_ids = match (&self.msg_ids, column("msg_id")) {
            (Some(ids), _) => Some(from(ids) as Box<dyn Texts>),
            (None, Some(ids)) => Some(Box::new(strings("msg_id", ids)?) as Box<dyn Texts>),
            (None, None) => None,
        };
        let headers = match (&self.headers, column("headers")) {
            (Some(one), _) => Headers::One(one.clone()),
            (None, Some(maps)) => Headers::Each(header_column(maps)?),
            (None, None) => Headers::None,
        };
        let (expected_stream, fixed) = (self.expected_stream.clone(), self.fixed.clone());
        Ok(Rows { len: array.len(), fixed, subjects, payloads, msg_ids, headers, expected_stream, checked: false })
    }
}

/// A column of `map<string, string>` or `map<string, list<string>>`.
struct HeaderColumn {
    maps: MapArray,
    names: Arc<dyn Texts>,
    lists: Option<ListArray>,
    texts: Arc<dyn Texts>,
}

impl HeaderColumn {
    /// `None`: no row has any.
    fn new(array: &ArrayRef) -> Result<Option<Self>> {
        if let DataType::Null = array.data_type() {
            return Ok(None);
        }
        let wanted = "map<string, string or list<string>>";
        let maps: &MapArray = array.as_map_opt().ok_or_else(|| unfit("headers", wanted, array.data_type()))?;
        let lists = maps.values().as_list_opt::<i32>().cloned();
        let texts = strings("headers", lists.as_ref().map_or(maps.values(), |lists| lists.values()))?;
        Ok(Some(HeaderColumn { names: strings("headers", maps.keys())?, maps: maps.clone(), lists, texts }))
    }

    /// Name and value of each header of a row; a null value is empty.
    fn of(&self, row: usize) -> impl Iterator<Item = (&str, &str)> {
        let offsets = self.maps.value_offsets();
        let entries = match self.maps.is_null(row) {
            true => 0..0,
            false => offsets[row] as usize..offsets[row + 1] as usize,
        };
        entries.flat_map(move |entry| {
            let name = self.names.get(entry).unwrap_or_default();
            let values = match &self.lists {
                Some(lists) => lists.value_offsets()[entry] as usize..lists.value_offsets()[entry + 1] as usize,
                None => entry..entry + 1,
            };
            values.map(move |value| (name, self.texts.get(value).unwrap_or_default()))
        })
    }
}

fn header_column(array: &ArrayRef) -> Result<Vec<Option<HeaderMap>>> {
    let Some(column) = HeaderColumn::new(array)? else { return Ok(vec![None; array.len()]) };
    let map = |row| {
        let mut map = HeaderMap::new();
        column.of(row).try_for_each(|(name, value)| headers::append(&mut map, name, value)).map(|()| map)
    };
    (0..array.len()).map(|row| array.is_valid(row).then(|| map(row)).transpose()).collect()
}

/// The columns of a table that a message's id is made of.
pub struct IdSource {
    pub len: usize,
    payloads: Box<dyn Payloads>,
    subjects: Option<Arc<dyn Texts>>,
    msg_ids: Option<Arc<dyn Texts>>,
    headers: Option<HeaderColumn>,
}

impl IdSource {
    pub fn new(table: &Bound<'_, PyAny>) -> PyResult<Self> {
        let AnyArray::Array(array) = extract("table", table)? else {
            return Err(PyTypeError::new_err("table must be one batch, not a stream"));
        };
        let table = array.array().as_struct_opt().ok_or_else(|| unfit("table", "struct", array.array().data_type()))?;
        let text = |name: &str| table.column_by_name(name).map(|column| strings(name, column)).transpose();
        let data = table.column_by_name("data");
        let data = data.ok_or_else(|| PyValueError::new_err("the table has no column \"data\""))?;
        Ok(IdSource {
            len: table.len(),
            payloads: payload_column("data", data)?,
            subjects: text("subject")?,
            msg_ids: text("msg_id")?,
            headers: table.column_by_name("headers").map(HeaderColumn::new).transpose()?.flatten(),
        })
    }

    pub fn payload(&self, row: usize) -> Option<&[u8]> {
        self.payloads.get(row)
    }

    pub fn subject(&self, row: usize) -> Option<&str> {
        self.subjects.as_ref()?.get(row)
    }

    pub fn msg_id(&self, row: usize) -> Option<&str> {
        self.msg_ids.as_ref()?.get(row)
    }

    pub fn headers<'a>(&'a self, row: usize, out: &mut Vec<(&'a str, &'a str)>) {
        out.extend(self.headers.iter().flat_map(|headers| headers.of(row)));
    }
}

/// Blocks of rows, and how many rows there are where that is known.
pub fn blocks(
    payloads: &Bound<'_, PyAny>,
    beside: Beside<'_, '_>,
    max_payload: usize,
) -> PyResult<(Blocks, Option<usize>)> {
    let input = extract("payloads", payloads)?;
    let known = match &input {
        AnyArray::Array(array) => Some(array.array().len()),
        AnyArray::Stream(_) => payloads.len().ok(),
    };
    let subject = beside.subject.map(|s| texts("subject", s, known, false)).transpose()?;
    let msg_ids = match beside.msg_ids.map(|ids| texts("msg_ids", ids, known, true)).transpose()? {
        None => None,
        Some(Column::One(_)) => return Err(PyTypeError::new_err("msg_ids must be a sequence, one (or None) per row")),
        Some(Column::Each(each)) => Some(each),
    };
    let headers = match header_rows(beside.headers, known.unwrap_or(0))? {
        Headers::None => None,
        Headers::One(map) => Some(map),
        Headers::Each(_) => {
            return Err(PyTypeError::new_err("with Arrow payloads, headers is one dict, or a column of the table"));
        }
    };
    let fixed = beside.fixed();
    let expected_stream = beside.expected_stream.map(Arc::from);
    let template = Template { subject, msg_ids, headers, fixed, expected_stream };
    if let Some(Column::One(one)) = &template.subject {
        crate::engine::subject::check(one)?;
    }
    match input {
        AnyArray::Array(array) => {
            let rows = template.rows(array.array(), 0)?.checked(max_payload)?;
            Ok((Box::pin(futures_util::stream::iter([Ok(Arc::new(rows))])), known))
        }
        AnyArray::Stream(stream) => {
            let reader = stream.into_reader()?;
            // The schema is known before the first row: what is wrong with it is an exception, not a row's error.
            template.rows(&arrow_array::new_empty_array(reader.field().data_type()), 0)?;
            Ok((read_blocks(reader, template), known))
        }
    }
}

/// Reads the next block when it is asked for, in a thread that may block and may need the GIL.
fn read_blocks(reader: Box<dyn ArrayReader + Send>, template: Template) -> Blocks {
    let state = (reader, template, 0);
    Box::pin(futures_util::stream::try_unfold(state, |(mut reader, template, at)| async move {
        let read = tokio::task::spawn_blocking(move || {
            let array = reader.next().transpose();
            (reader, array)
        });
        let (reader, array) = read.await.map_err(|_| JetError::Internal("reading the Arrow stream".into()))?;
        let Some(array) = array.map_err(|e| JetError::Value(format!("payloads: {e}")))? else { return Ok(None) };
        let rows = template.rows(&array, at)?;
        let next = at + rows.len;
        Ok(Some((Arc::new(rows), (reader, template, next))))
    }))
}
