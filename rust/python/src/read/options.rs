//! The options of a read, which `ReadSpec` has validated in part.

use std::time::Duration;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::marks;
use crate::convert::{SURROGATE, Timeout, utf8};
use crate::error::PyResult;
use crate::typed::{typed, unpack};
use base::error::JetError;
use jetstream::receive::column::{Column, Layout};
use jetstream::receive::read::{Bound, Each, MAX_OUTAGE, Range, ReadFormat};
use wire::subject;

/// The mapping of `ReadSpec.native_options`.
pub struct ReadOptions<'a, 'py>(pub &'a pyo3::Bound<'py, PyDict>);

impl<'py> ReadOptions<'_, 'py> {
    /// Returns an option. The error of a wrong type names it, as for an argument.
    fn get<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<T> {
        let value = self.0.as_any().get_item(name)?;
        Ok(value.extract().map_err(Into::into).map_err(|err: PyErr| match err.get_type(value.py()) {
            class if class.is(value.py().get_type::<PyTypeError>()) => {
                PyTypeError::new_err(format!("argument '{name}': {}", err.value(value.py())))
            }
            _ => err,
        })?)
    }

    fn is_arrow(&self) -> PyResult<bool> {
        Ok(self.get::<String>("format")? == "arrow")
    }

    pub fn range(&self, prefix: String, stream: String, timeout: Duration, has_schema: bool) -> PyResult<Range> {
        let (batch_rows, batch_bytes) = (self.get("batch_rows")?, self.get("batch_bytes")?);
        if batch_rows == 0 || batch_bytes == 0 {
            return Err(PyValueError::new_err("batch_rows and batch_bytes must be at least 1").into());
        }
        let (follow, end) = (self.get("follow")?, bound("end", self.get("end_seq")?, self.get("end_time")?)?);
        if follow && !matches!(end, Bound::Open) {
            return Err(PyValueError::new_err("follow=True has no end: give neither end_seq nor end_time").into());
        }
        let latest = self.get("latest")?;
        Ok(Range {
            prefix,
            stream,
            start: bound("start", self.get("start_seq")?, self.get("start_time")?)?,
            end,
            subjects: parse_filters(&self.get::<Vec<_>>("subjects")?)?,
            follow,
            batch_rows,
            batch_bytes,
            grow: self.get("grow")?,
            fetch_bytes: self.get("fetch_bytes")?,
            warn_on_loss: self.get("warn_on_loss")?,
            direct: self.get("direct")?,
            each: if latest { Each::Latest { markers: self.get("markers")? } } else { Each::All },
            limit: self.get("limit")?,
            layout: self.layout(has_schema)?,
            timeout,
            outage: self.get::<Option<Timeout>>("outage")?.map_or(MAX_OUTAGE, |outage| outage.0),
            marks: marks(self.get("marks")?),
            on_rollback: self.get::<String>("on_rollback")?.parse()?,
        })
    }

    fn layout(&self, has_schema: bool) -> PyResult<Layout> {
        let microseconds = self.get("microseconds")?;
        match self.get::<Option<String>>("bucket")? {
            Some(prefix) => Ok(Layout::entries(&prefix, microseconds)),
            None => {
                let columns = parse_columns(self.get("columns")?, has_schema, self.is_arrow()?)?;
                let layout = Layout::new(columns, microseconds);
                Ok(if self.get("binary_headers")? { layout.with_binary_headers() } else { layout })
            }
        }
    }

    /// Returns the form of the batches: messages, or payloads that are decoded by a schema.
    pub fn format(&self, range: &Range, schema: Option<&pyo3::Bound<'py, PyAny>>) -> PyResult<ReadFormat> {
        let Some(schema) = schema else { return Ok(ReadFormat::Messages) };
        let (envelope, mode) = (&range.layout.schema, self.get::<String>("mode")?);
        Ok(if self.is_arrow()? {
            ReadFormat::Tables(unpack(envelope, schema, &mode, range.batch_rows)?)
        } else {
            let binary = self.get::<String>("format")? != "json";
            ReadFormat::Typed(typed(envelope, schema, binary, &mode, &self.get("rules")?, self.get("flatten")?)?)
        })
    }
}

fn bound(what: &str, seq: Option<u64>, time: Option<String>) -> PyResult<Bound> {
    match (seq, time) {
        (None, None) => Ok(Bound::Open),
        (Some(seq), None) => Ok(Bound::Seq(seq)),
        (None, Some(time)) => Ok(Bound::Time(time)),
        _ => Err(PyValueError::new_err(format!("give {what}_seq or {what}_time, not both")).into()),
    }
}

/// Returns the columns of messages. With a schema, `value` names the decoded column.
fn parse_columns(names: Option<Vec<String>>, has_schema: bool, tables: bool) -> PyResult<Vec<Column>> {
    let default = if tables { &[Column::Data] } else { &Column::DEFAULT[..] };
    let Some(names) = names else { return Ok(default.to_vec()) };
    let rename = |name: String| if has_schema && name == "value" { "data".to_owned() } else { name };
    let mut columns = Column::parse(&names.into_iter().map(rename).collect::<Vec<_>>())?;
    if tables && has_schema && !columns.contains(&Column::Data) {
        columns.push(Column::Data);
    }
    Ok(columns)
}

fn parse_filters(subjects: &[pyo3::Bound<'_, PyString>]) -> PyResult<Vec<String>> {
    let bad = || JetError::BadSubject { subject: "subjects".into(), reason: SURROGATE };
    let filters = subjects.iter().map(|filter| utf8(filter, bad).map(|filter| filter.to_string()));
    let filters = filters.collect::<PyResult<Vec<_>>>()?;
    filters.iter().try_for_each(|filter| subject::check_tokens(filter))?;
    Ok(filters)
}
