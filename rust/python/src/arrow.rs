//! Arrow columns of any producer, as columns of rows, without a Python object per row.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, MapArray};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3_arrow::input::AnyArray;

use crate::convert::type_name;
use crate::error::PyResult;
use crate::headers;
use crate::python_call::begin_call;
use base::error::{JetError, Result};
use jetstream::publish::rows::{Payloads, Texts};
use runtime::foreign::Foreign;
use wire::nats::HeaderMap;

/// True if the object has the Arrow PyCapsule interface.
pub fn is_producer(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(value.hasattr("__arrow_c_array__")? || value.hasattr("__arrow_c_stream__")?)
}

/// Imports Arrow data. `what` names the argument in the error.
pub fn extract(what: &str, value: &Bound<'_, PyAny>) -> PyResult<AnyArray> {
    let _call = begin_call(value.py());
    Ok(value.extract::<AnyArray>().map_err(|err| {
        PyTypeError::new_err(format!("{what}: could not import this {} as Arrow data: {err}", type_name(value)))
    })?)
}

/// Returns the error of a column with an unsupported type.
pub fn unfit(what: &str, wanted: &str, found: &DataType) -> JetError {
    JetError::Type(format!("{what} must be a column of {wanted}, not {found}"))
}

/// Wraps a column, so that its producer's memory is released by a thread with the GIL.
fn payloads<T: Payloads + Send + 'static>(column: T) -> Box<dyn Payloads> {
    Box::new(Foreign::new(column))
}

fn texts<T: Texts + Send + 'static>(column: T) -> Arc<dyn Texts> {
    Arc::new(Foreign::new(column))
}

/// Converts a binary or string column into payloads.
pub fn payload_column(what: &str, array: &ArrayRef) -> Result<Box<dyn Payloads>> {
    Ok(match array.data_type() {
        DataType::Binary => payloads(array.as_binary::<i32>().clone()),
        DataType::LargeBinary => payloads(array.as_binary::<i64>().clone()),
        DataType::BinaryView => payloads(array.as_binary_view().clone()),
        DataType::Utf8 => payloads(array.as_string::<i32>().clone()),
        DataType::LargeUtf8 => payloads(array.as_string::<i64>().clone()),
        DataType::Utf8View => payloads(array.as_string_view().clone()),
        other => return Err(unfit(what, "binary or string", other)),
    })
}

struct AllNull;

impl Texts for AllNull {
    fn get(&self, _row: usize) -> Option<&str> {
        None
    }
}

/// Converts a string column into texts. A column of type null has only nulls.
pub fn strings(what: &str, array: &ArrayRef) -> Result<Arc<dyn Texts>> {
    Ok(match array.data_type() {
        DataType::Utf8 => texts(array.as_string::<i32>().clone()),
        DataType::LargeUtf8 => texts(array.as_string::<i64>().clone()),
        DataType::Utf8View => texts(array.as_string_view().clone()),
        DataType::Null => Arc::new(AllNull),
        other => return Err(unfit(what, "string", other)),
    })
}

/// A string column in chunks.
struct Chunks(Vec<(usize, Arc<dyn Texts>)>);

impl Texts for Chunks {
    fn get(&self, row: usize) -> Option<&str> {
        let chunk = self.0.partition_point(|(start, _)| *start <= row).checked_sub(1)?;
        let (start, texts) = &self.0[chunk];
        texts.get(row - start)
    }
}

/// Imports a string column, with its number of rows.
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

/// A column of `map<string, string>` or `map<string, list<string>>`.
pub struct HeaderColumn {
    maps: MapArray,
    names: Arc<dyn Texts>,
    lists: Option<ListArray>,
    texts: Arc<dyn Texts>,
}

impl HeaderColumn {
    /// Returns `None` for a column of type null.
    pub fn new(array: &ArrayRef) -> Result<Option<Self>> {
        if let DataType::Null = array.data_type() {
            return Ok(None);
        }
        let wanted = "map<string, string or list<string>>";
        let maps: &MapArray = array.as_map_opt().ok_or_else(|| unfit("headers", wanted, array.data_type()))?;
        let lists = maps.values().as_list_opt::<i32>().cloned();
        let texts = strings("headers", lists.as_ref().map_or(maps.values(), |lists| lists.values()))?;
        Ok(Some(HeaderColumn { names: strings("headers", maps.keys())?, maps: maps.clone(), lists, texts }))
    }

    /// Iterates over the names and values of a row's headers. A null value is empty.
    pub fn of(&self, row: usize) -> impl Iterator<Item = (&str, &str)> {
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

/// Converts a column of headers into one map per row.
pub fn header_column(array: &ArrayRef) -> Result<Vec<Option<HeaderMap>>> {
    let Some(column) = HeaderColumn::new(array)? else { return Ok(vec![None; array.len()]) };
    let map = |row| {
        let mut map = HeaderMap::new();
        column.of(row).try_for_each(|(name, value)| headers::append(&mut map, name, value)).map(|()| map)
    };
    (0..array.len()).map(|row| array.is_valid(row).then(|| map(row)).transpose()).collect()
}
