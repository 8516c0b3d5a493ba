//! The connection as Python holds it, and the verbs that go through it.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::engine::connect::{self as engine, Options};
use crate::error::JetError;
use crate::py::call::Call;
use crate::runtime::Owned;

/// Seconds from Python: finite, not negative, and short enough that no clock overflows.
pub fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    const YEAR: f64 = 366.0 * 24.0 * 3600.0;
    if value.is_nan() || value < 0.0 {
        return Err(PyValueError::new_err(format!("{name} must be a number of seconds, 0 or more, not {value}")));
    }
    Ok(Duration::from_secs_f64(value.min(YEAR)))
}

#[pyclass(frozen, weakref, module = "jetarrow._jetarrow")]
pub struct Connection {
    inner: Owned<Arc<engine::Connection>>,
    /// The event loop that will kick the outbox at the end of its turn; 0 is none.
    pub promised: AtomicUsize,
}

impl Connection {
    /// The connection, for use in this process only.
    pub fn get(&self) -> Result<Arc<engine::Connection>, JetError> {
        self.inner.get().cloned()
    }

    pub fn connection(&self) -> Result<&engine::Connection, JetError> {
        self.inner.get().map(|conn| &**conn)
    }
}

/// Opens a connection; the call's result is a `Connection`.
#[pyfunction]
#[pyo3(signature = (servers, *, name=None, connect_timeout=2.0, ping_interval=10.0, user=None, password=None, token=None,
                    credentials=None, inbox_prefix=None, no_echo=false, max_reconnects=None, reconnect_wait=0.25))]
pub fn connect(
    servers: Vec<String>,
    name: Option<String>,
    connect_timeout: f64,
    ping_interval: f64,
    user: Option<String>,
    password: Option<String>,
    token: Option<String>,
    credentials: Option<String>,
    inbox_prefix: Option<String>,
    no_echo: bool,
    max_reconnects: Option<usize>,
    reconnect_wait: f64,
) -> PyResult<Call> {
    let options = Options {
        servers,
        name,
        connect_timeout: Some(seconds("connect_timeout", connect_timeout)?),
        ping_interval: Some(seconds("ping_interval", ping_interval)?),
        user,
        password,
        token,
        credentials,
        inbox_prefix,
        no_echo,
        max_reconnects,
        reconnect_wait: Some(seconds("reconnect_time_wait", reconnect_wait)?),
    };
    Ok(Call::new(engine::connect(options), |py, conn| {
        Ok(Connection { inner: Owned::new(Arc::new(conn)), promised: AtomicUsize::new(0) }
            .into_pyobject(py)?
            .into_any())
    }))
}

#[pymethods]
impl Connection {
    /// Sends what is queued and ends the connection.
    fn close(&self) -> PyResult<Call> {
        let conn = self.get()?;
        Ok(Call::new(async move { conn.close().await }, |py, ()| Ok(py.None().into_bound(py))))
    }

    #[getter]
    fn is_connected(&self) -> PyResult<bool> {
        Ok(self.get()?.link.borrow().up)
    }

    #[getter]
    fn is_closed(&self) -> PyResult<bool> {
        Ok(self.get()?.link.borrow().closed)
    }

    /// The server's limit, in bytes.
    #[getter]
    fn max_payload(&self) -> PyResult<usize> {
        Ok(self.get()?.client.max_payload())
    }

    #[getter]
    fn server_version(&self) -> PyResult<String> {
        Ok(self.get()?.client.server_info().version)
    }
}
