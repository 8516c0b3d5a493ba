//! The class `Msg`: one message as a Python object.
//!
//! The received fields are native. Fields that a program sets, and attributes that it adds, are in a dict that is
//! created for them. The verbs are written in Python (`jetarrow.core.message`).

mod form;
mod verbs;

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict, PyList, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit, intern};

use crate::error::PyResult;
use crate::python_names::{MESSAGE, METADATA, import};
use base::error::JetError;
use jetstream::receive::message::Received;
use wire::ack_subject::{AckSubject, domain, parse_ack_subject};
use wire::headers::Headers;

pub use form::MessageFormat;

/// The key of a sequence among the set fields; a program cannot set `seq`.
const SEQ: &str = "seq";

/// A message whose verbs are awaited.
#[pyclass(frozen, subclass, weakref, module = "jetarrow.aio.msg")]
pub struct Msg {
    /// The session for the verbs; `None` for a message that a program created.
    session: Option<Py<PyAny>>,
    content: Received,
    acked: AtomicBool,
    /// Number of the subscription, if the message has one.
    sid: Option<NonZeroU64>,
    /// Fields and attributes that a program has set. They have precedence over the received fields.
    written: OnceLock<Py<PyDict>>,
}

/// A message whose verbs block. It is a subclass of `Msg`, because a common base class would slow down each message in
/// the garbage collector.
#[pyclass(frozen, subclass, extends = Msg, name = "Msg", module = "jetarrow.sync.msg")]
pub struct SyncMsg;

#[pymethods]
impl SyncMsg {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyClassInitializer<Self> {
        PyClassInitializer::from(Msg::empty()).add_subclass(SyncMsg)
    }
}

/// Adds the classes to the module, after Python has set its functions on them.
pub fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let (msg, sync_msg) = (py.get_type::<Msg>(), py.get_type::<SyncMsg>());
    import(py, MESSAGE, "complete")?.call1((&msg, &sync_msg))?;
    module.add("Msg", msg)?;
    Ok(module.add("SyncMsg", sync_msg)?)
}

impl Msg {
    fn new(session: Option<Py<PyAny>>, content: Received, sid: Option<u64>) -> Self {
        Msg {
            session,
            content,
            acked: AtomicBool::new(false),
            sid: sid.and_then(NonZeroU64::new),
            written: OnceLock::new(),
        }
    }

    /// Returns the received fields.
    pub fn content(&self) -> &Received {
        &self.content
    }

    fn empty() -> Self {
        Msg::new(None, Received::new("", "", b"", None), None)
    }

    fn written<'py>(&self, py: Python<'py>, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.written.get().map_or(Ok(None), |written| Ok(written.bind(py).get_item(name)?))
    }

    /// Returns the dict of set attributes, and creates it at first use. If two threads create it, one dict is
    /// discarded.
    fn dictionary<'py>(&self, py: Python<'py>) -> Bound<'py, PyDict> {
        if let Some(written) = self.written.get() {
            return written.bind(py).clone();
        }
        let _theirs_came_first = self.written.set(PyDict::new(py).unbind());
        self.written.get().map_or_else(|| PyDict::new(py), |written| written.bind(py).clone())
    }

    fn write(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        Ok(self.dictionary(py).set_item(name, value)?)
    }

    /// Sets the sequence of a message that was read without an ack subject.
    pub fn set_seq(&self, py: Python<'_>, seq: i64) -> PyResult<()> {
        Ok(self.dictionary(py).set_item(intern!(py, SEQ), seq)?)
    }

    /// Returns the reply subject, if it is a str.
    fn reply_subject(&self, py: Python<'_>) -> PyResult<Cow<'_, str>> {
        Ok(match self.written(py, intern!(py, "reply"))? {
            None => Cow::Borrowed(self.content.reply()),
            Some(reply) => Cow::Owned(reply.extract().unwrap_or_default()),
        })
    }

    /// Returns the received headers: name to all values.
    fn headers_that_came<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        Ok(self.content.headers.as_deref().map(|headers| headers.into_py_dict(py)).transpose()?)
    }

    /// Returns the received headers: name to the last value.
    fn last_headers<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let last = |headers: &Headers| headers.iter().map(|(name, values)| (name, values.last())).into_py_dict(py);
        Ok(self.content.headers.as_deref().map(last).transpose()?)
    }
}

#[pymethods]
impl Msg {
    /// The arguments are for `__init__`, which is written in Python.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn py_new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Msg::empty()
    }

    /// The subject that the message was published to.
    #[getter]
    fn subject<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let written = self.written(py, intern!(py, "subject"))?;
        Ok(written.unwrap_or_else(|| PyString::new(py, self.content.subject()).into_any()))
    }

    #[setter]
    fn set_subject(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.write(py, "subject", value)
    }

    /// The subject for a reply; for a JetStream message the subject for its ack.
    #[getter]
    fn reply<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let written = self.written(py, intern!(py, "reply"))?;
        Ok(written.unwrap_or_else(|| PyString::new(py, self.content.reply()).into_any()))
    }

    #[setter]
    fn set_reply(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.write(py, "reply", value)
    }

    /// The payload.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let written = self.written(py, intern!(py, "data"))?;
        Ok(written.unwrap_or_else(|| PyBytes::new(py, self.content.data()).into_any()))
    }

    #[setter]
    fn set_data(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.write(py, "data", value)
    }

    /// Header name to its value, the last one if there are several; None without headers. Changes to the dict persist.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if let Some(headers) = self.written(py, intern!(py, "headers"))? {
            return Ok(Some(headers));
        }
        let Some(headers) = self.last_headers(py)? else { return Ok(None) };
        self.write(py, "headers", &headers)?;
        Ok(Some(headers.into_any()))
    }

    #[setter]
    fn set_headers(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.write(py, "headers", value)
    }

    /// The same as `headers`.
    #[getter]
    fn header<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.headers(py)
    }

    /// Header name to all its values; None without headers. Includes values that were set in `headers`.
    #[getter]
    fn headers_all<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let came = self.headers_that_came(py)?;
        let Some(headers) = self.written(py, intern!(py, "headers"))? else { return Ok(came.map(Bound::into_any)) };
        let Ok(headers) = headers.cast::<PyDict>() else { return Ok(Some(headers)) };
        let all = PyDict::new(py);
        for entry in headers.items() {
            let (name, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = entry.extract()?;
            let values = came.as_ref().map_or(Ok(None), |came| came.get_item(&name))?;
            let values = match values {
                Some(values) if values.get_item(-1).is_ok_and(|last| last.eq(&value).unwrap_or(false)) => values,
                _ if value.is_instance_of::<PyList>() => value,
                _ => PyList::new(py, [value])?.into_any(),
            };
            all.set_item(name, values)?;
        }
        Ok(Some(all.into_any()))
    }

    /// The stream's sequence; None for a message without a stream.
    #[getter]
    fn seq(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        match parse_ack_subject(&self.reply_subject(py)?) {
            Some(meta) => Ok(Some(meta.seq)),
            None => Ok(self.written(py, intern!(py, SEQ))?.map(|seq| seq.extract()).transpose()?),
        }
    }

    /// True if the message was delivered before.
    #[getter]
    fn redelivered(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(parse_ack_subject(&self.reply_subject(py)?).is_some_and(|meta| meta.delivered > 1))
    }

    /// The message's position in stream and consumer.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(written) = self.written(py, intern!(py, "_metadata"))?.filter(|metadata| !metadata.is_none()) {
            return Ok(written);
        }
        let reply = self.reply_subject(py)?;
        let Some(meta) = parse_ack_subject(&reply) else { return Err(JetError::NotJetStream.into()) };
        let AckSubject { stream, consumer, delivered, seq, consumer_seq, nanos, pending } = meta;
        Ok(import(py, METADATA, "build")?.call1((
            stream,
            consumer,
            delivered,
            seq,
            consumer_seq,
            nanos,
            pending,
            domain(&reply),
        ))?)
    }

    /// The same as `metadata`, under nats.js's name.
    #[getter]
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.metadata(py)
    }

    /// True after a verb that can be sent only once.
    #[getter]
    fn is_acked(&self) -> bool {
        self.acked.load(Ordering::Relaxed)
    }

    /// Number of the subscription.
    #[getter]
    fn sid<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.sid_or_none(py)?.ok_or(JetError::NoSubscription)?)
    }

    /// The names of nats-py: the bodies of the ack protocol, and the class of `metadata`.
    #[classattr]
    #[pyo3(name = "Ack")]
    fn ack_words(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(import(py, METADATA, "Ack")?)
    }

    #[classattr]
    #[pyo3(name = "Metadata")]
    fn metadata_class(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(import(py, METADATA, "Metadata")?)
    }

    // Other fields of nats-py that programs read and write.

    /// The client that received the message, or that it was created with.
    #[getter(_client)]
    fn client<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match (self.written(py, intern!(py, "_client"))?, &self.session) {
            (Some(client), _) => Ok(Some(client)),
            (None, Some(session)) => Ok(session.bind(py).getattr(intern!(py, "client")).map(Some)?),
            (None, None) => Ok(None),
        }
    }

    #[setter(_client)]
    fn set_client(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.write(py, "_client", value)
    }

    #[getter(_metadata)]
    fn written_metadata<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.written(py, intern!(py, "_metadata"))
    }

    #[setter(_metadata)]
    fn set_metadata(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.write(py, "_metadata", value)
    }

    #[getter(_ackd)]
    fn ackd(&self) -> bool {
        self.is_acked()
    }

    #[setter(_ackd)]
    fn set_ackd(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.acked.store(value.is_truthy()?, Ordering::Relaxed);
        Ok(())
    }

    #[getter(_sid)]
    fn sid_or_none<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.written(py, intern!(py, "_sid"))? {
            Some(sid) => Ok(Some(sid).filter(|sid| !sid.is_none())),
            None => self.sid.map(|sid| Ok(sid.get().into_pyobject(py)?.into_any())).transpose(),
        }
    }

    #[setter(_sid)]
    fn set_sid(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.write(py, "_sid", value)
    }

    // Attributes that a program adds.

    fn _hang(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.write(py, name, value)
    }

    fn _hung<'py>(&self, name: &Bound<'py, PyString>, default: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.written(name.py(), name)?.unwrap_or(default))
    }

    /// All fields and attributes, as in an object of nats-py. Changes to the dict persist.
    #[getter(__dict__)]
    fn attributes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let written = slf.get().dictionary(slf.py());
        for name in ["_client", "subject", "reply", "data", "headers", "_metadata", "_sid"] {
            if !written.contains(name)? {
                written.set_item(name, slf.getattr(name)?)?;
            }
        }
        written.set_item("_ackd", slf.get().is_acked())?;
        Ok(written)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.session)?;
        visit.call(self.written.get())
    }
}
