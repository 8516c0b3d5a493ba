//! The class `Connection`, and its opening and closing.

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

/// A connection. Its verbs are in the modules of this crate.
#[pyclass(frozen, weakref, module = "jetarrow._jetarrow")]
pub struct Connection {
    inner: Owned<Arc<engine::Connection>>,
    /// Id of the event loop that will flush the outbox at the end of its iteration; 0 for none.
    pub promised: AtomicUsize,
    /// The publishers whose messages precede later core messages.
    pub publisher_fences: Arc<PublisherFences>,
    /// Copies of core messages.
    pub copies: Mutex<Copies>,
}

impl Connection {
    /// Returns the connection. Fails in a forked process.
    pub fn get(&self) -> Result<Arc<engine::Connection>, JetError> {
        self.inner.get().cloned()
    }

    /// Borrows the connection. Fails in a forked process.
    pub fn connection(&self) -> Result<&engine::Connection, JetError> {
        self.inner.get().map(|conn| &**conn)
    }
}

/// Opens a connection. The call's result is a `Connection`.
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
    /// Flushes the outbox and closes the connection. With `hurry` it does not wait for a slow server.
    #[pyo3(signature = (hurry=false))]
    fn close(&self, hurry: bool) -> PyResult<Call> {
        let conn = self.get()?;
        Ok(Call::unit(async move {
            conn.close(hurry).await;
            Ok(())
        }))
    }
}
