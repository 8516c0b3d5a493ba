//! Conversion of errors into Python exceptions.

use std::convert::Infallible;
use std::io;
use std::ops::Deref;
use std::string::FromUtf8Error;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3_arrow::error::PyArrowError;

use crate::python_names::{ERRORS, JS_ERRORS, TLS_ERRORS, import};
use base::error::JetError;
use base::error::rollback::{Found, Mark};

/// Builds the exception object. The function is long because every error has its arm here.
///
/// It can fail itself, for example in a broken installation. Then that failure is raised.
fn build<'py>(py: Python<'py>, err: &JetError) -> pyo3::PyResult<Bound<'py, PyAny>> {
    let core = |name| import(py, ERRORS, name);
    let js = |name| import(py, JS_ERRORS, name);
    let text = err.to_string();
    match err {
        JetError::NoServers { .. } => core("NoServersError")?.call1((text,)),
        JetError::NoAnswer { .. } => core("ConnectTimeoutError")?.call1((text,)),
        JetError::BadAddress { .. } => core("BadAddressError")?.call1((text,)),
        JetError::Authorization { .. } => core("AuthorizationError")?.call1((text,)),
        JetError::Credentials { .. } => core("InvalidUserCredentialsError")?.call1((text,)),
        JetError::Callback { .. } | JetError::Server { .. } => core("Error")?.call1((text,)),
        JetError::SecureWanted { .. } => core("SecureConnWantedError")?.call1((text,)),
        JetError::SecureFailed { .. } => import(py, TLS_ERRORS, "HandshakeError")?.call1((text,)),
        JetError::ConnectTimeout { .. } => core("TimeoutError")?.call1((text,)),
        // Python selects the subclass: ConnectionRefusedError, FileNotFoundError and others.
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
        JetError::Closed { .. } | JetError::ProcessEnds => core("ConnectionClosedError")?.call1((text,)),
        JetError::OutboundLimit { .. } => core("OutboundBufferLimitError")?.call1((text,)),
        JetError::Flush { .. } | JetError::FlushBroken => core("FlushTimeoutError")?.call1((text,)),
        JetError::Timeout { .. } | JetError::Unanswered { .. } => core("TimeoutError")?.call1((text,)),
        JetError::NoResponders { .. } => core("NoRespondersError")?.call1((text,)),
        JetError::NoStream { .. } | JetError::NoLeader { .. } => js("NoStreamResponseError")?.call1((text,)),
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
        JetError::Unconfirmed { .. } | JetError::Ambiguous { .. } | JetError::Forgotten { .. } => {
            js("PublishUnconfirmedError")?.call1((text,))
        }
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
        JetError::Malformed { subject, stored } => {
            let kwargs = pyo3::types::PyDict::new(py);
            if let Some((stream, seq)) = stored {
                kwargs.set_item("stream", stream)?;
                kwargs.set_item("seq", seq)?;
            }
            kwargs.set_item("subject", subject)?;
            js("MalformedMessageError")?.call((text,), Some(&kwargs))
        }
        JetError::Decode { seq, column, .. } => {
            let kwargs = pyo3::types::PyDict::new(py);
            kwargs.set_item("seq", seq)?;
            kwargs.set_item("column", column)?;
            js("DecodeError")?.call((text,), Some(&kwargs))
        }
        JetError::RolledBack(rollback) => {
            let mark = |mark: Mark| (mark.seq, mark.nanos);
            let found = match rollback.found {
                Found::End { last_seq } => (last_seq, None),
                Found::Other(other) => (other.seq, Some(other.nanos)),
            };
            let arguments = (&rollback.stream, mark(rollback.expected), found, rollback.last_good.map(mark));
            js("StreamRolledBackError")?.call_method1("of_nanoseconds", arguments)
        }
        JetError::StreamRecreated { .. } => js("StreamRecreatedError")?.call1((text,)),
        JetError::Fork { .. } => core("ForkError")?.call1((text,)),
        JetError::Protocol { .. } => core("ProtocolError")?.call1((text,)),
        JetError::Row { row, reason } => {
            let error = PyValueError::new_err(text).into_value(py).into_bound(py).into_any();
            error.setattr("row", row)?;
            error.setattr("reason", reason)?;
            Ok(error)
        }
        JetError::NoSubscription => core("Error")?.call1((text,)),
        JetError::NotJetStream => core("NotJSMessageError")?.call1((text,)),
        JetError::Value(_) => Ok(PyValueError::new_err(text).into_value(py).into_bound(py).into_any()),
        JetError::Type(_) => Ok(PyTypeError::new_err(text).into_value(py).into_bound(py).into_any()),
        JetError::Internal(_) => Ok(PyRuntimeError::new_err(text).into_value(py).into_bound(py).into_any()),
    }
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
