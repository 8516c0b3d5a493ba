//! The status of a connection.

use std::sync::atomic::Ordering;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::Call;
use crate::connect::Connection;
use crate::error::{PyResult, to_exception};
use crate::options::info_dict;
use client::{Latency, Verb, pool};

/// One server of the pool.
#[pyclass(frozen, get_all, module = "jetarrow._jetarrow")]
pub struct PoolServer {
    /// Without user and password.
    url: String,
    /// Failed attempts since the last success.
    failures: u32,
    /// True if another server announced it.
    discovered: bool,
}

#[pymethods]
impl Connection {
    /// Number of disconnects so far.
    #[getter]
    fn breaks(&self) -> PyResult<u64> {
        Ok(self.connection()?.breaks())
    }

    #[getter]
    fn is_connected(&self) -> PyResult<bool> {
        Ok(self.connection()?.link.borrow().up)
    }

    #[getter]
    fn is_closed(&self) -> PyResult<bool> {
        Ok(self.connection()?.link.borrow().closed)
    }

    /// The server's limit, in bytes.
    #[getter]
    fn max_payload(&self) -> PyResult<usize> {
        Ok(self.connection()?.client.max_payload())
    }

    #[getter]
    fn server_version(&self) -> PyResult<String> {
        Ok(self.connection()?.client.server_info().version)
    }

    /// The server's INFO as a dict with the protocol's names.
    #[getter]
    fn server_info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        info_dict(py, &self.connection()?.client.server_info())
    }

    #[getter]
    fn client_id(&self) -> PyResult<u64> {
        Ok(self.connection()?.client.server_info().client_id)
    }

    #[getter]
    fn client_ip(&self) -> PyResult<String> {
        Ok(self.connection()?.client.server_info().client_ip)
    }

    /// The current server's URL, without user and password.
    #[getter]
    fn connected_url(&self) -> PyResult<Option<String>> {
        Ok(self.connection()?.state.current().as_ref().map(pool::url))
    }

    /// All servers of the pool.
    #[getter]
    fn servers(&self) -> PyResult<Vec<PoolServer>> {
        let pool = self.connection()?.state.pool();
        let servers = pool.servers().map(|server| PoolServer {
            url: pool::url(&server.addr),
            failures: server.failures,
            discovered: server.discovered,
        });
        Ok(servers.collect())
    }

    #[getter]
    fn last_error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.connection()?.state.last_error().map(|error| to_exception(py, &error)).transpose()?)
    }

    /// Counters so far, by nats-py's names.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let conn = self.connection()?;
        let all = conn.client.statistics();
        let (received, sent) = conn.traffic.counts();
        let (reconnects, errors) = conn.state.counts();
        let dict = PyDict::new(py);
        dict.set_item("in_msgs", all.in_messages.load(Ordering::Relaxed))?;
        dict.set_item("out_msgs", all.out_messages.load(Ordering::Relaxed))?;
        dict.set_item("in_bytes", received)?;
        dict.set_item("out_bytes", sent)?;
        dict.set_item("reconnects", reconnects)?;
        dict.set_item("errors_received", errors)?;
        Ok(dict)
    }

    /// Messages that were resent, and messages that subscriptions dropped.
    fn troubles(&self) -> PyResult<(u64, u64)> {
        Ok(self.connection()?.traffic.troubles())
    }

    /// Returns the messages and bytes of each verb so far, by its name.
    fn moved<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let conn = self.connection()?;
        let verbs = PyDict::new(py);
        for verb in Verb::ALL {
            let moved = conn.traffic.moved(verb);
            let counts = PyDict::new(py);
            counts.set_item("in_msgs", moved.in_msgs)?;
            counts.set_item("out_msgs", moved.out_msgs)?;
            counts.set_item("in_bytes", moved.in_bytes)?;
            counts.set_item("out_bytes", moved.out_bytes)?;
            counts.set_item("resent", moved.resent)?;
            verbs.set_item(verb.name(), counts)?;
        }
        Ok(verbs)
    }

    /// Messages of `publish_batch` in flight, and their bytes.
    fn flying(&self) -> PyResult<(u64, u64)> {
        Ok(self.connection()?.traffic.flying())
    }

    /// Histogram of the ack latency: (upper bound in seconds, count) for each bucket, the count above, and the sum of
    /// seconds.
    fn ack_latency(&self) -> PyResult<Latency> {
        Ok(self.connection()?.traffic.ack_latency())
    }

    /// Closes the connection to the server and reconnects.
    fn force_reconnect(&self) -> PyResult<Call> {
        let conn = self.get()?;
        Ok(Call::unit(async move { conn.force_reconnect().await }))
    }

    /// Replaces the list of servers.
    fn set_server_pool(&self, servers: Vec<String>) -> PyResult<()> {
        Ok(self.connection()?.set_server_pool(&servers)?)
    }
}
