//! One message as Python holds it.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict, PyList};

use crate::engine::columns::meta::{Meta, domain, parse_meta};
use crate::engine::receive::ack::Verb;
use crate::engine::receive::message::Received;
use crate::error::JetError;
use crate::py::headers;
use crate::python_names::{JS_API, METADATA, import};

/// A message.
#[pyclass(frozen, module = "jetarrow.aio.msg")]
pub struct Msg {
    /// Takes the acks: awaits them, or blocks, as its face does.
    session: Option<Py<PyAny>>,
    content: Received,
    acked: AtomicBool,
    /// Its subscription's number, where it came from one.
    sid: Option<u64>,
}

impl Msg {
    pub fn received(session: Py<PyAny>, message: impl Into<Received>) -> Self {
        Msg::build(Some(session), message.into())
    }

    pub fn build(session: Option<Py<PyAny>>, content: Received) -> Self {
        Msg { session, content, acked: AtomicBool::new(false), sid: None }
    }

    pub fn of(mut self, sid: u64) -> Self {
        self.sid = Some(sid);
        self
    }

    fn meta(&self) -> Option<Meta<'_>> {
        parse_meta(self.content.reply())
    }

    fn session<'py>(&self, py: Python<'py>) -> Result<&Bound<'py, PyAny>, JetError> {
        self.session.as_ref().map(|session| session.bind(py)).ok_or(JetError::NoConnection)
    }

    /// Hands an ack to the session. Like every other outcome, a refusal comes with the await.
    fn send_ack<'py>(&self, py: Python<'py>, verb: Verb, options: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
        let session = self.session(py)?;
        if self.meta().is_none() {
            return fail(session, &JetError::NotJetStream);
        }
        if verb.is_final() && self.acked.swap(true, Ordering::Relaxed) {
            return fail(session, &JetError::AlreadyAcknowledged);
        }
        session.call_method(intern!(py, "ack"), (self.reply(), verb.name()), Some(options))
    }
}

/// What the session gives its caller to await in the place of a result.
fn fail<'py>(session: &Bound<'py, PyAny>, error: &JetError) -> PyResult<Bound<'py, PyAny>> {
    let py = session.py();
    session.call_method1(intern!(py, "fail"), (error.to_exception(py)?,))
}

#[pymethods]
impl Msg {
    #[new]
    #[pyo3(signature = (_client=None, subject="", reply="", data=None, headers=None))]
    fn new(
        py: Python<'_>,
        _client: Option<Py<PyAny>>,
        subject: &str,
        reply: &str,
        data: Option<&[u8]>,
        headers: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let headers = headers.map(headers::from_python).transpose()?;
        // By hand it is made with a client: the verbs go through that one's session.
        let session =
            _client.map(|client| client.bind(py).getattr("_session").map_or(client.clone_ref(py), Bound::unbind));
        Ok(Msg::build(session, Received::new(subject, reply, data.unwrap_or_default(), headers)))
    }

    #[getter]
    fn subject(&self) -> &str {
        self.content.subject()
    }

    #[getter]
    fn reply(&self) -> &str {
        self.content.reply()
    }

    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.content.data())
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        if let Some(raw) = &self.content.raw_headers {
            let last = raw.iter().map(|(name, values)| (name, values.last()));
            return Ok(Some(last.into_py_dict(py)?));
        }
        let Some(map) = &self.content.headers else { return Ok(None) };
        let dict = PyDict::new(py);
        for (name, values) in map.iter() {
            if let Some(last) = values.last() {
                dict.set_item(AsRef::<str>::as_ref(name), last.as_str())?;
            }
        }
        Ok(Some(dict))
    }

    #[getter]
    fn header<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.headers(py)
    }

    #[getter]
    fn headers_all<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        if let Some(raw) = &self.content.raw_headers {
            return Ok(Some((&**raw).into_py_dict(py)?));
        }
        let Some(map) = &self.content.headers else { return Ok(None) };
        let dict = PyDict::new(py);
        for (name, values) in map.iter() {
            dict.set_item(AsRef::<str>::as_ref(name), PyList::new(py, values.iter().map(|v| v.as_str()))?)?;
        }
        Ok(Some(dict))
    }

    /// The stream's sequence; None for a message that comes from no stream.
    #[getter]
    fn seq(&self) -> Option<i64> {
        self.meta().map(|meta| meta.seq)
    }

    #[getter]
    fn redelivered(&self) -> bool {
        self.meta().is_some_and(|meta| meta.delivered > 1)
    }

    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Some(meta) = self.meta() else {
            return Err(JetError::NotJetStream.into());
        };
        let Meta { stream, consumer, delivered, seq, consumer_seq, nanos, pending } = meta;
        import(py, METADATA, "build")?.call1((
            stream,
            consumer,
            delivered,
            seq,
            consumer_seq,
            nanos,
            pending,
            domain(self.reply()),
        ))
    }

    /// Publishes an answer to the message's reply subject, with the message's own headers, as nats-py does.
    #[pyo3(signature = (data))]
    fn respond<'py>(&self, py: Python<'py>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let session = self.session(py)?;
        if self.reply().is_empty() {
            return fail(session, &JetError::NoReply);
        }
        let arguments = (self.reply(), data, self.headers_all(py)?);
        session.call_method1(intern!(py, "respond"), arguments)
    }

    fn ack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.send_ack(py, Verb::Ack, &PyDict::new(py))
    }

    #[pyo3(signature = (timeout=1.0))]
    fn ack_sync<'py>(&self, py: Python<'py>, timeout: f64) -> PyResult<Bound<'py, PyAny>> {
        let options = PyDict::new(py);
        options.set_item("confirm", timeout)?;
        self.send_ack(py, Verb::Ack, &options)
    }

    #[pyo3(signature = (delay=None))]
    fn nak<'py>(&self, py: Python<'py>, delay: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let options = PyDict::new(py);
        options.set_item("delay", delay)?;
        self.send_ack(py, Verb::Nak, &options)
    }

    fn in_progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.send_ack(py, Verb::InProgress, &PyDict::new(py))
    }

    #[pyo3(signature = (reason=None))]
    fn term<'py>(&self, py: Python<'py>, reason: Option<String>) -> PyResult<Bound<'py, PyAny>> {
        let options = PyDict::new(py);
        options.set_item("reason", reason)?;
        self.send_ack(py, Verb::Term, &options)
    }

    /// True once one of the verbs that can be sent only once was.
    #[getter]
    fn is_acked(&self) -> bool {
        self.acked.load(Ordering::Relaxed)
    }

    #[getter]
    fn sid(&self) -> PyResult<u64> {
        Ok(self.sid.ok_or(JetError::NoSubscription)?)
    }

    /// nats-py's names: the ack protocol's words, and the class of `metadata`.
    #[classattr]
    #[pyo3(name = "Ack")]
    fn ack_words(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        import(py, METADATA, "Ack")
    }

    #[classattr]
    #[pyo3(name = "Metadata")]
    fn metadata_class(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        import(py, METADATA, "Metadata")
    }

    /// nats.js's name of `metadata`.
    #[getter]
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.metadata(py)
    }

    /// nats.js's name of `in_progress`.
    fn working<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.in_progress(py)
    }

    /// The ack verb that `kind` (an `AckKind`, or a name or value of one) names.
    #[pyo3(signature = (kind, *, delay=None, reason=None))]
    fn ack_with<'py>(
        &self,
        py: Python<'py>,
        kind: &Bound<'py, PyAny>,
        delay: Option<f64>,
        reason: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // It takes names and values too, and its error lists them.
        let kind = import(py, JS_API, "AckKind")?.call1((kind,))?;
        let name: String = kind.getattr(intern!(py, "name"))?.extract()?;
        match Verb::from_server_name(&name)? {
            Verb::Ack => self.ack(py),
            Verb::Nak => self.nak(py, delay),
            Verb::InProgress => self.in_progress(py),
            Verb::Term => self.term(py, reason),
        }
    }

    fn __repr__(&self) -> String {
        format!("<Msg: subject='{}' reply='{}' {} bytes>", self.subject(), self.reply(), self.content.data().len())
    }
}
