//! Entries of a key-value bucket, built from the messages of a watch's consumer and from the responses of direct gets.
//!
//! These are the hot paths of `watch` and `get`.

use bytes::Bytes;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyType};

use crate::bridge::{Bridge, Event, settle};
use crate::call::Call;
use crate::connect::Connection;
use crate::convert::{Timeout, Word};
use crate::error::{PyResult, Raised};
use crate::python_call::create_future;
use crate::subscribe::Subscription;
use base::error::JetError;
use client::request::Request;
use client::traffic::Verb;
use columns::decode::nanoseconds;
use jetstream::receive::marker::KvOperation;
use wire::ack_subject::parse_ack_subject;
use wire::message::Message;
use wire::subject;

/// Builder of entries: their class, their bucket, and the length of the subject before the key.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Entries {
    class: Py<PyType>,
    bucket: Py<PyString>,
    hidden: usize,
}

/// The message of an entry.
struct Found<'a> {
    subject: &'a str,
    payload: &'a [u8],
    revision: i64,
    delta: i64,
    nanos: i64,
    operation: KvOperation,
}

#[pymethods]
impl Entries {
    #[new]
    fn new(class: Py<PyType>, bucket: Py<PyString>, hidden: usize) -> Self {
        Entries { class, bucket, hidden }
    }
}

impl Entries {
    /// Builds an entry. `created` is converted from nanoseconds on access.
    fn make<'py>(&self, py: Python<'py>, found: &Found<'_>) -> PyResult<Bound<'py, PyAny>> {
        let fields = PyDict::new(py);
        fields.set_item(intern!(py, "bucket"), &self.bucket)?;
        fields.set_item(intern!(py, "key"), found.subject.get(self.hidden..).unwrap_or(found.subject))?;
        fields.set_item(intern!(py, "value"), PyBytes::new(py, found.payload))?;
        fields.set_item(intern!(py, "revision"), found.revision)?;
        fields.set_item(intern!(py, "delta"), found.delta)?;
        fields.set_item(intern!(py, "_nanoseconds"), found.nanos)?;
        let operation = match found.operation {
            KvOperation::Put => None,
            KvOperation::Delete => Some(intern!(py, "DEL")),
            KvOperation::Purge => Some(intern!(py, "PURGE")),
            KvOperation::Unknown => Some(intern!(py, "")),
        };
        fields.set_item(intern!(py, "operation"), operation)?;
        let class = self.class.bind(py);
        let entry = class.call_method1(intern!(py, "__new__"), (class,))?;
        entry.setattr(intern!(py, "__dict__"), fields)?;
        Ok(entry)
    }

    /// Returns the entry of a direct get's response, or the status code as a number if there is none.
    fn answered<'py>(&self, py: Python<'py>, answer: &Message) -> PyResult<Bound<'py, PyAny>> {
        let headers = answer.headers();
        let text = |name: &str| headers.as_ref()?.get(name)?.last().map(String::as_str);
        let found = || {
            Some(Found {
                subject: text("Nats-Subject")?,
                payload: answer.payload(),
                revision: text("Nats-Sequence")?.parse().ok()?,
                delta: 0,
                nanos: nanoseconds(text("Nats-Time-Stamp")?.as_bytes())?,
                operation: KvOperation::of(headers.as_ref()),
            })
        };
        match found() {
            Some(found) => self.make(py, &found),
            None => Ok(answer.status().unwrap_or_default().0.into_pyobject(py)?.into_any()),
        }
    }
}

#[pymethods]
impl Subscription {
    /// Takes entries of waiting messages, and the number of them after which the initial ones are complete (None: not
    /// yet).
    ///
    /// Skips entries up to revision `after`, and delete markers unless `deletes` is set. `initial` is the number of the
    /// consumer's initial messages.
    fn take_entries<'py>(
        &self,
        py: Python<'py>,
        entries: &Entries,
        after: i64,
        deletes: bool,
        initial: i64,
        most: usize,
    ) -> PyResult<(Bound<'py, PyList>, Option<usize>)> {
        let inner = self.native()?;
        let list = PyList::empty(py);
        let mut complete = None;
        while list.len() < most
            && let Some(message) = inner.take_message()
        {
            let Some(meta) = parse_ack_subject(message.reply()) else { continue };
            let operation = KvOperation::of(message.headers.as_deref());
            let wanted = operation == KvOperation::Put || (deletes && operation != KvOperation::Unknown);
            if meta.seq > after && wanted {
                list.append(entries.make(
                    py,
                    &Found {
                        subject: message.subject(),
                        payload: message.data(),
                        revision: meta.seq,
                        delta: meta.pending,
                        nanos: meta.nanos,
                        operation,
                    },
                )?)?;
            }
            if complete.is_none() && (meta.pending == 0 || meta.consumer_seq >= initial) {
                complete = Some(list.len());
            }
        }
        Ok((list, complete))
    }
}

fn request(subject: Word<'_>, payload: &[u8], timeout: Timeout) -> PyResult<Request> {
    subject::check(subject.0)?;
    let payload = Bytes::copy_from_slice(payload);
    Ok(Request { subject: subject.0.into(), payload, headers: None, timeout: timeout.0, verb: Verb::Request })
}

#[pymethods]
impl Connection {
    /// Starts a direct get. The result is an entry, or a status code as a number.
    fn get_entry(&self, entries: Py<Entries>, subject: Word<'_>, payload: &[u8], timeout: Timeout) -> PyResult<Call> {
        let conn = self.get()?;
        let Request { subject, payload, headers, timeout, .. } = request(subject, payload, timeout)?;
        let work = async move { conn.request(subject, payload, headers, timeout).await };
        Ok(Call::new(work, move |py, answer| entries.get().answered(py, &answer)))
    }

    /// `get_entry` as a future of the loop of `bridge`.
    fn get_entry_future<'py>(
        slf: &Bound<'py, Self>,
        event_loop: &Bound<'py, PyAny>,
        bridge: &Bridge,
        entries: Py<Entries>,
        subject: Word<'_>,
        payload: &[u8],
        timeout: Timeout,
    ) -> PyResult<Bound<'py, PyAny>> {
        let conn = slf.get().connection()?;
        let request = request(subject, payload, timeout)?;
        let future = create_future(event_loop)?;
        let (waiting, mailbox) = (future.clone().unbind(), bridge.mailbox.clone());
        let done = Box::new(move |answer: Result<Message, JetError>| {
            let deliver = move |py: Python<'_>| {
                let entry = answer.map_err(Raised::from).and_then(|answer| entries.get().answered(py, &answer));
                settle(waiting.bind(py), entry)
            };
            mailbox.push(0, Event::Many(Box::new(deliver)));
        });
        let others = conn.pending_requests();
        conn.start_request(request, future.as_ptr() as usize, done)?;
        Connection::send_request(slf, event_loop, bridge, others)?;
        Ok(future)
    }
}
