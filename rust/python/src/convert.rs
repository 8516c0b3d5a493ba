//! Conversion of plain Python values.

use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyUnicodeEncodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyIterator, PyString};

use crate::error::{PyResult, Raised};
use base::error::JetError;

/// Converts seconds. They are finite, not negative and below the range of any clock.
pub fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    const YEAR: f64 = 366.0 * 24.0 * 3600.0;
    if !value.is_finite() || value < 0.0 {
        return Err(PyValueError::new_err(format!("{name} must be a number of seconds, 0 or more, not {value}")).into());
    }
    Ok(Duration::from_secs_f64(value.min(YEAR)))
}

/// Converts optional seconds, as [`seconds`].
pub fn optional_seconds(name: &str, value: Option<f64>) -> PyResult<Option<Duration>> {
    value.map(|value| seconds(name, value)).transpose()
}

/// Returns the name of a value's class, for errors.
pub fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "an object".into(), |name| name.to_string())
}

/// Iterates over a sequence with one entry per row.
pub fn entries<'py>(what: &str, values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    Ok(values.try_iter().map_err(|err| match err.is_instance_of::<PyTypeError>(values.py()) {
        true => PyTypeError::new_err(format!("{what} must be a sequence or Arrow data, not {}", type_name(values))),
        false => err,
    })?)
}

/// Reason of the error for a string that cannot be encoded.
pub const SURROGATE: &str = "it has a lone surrogate, which has no UTF-8";

/// Returns the text of a string, or the error `wrong`. Python's own error would contain the string, which can be a
/// secret.
pub fn utf8(text: &Bound<'_, PyString>, wrong: impl FnOnce() -> JetError) -> PyResult<PyBackedStr> {
    // A subclass can have a finalizer, which must not run at the place where the text is dropped.
    let exact = match text.is_exact_instance_of::<PyString>() {
        true => Ok(text.clone()),
        false => text.to_str().map(|copy| PyString::new(text.py(), copy)),
    };
    exact.and_then(PyBackedStr::try_from).map_err(|_| wrong().into())
}

/// A subject or queue name. A lone surrogate, which has no UTF-8, is reported as for other invalid subjects.
pub struct Word<'a>(pub &'a str);

impl<'a, 'py> FromPyObject<'a, 'py> for Word<'a> {
    type Error = PyErr;

    fn extract(word: Borrowed<'a, 'py, PyAny>) -> pyo3::PyResult<Self> {
        word.extract::<&str>().map(Word).map_err(|err| match err.is_instance_of::<PyUnicodeEncodeError>(word.py()) {
            true => {
                let subject = word.repr().map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned());
                Raised::from(JetError::BadSubject { subject, reason: SURROGATE }).into()
            }
            // As nats-py.
            false if word.is_none() => {
                Raised::from(JetError::BadSubject { subject: "None".into(), reason: "it is none" }).into()
            }
            false => PyTypeError::new_err(format!("a subject must be str, not {}", type_name(&word))),
        })
    }
}

/// An argument `timeout`: seconds, or None for no limit.
pub struct Timeout(pub Duration);

impl<'a, 'py> FromPyObject<'a, 'py> for Timeout {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> pyo3::PyResult<Self> {
        if given.is_none() {
            return Ok(seconds("timeout", f64::MAX).map(Timeout)?);
        }
        let value = given.extract::<f64>().map_err(|_| {
            PyTypeError::new_err(format!("timeout must be a number of seconds, or None, not {}", type_name(&given)))
        })?;
        Ok(seconds("timeout", value).map(Timeout)?)
    }
}
