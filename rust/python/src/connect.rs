//! The connection as Python holds it, and the verbs that go through it.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;

use crate::call::Call;
use crate::copies::Copies;
use crate::error::PyResult;
use crate::notices::Notices;
use crate::options::RawOptions;
use crate::publisher_fence::PublisherFences;
use base::error::JetError;
use client as engine;
use runtime::Owned;

#[pyclass(frozen, weakref, module = "jetarrow._jetarrow")]
pub struct Connection {
    inner: Owned<Arc<engine::Connection>>,
    /// The event loop that will kick the outbox at the end of its turn; 0 is none.
    pub promised: AtomicUsize,
    /// The publishers that core messages stay behind.
    pub publisher_fences: Arc<PublisherFences>,
    /// Of core messages.
    pub copies: Mutex<Copies>,
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
#[pyo3(signature = (options, notices))]
pub fn connect(py: Python<'_>, options: RawOptions, notices: Option<&Notices>) -> PyResult<Call> {
    let options = options.into_options(py, notices)?;
    Ok(Call::new(engine::connect(options), |py, conn| {
        let inner = Owned::new(Arc::new(conn));
        let (promised, publisher_fences, copies) = (AtomicUsize::new(0), Arc::default(), Mutex::default());
        Ok(Connection { inner, promised, publisher_fences, copies }.into_pyobject(py)?.into_any())
    }))
}

#[pymethods]
impl Connection {
    /// Sends what is queued and ends the connection; in a hurry without waiting for a server that is slow.
    #[pyo3(signature = (hurry=false))]
    fn close(&self, hurry: bool) -> PyResult<Call> {
        let conn = self.get()?;
        Ok(Call::unit(async move {
            conn.close(hurry).await;
            Ok(())
        }))
    }
}
