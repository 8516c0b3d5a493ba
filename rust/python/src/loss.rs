//! The class `Loss`.

use pyo3::prelude::*;

use base::error;

/// Messages in the requested range that the stream no longer has.
#[pyclass(frozen, eq, module = "jetarrow._jetarrow")]
#[derive(PartialEq)]
pub struct Loss {
    pub inner: error::Loss,
}

#[pymethods]
impl Loss {
    #[new]
    fn new(stream: String, asked: (u64, u64), available: u64) -> Self {
        Loss { inner: error::Loss { stream, asked, available } }
    }

    #[getter]
    fn stream(&self) -> &str {
        &self.inner.stream
    }

    #[getter]
    fn asked(&self) -> (u64, u64) {
        self.inner.asked
    }

    #[getter]
    fn available(&self) -> u64 {
        self.inner.available
    }

    #[getter]
    fn summary(&self) -> String {
        self.inner.summary()
    }

    fn __str__(&self) -> String {
        self.inner.to_string()
    }

    fn __repr__(&self) -> String {
        let error::Loss { stream, asked: (start, end), available } = &self.inner;
        format!("Loss({stream:?}, ({start}, {end}), {available})")
    }

    fn __getnewargs__(&self) -> (&str, (u64, u64), u64) {
        (&self.inner.stream, self.inner.asked, self.inner.available)
    }
}
