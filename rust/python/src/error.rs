//! Conversion of errors into Python exceptions.

use std::convert::Infallible;
use std::io;
use std::ops::Deref;
use std::string::FromUtf8Error;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::error::PyArrowError;

use crate::python_call::begin_call;
use crate::python_names::{ERRORS, JS_ERRORS, TLS_ERRORS, import};
use base::error::JetError;
use base::error::rollback::{Found, Mark};

/// Returns module and name of the class, if its only argument is the text.
fn class_of(err: &JetError) -> Option<(&'static str, &'static str)> {
    let core = |name| Some((ERRORS, name));
    let js = |name| Some((JS_ERRORS, name));
    match err {
        JetError::NoServers { .. } => core("NoServersError"),
        JetError::NoAnswer { .. } => core("ConnectTimeoutError"),
        JetError::BadAddress { .. } => core("BadAddressError"),
        JetError::Authorization { .. } => core("AuthorizationError"),
        JetError::Credentials { .. } => core("InvalidUserCredentialsError"),
        JetError::Callback { .. } | JetError::Server { .. } | JetError::NoSubscription => core("Error"),
        JetError::SecureWanted { .. } => core("SecureConnWantedError"),
        JetError::SecureFailed { .. } => Some((TLS_ERRORS, "HandshakeError")),
        JetError::ConnectTimeout { .. } | JetError::Timeout { .. } | JetError::Unanswered { .. } => {
            core("TimeoutError")
        }
        JetError::Eof { .. } => core("UnexpectedEOF"),
        JetError::Stale { .. } => core("StaleConnectionError"),
        JetError::Closed { .. } | JetError::ProcessEnds => core("ConnectionClosedError"),
        JetError::OutboundLimit { .. } => core("OutboundBufferLimitError"),
        JetError::Flush { .. } | JetError::FlushBroken => core("FlushTimeoutError"),
        JetError::NoResponders { .. } => core("NoRespondersError"),
        JetError::BadSubject { .. } => core("BadSubjectError"),
        JetError::MaxPayload { .. } => core("MaxPayloadError"),
        JetError::Fork { .. } => core("ForkError"),
        JetError::Protocol { .. } => core("ProtocolError"),
        JetError::NotJetStream => core("NotJSMessageError"),
        JetError::NoStream { .. } | JetError::NoLeader { .. } => js("NoStreamResponseError"),
        JetError::Unconfirmed { .. } | JetError::Ambiguous { .. } | JetError::Forgotten { .. } => {
            js("PublishUnconfirmedError")
        }
        JetError::StreamRecreated { .. } => js("StreamRecreatedError"),
        // Built with their fields. Each is listed, so that a new error does not compile without a class.
        JetError::Io { .. }
        | JetError::Permission { .. }
        | JetError::BadHeader { .. }
        | JetError::Unsupported { .. } => None,
        JetError::Row { .. } | JetError::Value(_) | JetError::Type(_) | JetError::Internal(_) => None,
        JetError::Api { .. } | JetError::Batch { .. } | JetError::DataLoss(_) | JetError::Malformed { .. } => None,
        JetError::Decode { .. } | JetError::RolledBack(_) | JetError::Registry(_) => None,
    }
}

/// Builds the exception object.
///
/// It can fail itself, for example in a broken installation. Then that failure is raised.
fn build<'py>(py: Python<'py>, err: &JetError) -> pyo3::PyResult<Bound<'py, PyAny>> {
    let _call = begin_call(py);
    let text = err.to_string();
    if let Some((module, name)) = class_of(err) {
        return import(py, module, name)?.call1((text,));
    }
    let core = |name| import(py, ERRORS, name);
    let fields = PyDict::new(py);
    match err {
        // Python selects the subclass: ConnectionRefusedError, FileNotFoundError and others.
        JetError::Io { errno: Some(errno), .. } => Ok(object(py, PyOSError::new_err((*errno, text)))),
        JetError::Io { errno: None, .. } => Ok(object(py, PyOSError::new_err(text))),
        JetError::Permission { publish, subject, .. } => {
            fields.set_item("operation", if *publish { "publish" } else { "subscription" })?;
            fields.set_item("subject", subject)?;
            core("PermissionsViolationError")?.call((text,), Some(&fields))
        }
        JetError::BadHeader { name, .. } => {
            fields.set_item("message", text)?;
            core("BadHeaderError")?.call((name,), Some(&fields))
        }
        JetError::Unsupported { feature, needs, has } => core("UnsupportedError")?.call1((feature, needs, has)),
        JetError::Row { row, reason } => {
            let error = object(py, PyValueError::new_err(text));
            error.setattr("row", row)?;
            error.setattr("reason", reason)?;
            Ok(error)
        }
        JetError::Value(_) => Ok(object(py, PyValueError::new_err(text))),
        JetError::Type(_) => Ok(object(py, PyTypeError::new_err(text))),
        JetError::Internal(_) => Ok(object(py, PyRuntimeError::new_err(text))),
        _ => build_jetstream(py, err, text, &fields),
    }
}

/// As `build`, for the errors of JetStream that have fields.
fn build_jetstream<'py>(
    py: Python<'py>,
    err: &JetError,
    text: String,
    fields: &Bound<'py, PyDict>,
) -> pyo3::PyResult<Bound<'py, PyAny>> {
    let class = |name| import(py, JS_ERRORS, name);
    match err {
        JetError::Api { code, err_code, description, stream } => {
            set_codes(fields, *code, *err_code, description)?;
            fields.set_item("stream", stream)?;
            class("APIError")?.call_method1("build", (fields,))
        }
        JetError::Batch { row, cause } => {
            if let JetError::Api { code, err_code, description, stream } = &**cause {
                set_codes(fields, *code, *err_code, description)?;
                fields.set_item("stream", stream)?;
            }
            fields.set_item("row", row)?;
            let error = class("BatchError")?.call((text,), Some(fields))?;
            error.setattr("__cause__", build(py, cause)?)?;
            Ok(error)
        }
        JetError::DataLoss(loss) => {
            fields.set_item("asked", loss.asked)?;
            fields.set_item("available", loss.available)?;
            fields.set_item("message", text)?;
            class("DataLossError")?.call((), Some(fields))
        }
        JetError::Malformed { subject, stored } => {
            if let Some((stream, seq)) = stored {
                fields.set_item("stream", stream)?;
                fields.set_item("seq", seq)?;
            }
            fields.set_item("subject", subject)?;
            class("MalformedMessageError")?.call((text,), Some(fields))
        }
        JetError::Decode { seq, column, .. } => {
            fields.set_item("seq", seq)?;
            fields.set_item("column", column)?;
            class("DecodeError")?.call((text,), Some(fields))
        }
        JetError::Registry(failure) => {
            fields.set_item("url", &failure.url)?;
            fields.set_item("status", failure.status)?;
            fields.set_item("code", failure.code)?;
            fields.set_item("schema_id", failure.schema_id)?;
            class("SchemaRegistryError")?.call((text,), Some(fields))
        }
        JetError::RolledBack(rollback) => {
            let mark = |mark: Mark| (mark.seq, mark.nanos);
            let found = match rollback.found {
                Found::End { last_seq } => (last_seq, None),
                Found::Other(other) => (other.seq, Some(other.nanos)),
            };
            let arguments = (&rollback.stream, mark(rollback.expected), found, rollback.last_good.map(mark));
            class("StreamRolledBackError")?.call_method1("of_nanoseconds", arguments)
        }
        _ => Ok(object(py, PyRuntimeError::new_err(text))),
    }
}

fn set_codes(fields: &Bound<'_, PyDict>, code: i64, err_code: i64, description: &str) -> pyo3::PyResult<()> {
    fields.set_item("code", code)?;
    fields.set_item("err_code", err_code)?;
    fields.set_item("description", description)
}

fn object(py: Python<'_>, err: PyErr) -> Bound<'_, PyAny> {
    err.into_value(py).into_bound(py).into_any()
}

/// Returns the exception as an object, for results that contain errors as values.
pub fn to_exception<'py>(py: Python<'py>, err: &JetError) -> pyo3::PyResult<Bound<'py, PyAny>> {
    build(py, err)
}

/// An exception to raise, from an error of the engine or of Python.
#[derive(Debug)]
pub struct Raised(PyErr);

/// Shadows pyo3's type, so that `?` converts errors of the engine too.
pub type PyResult<T, E = Raised> = std::result::Result<T, E>;

impl From<JetError> for Raised {
    fn from(err: JetError) -> Self {
        Raised(Python::attach(|py| match build(py, &err) {
            Ok(value) => PyErr::from_value(value),
            Err(broken) => broken,
        }))
    }
}

macro_rules! raised_from {
    ($($error:ty),*) => {
        $(impl From<$error> for Raised {
            fn from(err: $error) -> Self {
                Raised(err.into())
            }
        })*
    };
}

raised_from!(PyErr, PyArrowError, FromUtf8Error, Infallible, io::Error);

impl Deref for Raised {
    type Target = PyErr;

    fn deref(&self) -> &PyErr {
        &self.0
    }
}

impl From<Raised> for PyErr {
    fn from(raised: Raised) -> Self {
        raised.0
    }
}
