//! Conversion of header dictionaries, in both directions.

use std::str::FromStr;

use pyo3::exceptions::{PyTypeError, PyUnicodeEncodeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::convert::{SURROGATE, type_name, utf8};
use crate::error::PyResult;
use crate::python_call::begin_call;
use base::error::{JetError, Result};
use wire::nats::{HeaderMap, HeaderName, HeaderValue};
use wire::subject::check_header;

/// Converts a name or value. `wrong` is the error text for other types. A lone surrogate has no UTF-8.
fn text(value: &Bound<'_, PyAny>, name: &Bound<'_, PyAny>, wrong: impl Fn() -> String) -> PyResult<String> {
    value.extract().map_err(|err: PyErr| match err.is_instance_of::<PyUnicodeEncodeError>(value.py()) {
        true => JetError::BadHeader { name: shown(name), reason: SURROGATE }.into(),
        false => PyTypeError::new_err(wrong()).into(),
    })
}

fn shown(name: &Bound<'_, PyAny>) -> String {
    name.repr().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}

/// The argument `headers`: any mapping, converted to a dict.
pub struct Given<'py>(pub Bound<'py, PyDict>);

impl<'a, 'py> FromPyObject<'a, 'py> for Given<'py> {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> pyo3::PyResult<Self> {
        if let Ok(dict) = given.cast::<PyDict>() {
            return Ok(Given(dict.to_owned()));
        }
        if !given.hasattr(intern!(given.py(), "items"))? {
            return Err(PyTypeError::new_err(format!("headers must be a mapping, not {}", type_name(&given))));
        }
        let _call = begin_call(given.py());
        let dict = PyDict::new(given.py());
        for entry in given.call_method0(intern!(given.py(), "items"))?.try_iter()? {
            let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = entry?.extract()?;
            dict.set_item(name, value)?;
        }
        Ok(Given(dict))
    }
}

/// Converts `{"Name": "value"}` or `{"Name": ["one", "two"]}`. Does not change the dict.
pub fn from_python(headers: &Bound<'_, PyDict>) -> PyResult<HeaderMap> {
    let mut map = HeaderMap::new();
    for (name, value) in headers.iter() {
        let name: String =
            text(&name, &name, || format!("the names in headers must be str, not {}", type_name(&name)))?;
        if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            for value in value.try_iter()? {
                append_python(&mut map, &name, &value?)?;
            }
        } else {
            append_python(&mut map, &name, &value)?;
        }
    }
    Ok(map)
}

/// Converts the value of the header `name`.
pub fn value(name: &str, text: &Bound<'_, PyString>) -> PyResult<PyBackedStr> {
    utf8(text, || JetError::BadHeader { name: name.to_owned(), reason: SURROGATE })
}

/// Converts headers as nats-py's core publish does. `None` if no header is left.
///
/// It trims names and values, skips entries without a name, and replaces line breaks in a value by spaces.
pub fn lenient(headers: Option<Given<'_>>) -> PyResult<Option<HeaderMap>> {
    let Some(Given(headers)) = headers else { return Ok(None) };
    let tidy = PyDict::new(headers.py());
    let value = |name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>| -> PyResult<String> {
        let text = text(value, name, || {
            format!("the value of {} in headers must be str or a list of str, not {}", shown(name), type_name(value))
        })?;
        Ok(text.trim().replace(['\r', '\n'], " "))
    };
    for (key, values) in headers.iter() {
        let name: String = text(&key, &key, || format!("the names in headers must be str, not {}", type_name(&key)))?;
        if name.trim().is_empty() {
            continue;
        }
        if values.is_instance_of::<PyList>() || values.is_instance_of::<PyTuple>() {
            let values = values.try_iter()?.map(|v| value(&key, &v?)).collect::<PyResult<Vec<_>>>()?;
            tidy.set_item(name.trim(), values)?;
        } else {
            tidy.set_item(name.trim(), value(&key, &values)?)?;
        }
    }
    Ok(Some(from_python(&tidy)?).filter(|map| !map.is_empty()))
}

fn append_python(map: &mut HeaderMap, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let key = PyString::new(value.py(), name);
    let value = text(value, &key, || format!("the value of header {name:?} must be str or a list of str"))?;
    Ok(append(map, name, &value)?)
}

/// Validates a header and appends it.
pub fn append(map: &mut HeaderMap, name: &str, value: &str) -> Result<()> {
    check_header(name, value)?;
    let bad = |reason| JetError::BadHeader { name: name.to_owned(), reason };
    let parsed_name = HeaderName::from_str(name).map_err(|_| bad("the name is not valid"))?;
    let parsed_value = HeaderValue::from_str(value).map_err(|_| bad("the value is not valid"))?;
    map.append(parsed_name, parsed_value);
    Ok(())
}
