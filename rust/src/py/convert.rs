//! Plain values out of Python's hands.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Seconds from Python: finite, not negative, and short enough that no clock overflows.
pub fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    const YEAR: f64 = 366.0 * 24.0 * 3600.0;
    if !value.is_finite() || value < 0.0 {
        return Err(PyValueError::new_err(format!("{name} must be a number of seconds, 0 or more, not {value}")));
    }
    Ok(Duration::from_secs_f64(value.min(YEAR)))
}

/// `seconds`, where the value may be left out.
pub fn optional_seconds(name: &str, value: Option<f64>) -> PyResult<Option<Duration>> {
    value.map(|value| seconds(name, value)).transpose()
}

/// The name of a value's class, for messages.
pub fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "an object".into(), |name| name.to_string())
}
