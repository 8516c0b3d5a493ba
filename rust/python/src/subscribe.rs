//! A subscription as Python holds it: takes what is there, or waits for it.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::bridge::{Bridge, Event};
use crate::call::Call;
use crate::connect::Connection;
use crate::convert::{Word, optional_seconds, seconds};
use crate::error::{PyResult, Raised};
use crate::message::MessageFormat;
use jetstream::receive::subscribe::{
    self as engine, OnNotice, Ready, SubscriptionKind, SubscriptionLimits, SubscriptionNotice,
};
use runtime::Owned;
use wire::subject;

#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Subscription {
    inner: Owned<Arc<engine::Subscription>>,
    form: MessageFormat,
}

/// Messages of a push consumer that did not come, as its heartbeat says.
#[pyclass(frozen, get_all, module = "jetarrow._jetarrow")]
pub struct Missed {
    seq: i64,
    consumer_seq: i64,
    last_consumer_seq: i64,
}

#[pymethods]
impl Connection {
    /// Subscribes, before all that is asked of the connection from now on. `kind` is "core", "push" or "ordered",
    /// `msg_class` the class of its messages. `on_notice` is called in the loop of `bridge` with the number of messages
    /// that the limits made it drop and None, or 0 and a `Missed`.
    #[pyo3(signature = (subject, *, queue, pending_messages, pending_bytes, kind, msg_class, bridge=None, on_notice=None))]
    fn subscribe(
        &self,
        subject: Word<'_>,
        queue: Option<Word<'_>>,
        pending_messages: usize,
        pending_bytes: usize,
        kind: &str,
        msg_class: &Bound<'_, PyAny>,
        bridge: Option<&Bridge>,
        on_notice: Option<Py<PyAny>>,
    ) -> PyResult<Subscription> {
        let conn = self.get()?;
        conn.check_subscription(subject.0)?;
        let (subject, queue) = (subject.0.to_owned(), queue.map(|Word(queue)| queue.to_owned()));
        if let Some(queue) = &queue {
            subject::check_queue(queue)?;
        }
        let kind: SubscriptionKind = kind.parse()?;
        let form = MessageFormat::new(msg_class);
        let limits = SubscriptionLimits { messages: pending_messages, bytes: pending_bytes };
        let tell: OnNotice = match (bridge, on_notice) {
            (Some(bridge), Some(on_notice)) => {
                let (mailbox, on_notice) = (bridge.mailbox.clone(), Arc::new(on_notice));
                Box::new(move |notice| {
                    let on_notice = on_notice.clone();
                    let call = move |py: Python<'_>| {
                        match notice {
                            SubscriptionNotice::Dropped(count) => on_notice.call1(py, (count, None::<()>)).map(drop),
                            SubscriptionNotice::Missed { seq, consumer_seq, last } => {
                                let missed = Missed { seq, consumer_seq, last_consumer_seq: last };
                                on_notice.call1(py, (0, missed)).map(drop)
                            }
                        }
                        .map_err(Raised::from)
                    };
                    mailbox.push(0, Event::Many(Box::new(call)));
                })
            }
            _ => Box::new(|_| ()),
        };
        let subscription = engine::subscribe(conn, subject, queue, limits, kind, tell)?;
        Ok(Subscription { inner: Owned::new(Arc::new(subscription)), form })
    }
}

impl Subscription {
    pub fn native(&self) -> PyResult<&engine::Subscription> {
        Ok(self.inner.get()?)
    }
}

#[pymethods]
impl Subscription {
    /// The next message, if one waits; `session` is what its verbs go through, `sid` its subscription's number.
    fn take<'py>(&self, session: &Bound<'py, PyAny>, sid: u64) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(message) = self.inner.get()?.take_message() else { return Ok(None) };
        self.form.make(session.py(), session.as_unbound(), message, Some(sid)).map(Some)
    }

    /// Waits for a message. The result is "messages", "ended", "gap" (a message of an ordered subscription is missing),
    /// "silent" (not even a heartbeat came for `silence` seconds), "relinked" (of an ordered one, once after the link broke
    /// and came back) or "late" (`wait` seconds are over).
    #[pyo3(signature = (silence=None, wait=None))]
    fn ready(&self, silence: Option<f64>, wait: Option<f64>) -> PyResult<Call> {
        let inner = self.inner.get()?.clone();
        let silence = optional_seconds("silence", silence)?;
        let wait = optional_seconds("wait", wait)?;
        Ok(Call::new(async move { inner.ready(silence, wait).await }, word))
    }

    /// Waits until nothing came for `silence` seconds ("silent"), the link is "relinked", or it has "ended", whether
    /// anybody takes what has come, or not.
    fn quiet(&self, silence: f64) -> PyResult<Call> {
        let inner = self.inner.get()?.clone();
        let silence = seconds("silence", silence)?;
        Ok(Call::new(async move { Ok(inner.quiet(silence).await) }, word))
    }

    /// Takes no more messages from now on, or once `limit` have come; those that wait stay.
    #[pyo3(signature = (limit=0))]
    fn unsubscribe(&self, limit: u64) -> PyResult<()> {
        let inner = self.inner.get()?;
        if limit == 0 {
            inner.unsubscribe()
        } else {
            inner.unsubscribe_after(limit)
        }
        Ok(())
    }

    /// Unsubscribes, and waits until what the server had sent has come.
    fn drain(&self, timeout: f64) -> PyResult<Call> {
        let inner = self.inner.get()?.clone();
        let timeout = seconds("timeout", timeout)?;
        Ok(Call::unit(async move { inner.drain(timeout).await }))
    }

    /// Waits until all messages were taken.
    fn emptied(&self) -> PyResult<Call> {
        let inner = self.inner.get()?.clone();
        let work = async move {
            inner.emptied().await;
            Ok(())
        };
        Ok(Call::unit(work))
    }

    /// Messages that wait.
    #[getter]
    fn pending_msgs(&self) -> PyResult<usize> {
        Ok(self.inner.get()?.counts().pending)
    }

    /// Their payload bytes.
    #[getter]
    fn pending_bytes(&self) -> PyResult<usize> {
        Ok(self.inner.get()?.counts().pending_bytes)
    }

    /// Messages that came so far, dropped ones counted.
    #[getter]
    fn delivered(&self) -> PyResult<u64> {
        Ok(self.inner.get()?.counts().delivered)
    }

    /// Messages that the limits made it drop.
    #[getter]
    fn dropped(&self) -> PyResult<u64> {
        Ok(self.inner.get()?.counts().dropped)
    }

    /// The stream's sequence of the last message in order; 0 before the first. For ordered subscriptions.
    #[getter]
    fn last_seq(&self) -> PyResult<i64> {
        Ok(self.inner.get()?.last_seq())
    }

    /// Sequence and nanoseconds of some messages that came, the newest first. For ordered subscriptions.
    #[getter]
    fn marks(&self) -> PyResult<Vec<(u64, i64)>> {
        Ok(self.inner.get()?.marks().as_slice().iter().map(|mark| (mark.seq, mark.nanos)).collect())
    }
}

fn word(py: Python<'_>, ready: Ready) -> PyResult<Bound<'_, PyAny>> {
    let word = match ready {
        Ready::Messages => "messages",
        Ready::Ended => "ended",
        Ready::Gap => "gap",
        Ready::Silent => "silent",
        Ready::Late => "late",
        Ready::Relinked => "relinked",
    };
    Ok(word.into_pyobject(py)?.into_any())
}
