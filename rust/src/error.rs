//! The one error type of the crate, and its one conversion into Python exceptions.

use std::time::Duration;

use thiserror::Error;

pub type Result<T, E = JetError> = std::result::Result<T, E>;

/// What went wrong, in words for the user: what was attempted, what the server answered, what to do.
/// Never holds a secret or a debug dump; cloned because one cause can end many rows.
#[derive(Debug, Clone, Error, PartialEq)]
pub enum JetError {
    #[error("could not connect to {servers}: {cause}")]
    NoServers { servers: String, cause: String },
    #[error("bad server address {address:?}: {cause}; use nats://host:port")]
    BadAddress { address: String, cause: String },
    #[error("{servers} refused the credentials: {cause}")]
    Authorization { servers: String, cause: String },
    #[error("the credentials cannot be used: {cause}")]
    Credentials { cause: String },
    /// The caller's own code, called while connecting, has failed; he has its exception.
    #[error("{name} has failed")]
    Callback { name: &'static str },
    #[error("{server} has no TLS, which was asked for: nothing was sent; use nats:// and no tls= if that is meant")]
    SecureWanted { server: String },
    #[error("the TLS handshake with {server} failed: {cause}")]
    SecureFailed { server: String, cause: String },
    #[error("no answer from {server} within {} s (connect_timeout)", .after.as_secs_f64())]
    ConnectTimeout { server: String, after: Duration },
    /// A socket or a file; `errno` makes it the right `OSError`.
    #[error("{what}: {cause}")]
    Io { what: String, cause: String, errno: Option<i32> },
    #[error("{server} ended the connection")]
    Eof { server: String },
    #[error("stale connection: {server} does not answer pings any more")]
    Stale { server: String },
    /// The server's words.
    #[error("{text}")]
    Permission { publish: bool, subject: String, text: String },
    #[error("{text}")]
    Server { text: String },
    #[error("the connection to {servers} is closed")]
    Closed { servers: String },
    #[error("not connected, and the buffer for what is published meanwhile is full ({limit} bytes, pending_size)")]
    OutboundLimit { limit: usize },
    #[error("the server did not confirm within {} s that all was received", .after.as_secs_f64())]
    Flush { after: Duration },
    #[error("no answer to {what} within {} s", .after.as_secs_f64())]
    Timeout { what: String, after: Duration },
    #[error("no one listens on {subject:?}; is JetStream on, and the account right?")]
    NoResponders { subject: String },
    #[error("no stream takes the subject {subject:?}: create one that lists it, or correct the subject")]
    NoStream { subject: String },
    #[error("bad subject {subject:?}: {reason}")]
    BadSubject { subject: String, reason: &'static str },
    #[error("bad header {name:?}: {reason}")]
    BadHeader { name: String, reason: &'static str },
    #[error("{what} has {size} bytes, the server takes at most {limit} (its max_payload, headers counted)")]
    MaxPayload { what: String, size: usize, limit: usize },
    /// The server's own words: code, err_code and description of a JetStream API error.
    #[error("{description} (code {code}, err_code {err_code})")]
    Api { code: i64, err_code: i64, description: String },
    #[error(
        "the connection went away before {what} was confirmed: it may or may not be stored; give it a message id to have it resent safely"
    )]
    Unconfirmed { what: String },
    /// A batch that was refused as a whole: nothing of it is stored.
    #[error("the batch was refused and nothing of it is stored{}: {cause}", .row.map(|r| format!(", because of row {r}")).unwrap_or_default())]
    Batch { row: Option<u64>, cause: Box<JetError> },
    #[error("{feature} needs {needs}; {has}")]
    Unsupported { feature: String, needs: String, has: String },
    #[error("{0}")]
    DataLoss(Box<Loss>),
    #[error("message {seq} does not fit the schema{}: {reason}", if .column.is_empty() { String::new() } else { format!(" in {column}") })]
    Decode { seq: i64, column: String, reason: String },
    #[error("stream {stream:?} was deleted and created again while it was read")]
    StreamRecreated { stream: String },
    /// A wrong value in an argument; `argument` leads the text.
    #[error("{0}")]
    Value(String),
    #[error("{0}")]
    Type(String),
    #[error("this connection belongs to process {owner}; a forked child opens its own: call connect() in it")]
    Fork { owner: u32 },
    #[error("the server answered {what} with something unexpected: {answer}")]
    Protocol { what: String, answer: String },
    #[error("internal error (please report it): {0}")]
    Internal(String),
}

impl JetError {
    /// An answer that a server gives while it, or the stream's leader, is coming back: asking again may help.
    pub fn is_transient(&self) -> bool {
        const UNAVAILABLE: i64 = 503;
        matches!(
            self,
            JetError::Timeout { .. } | JetError::NoResponders { .. } | JetError::Api { code: UNAVAILABLE, .. }
        )
    }
}

/// What a range read asked for and what the stream still has.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    pub stream: String,
    /// Asked: [start, end).
    pub asked: (u64, u64),
    /// First sequence that can still be read.
    pub available: u64,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Loss { stream, asked: (start, end), available } = self;
        write!(
            f,
            "messages {start} to {} of stream {stream:?} are gone (retention, purge or delete): asked for [{start}, {end}), available from {available}; \
             start there, or pass on_data_loss=\"warn\" to read what is left",
            available.min(end).saturating_sub(1)
        )
    }
}

#[cfg(feature = "python")]
mod python {
    use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
    use pyo3::prelude::*;

    use super::JetError;

    fn class<'py>(py: Python<'py>, module: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
        py.import(module)?.getattr(name)
    }

    /// The exception object; building it can itself fail (a broken install), and then that failure is the answer.
    fn build<'py>(py: Python<'py>, err: &JetError) -> PyResult<Bound<'py, PyAny>> {
        let core = |name| class(py, "jetarrow.errors", name);
        let js = |name| class(py, "jetarrow.js.errors", name);
        let text = err.to_string();
        match err {
            JetError::NoServers { .. } => core("NoServersError")?.call1((text,)),
            JetError::BadAddress { .. } => core("BadAddressError")?.call1((text,)),
            JetError::Authorization { .. } => core("AuthorizationError")?.call1((text,)),
            JetError::Credentials { .. } => core("InvalidUserCredentialsError")?.call1((text,)),
            JetError::Callback { .. } | JetError::Server { .. } => core("Error")?.call1((text,)),
            JetError::SecureWanted { .. } => core("SecureConnWantedError")?.call1((text,)),
            JetError::SecureFailed { .. } => core("SecureConnFailedError")?.call1((text,)),
            JetError::ConnectTimeout { .. } => core("TimeoutError")?.call1((text,)),
            // Python picks the subclass: ConnectionRefusedError, FileNotFoundError ...
            JetError::Io { errno: Some(errno), .. } => {
                Ok(PyOSError::new_err((*errno, text)).into_value(py).into_bound(py).into_any())
            }
            JetError::Io { errno: None, .. } => Ok(PyOSError::new_err(text).into_value(py).into_bound(py).into_any()),
            JetError::Eof { .. } => core("UnexpectedEOF")?.call1((text,)),
            JetError::Stale { .. } => core("StaleConnectionError")?.call1((text,)),
            JetError::Permission { publish, subject, .. } => {
                let kwargs = pyo3::types::PyDict::new(py);
                kwargs.set_item("operation", if *publish { "publish" } else { "subscription" })?;
                kwargs.set_item("subject", subject)?;
                core("PermissionsViolationError")?.call((text,), Some(&kwargs))
            }
            JetError::Closed { .. } => core("ConnectionClosedError")?.call1((text,)),
            JetError::OutboundLimit { .. } => core("OutboundBufferLimitError")?.call1((text,)),
            JetError::Flush { .. } => core("FlushTimeoutError")?.call1((text,)),
            JetError::Timeout { .. } => core("TimeoutError")?.call1((text,)),
            JetError::NoResponders { .. } => core("NoRespondersError")?.call1((text,)),
            JetError::NoStream { .. } => js("NoStreamResponseError")?.call1((text,)),
            JetError::BadSubject { .. } => core("BadSubjectError")?.call1((text,)),
            JetError::BadHeader { name, .. } => {
                let kwargs = pyo3::types::PyDict::new(py);
                kwargs.set_item("message", text)?;
                core("BadHeaderError")?.call((name,), Some(&kwargs))
            }
            JetError::MaxPayload { .. } => core("MaxPayloadError")?.call1((text,)),
            JetError::Api { code, err_code, description } => {
                let answer = pyo3::types::PyDict::new(py);
                answer.set_item("code", code)?;
                answer.set_item("err_code", err_code)?;
                answer.set_item("description", description)?;
                js("APIError")?.call_method1("build", (answer,))
            }
            JetError::Unconfirmed { .. } => js("PublishUnconfirmedError")?.call1((text,)),
            JetError::Batch { row, cause } => {
                let kwargs = pyo3::types::PyDict::new(py);
                if let JetError::Api { code, err_code, description } = &**cause {
                    kwargs.set_item("code", code)?;
                    kwargs.set_item("err_code", err_code)?;
                    kwargs.set_item("description", description)?;
                }
                kwargs.set_item("row", row)?;
                let error = js("BatchError")?.call((text,), Some(&kwargs))?;
                error.setattr("__cause__", build(py, cause)?)?;
                Ok(error)
            }
            JetError::Unsupported { feature, needs, has } => core("UnsupportedError")?.call1((feature, needs, has)),
            JetError::DataLoss(loss) => {
                let kwargs = pyo3::types::PyDict::new(py);
                kwargs.set_item("asked", loss.asked)?;
                kwargs.set_item("available", loss.available)?;
                kwargs.set_item("message", text)?;
                js("DataLossError")?.call((), Some(&kwargs))
            }
            JetError::Decode { seq, column, .. } => {
                let kwargs = pyo3::types::PyDict::new(py);
                kwargs.set_item("seq", seq)?;
                kwargs.set_item("column", column)?;
                js("DecodeError")?.call((text,), Some(&kwargs))
            }
            JetError::StreamRecreated { .. } => js("StreamRecreatedError")?.call1((text,)),
            JetError::Fork { .. } => core("ForkError")?.call1((text,)),
            JetError::Protocol { .. } => core("ProtocolError")?.call1((text,)),
            JetError::Value(_) => Ok(PyValueError::new_err(text).into_value(py).into_bound(py).into_any()),
            JetError::Type(_) => Ok(PyTypeError::new_err(text).into_value(py).into_bound(py).into_any()),
            JetError::Internal(_) => Ok(PyRuntimeError::new_err(text).into_value(py).into_bound(py).into_any()),
        }
    }

    impl JetError {
        /// The exception as an object, for results that carry errors as values.
        pub fn to_exception<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
            build(py, self)
        }
    }

    impl From<JetError> for PyErr {
        fn from(err: JetError) -> PyErr {
            Python::attach(|py| match build(py, &err) {
                Ok(value) => PyErr::from_value(value),
                Err(broken) => broken,
            })
        }
    }
}
