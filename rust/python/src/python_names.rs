//! Modules of the Python package that the native module imports. Their paths are listed here only.

use pyo3::prelude::*;

/// Errors of the connection and of core NATS.
pub const ERRORS: &str = "jetarrow.core.errors";
/// The error of a failed TLS handshake.
pub const TLS_ERRORS: &str = "jetarrow.core.tls_errors";
/// Errors of JetStream.
pub const JS_ERRORS: &str = "jetarrow.jetstream.errors";
/// `build`, `Metadata` and `Ack`.
pub const METADATA: &str = "jetarrow.core.metadata";
/// `complete`, which sets Python's functions on the message classes.
pub const MESSAGE: &str = "jetarrow.core.message";
/// `PubAck`.
pub const JS_API: &str = "jetarrow.jetstream.models";

/// Imports a name from a module.
pub fn import<'py>(py: Python<'py>, module: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import(module)?.getattr(name)
}
