//! What a connection knows about itself.

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
    /// Another server announced it.
    discovered: bool,
}

#[pymethods]
impl Connection {
    /// How often the link has broken so far.
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

    /// The server's INFO, by the names of the protocol.
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

    /// The server that we are connected to, without user and password.
    #[getter]
    fn connected_url(&self) -> PyResult<Option<String>> {
        Ok(self.connection()?.state.current().as_ref().map(pool::url))
    }

    /// Every server that may be connected to.
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

    /// Counts so far, by nats-py's names.
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

    /// Messages that were published once more, and those that subscriptions dropped.
    fn troubles(&self) -> PyResult<(u64, u64)> {
        Ok(self.connection()?.traffic.troubles())
    }

    /// What each verb has moved so far, by its name.
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

    /// Messages of `publish_batch` that are unanswered, and their bytes.
    fn flying(&self) -> PyResult<(u64, u64)> {
        Ok(self.connection()?.traffic.flying())
    }

    /// What acks took: (most seconds, how many), how many took longer than the last, and the seconds of all.
    fn ack_latency(&self) -> PyResult<Latency> {
        Ok(self.connection()?.traffic.ack_latency())
    }

    /// Drops the link and connects anew.
    fn force_reconnect(&self) -> PyResult<Call> {
        let conn = self.get()?;
        Ok(Call::unit(async move { conn.force_reconnect().await }))
    }

    /// Puts another list of servers in the place of the present one.
    fn set_server_pool(&self, servers: Vec<String>) -> PyResult<()> {
        Ok(self.connection()?.set_server_pool(&servers)?)
    }
}
