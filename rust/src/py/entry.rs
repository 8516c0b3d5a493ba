//! Entries of a key-value bucket out of what a watch's consumer delivers, made in one step: it is the hot path of a
//! watch.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::engine::columns::meta::parse_meta;
use crate::engine::receive::marker::Operation;
use crate::py::subscribe::Subscription;

#[pymethods]
impl Subscription {
    /// The next entry, if a message waits: `make(bucket, key, value, revision, delta, nanoseconds, operation)`, where
    /// the key is the subject without its first `hidden` bytes; an unknown operation is an empty text. Messages up to
    /// revision `after` are passed over.
    fn take_entry<'py>(
        &self,
        py: Python<'py>,
        make: &Bound<'py, PyAny>,
        bucket: &Bound<'py, PyString>,
        hidden: usize,
        after: i64,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let inner = self.native()?;
        while let Some(message) = inner.take() {
            let Some(meta) = parse_meta(message.reply()).filter(|meta| meta.seq > after) else {
                continue;
            };
            let subject = message.subject();
            let key = PyString::new(py, subject.get(hidden..).unwrap_or(subject));
            let value = PyBytes::new(py, message.data());
            let operation = match &message.raw_headers {
                Some(raw) => Operation::of_raw(raw),
                None => Operation::of(message.headers.as_deref()),
            };
            let operation = match operation {
                Operation::Put => None,
                Operation::Delete => Some("DEL"),
                Operation::Purge => Some("PURGE"),
                Operation::Unknown => Some(""),
            };
            return make.call1((bucket, key, value, meta.seq, meta.pending, meta.nanos, operation)).map(Some);
        }
        Ok(None)
    }
}
