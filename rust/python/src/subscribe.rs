//! The class `Subscription`.

use std::sync::{Arc, Mutex};

use pyo3::intern;
use pyo3::prelude::*;

use crate::bridge::{Bridge, Event, Mailbox, settle};
use crate::call::Call;
use crate::connect::Connection;
use crate::convert::{Word, optional_seconds, seconds};
use crate::error::{PyResult, Raised};
use crate::message::MessageFormat;
use crate::python_call::{begin_call, create_future};
use base::lock::lock;
use jetstream::receive::subscribe::{
    self as engine, OnNotice, Ready, SubscriptionKind, SubscriptionLimits, SubscriptionNotice,
};
use runtime::Owned;
use wire::subject;

/// A subscription with a bounded queue of messages.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Subscription {
    inner: Owned<Arc<engine::Subscription>>,
    form: MessageFormat,
    arrivals: Arc<Arrivals>,
}

/// Futures that wait for a message, each with the mailbox of its loop.
#[derive(Default)]
struct Arrivals(Mutex<Vec<(Arc<Mailbox>, Py<PyAny>)>>);

impl Arrivals {
    /// Adds a future, and removes those that were cancelled.
    fn add(&self, py: Python<'_>, mailbox: &Arc<Mailbox>, future: &Bound<'_, PyAny>) -> PyResult<()> {
        let _call = begin_call(py);
        // Taken out, because Python code must not run under the lock.
        let mut waiting = std::mem::take(&mut *lock(&self.0));
        let mut kept = vec![(mailbox.clone(), future.clone().unbind())];
        for (mailbox, future) in waiting.drain(..) {
            if !future.bind(py).call_method0(intern!(py, "done"))?.is_truthy()? {
                kept.push((mailbox, future));
            }
        }
        lock(&self.0).append(&mut kept);
        Ok(())
    }

    /// Resolves all futures, each in its loop.
    fn wake(&self) {
        let waiting = std::mem::take(&mut *lock(&self.0));
        for (mailbox, future) in waiting {
            let resolve = move |py: Python<'_>| settle(future.bind(py), Ok(py.None().into_bound(py)));
            mailbox.push(0, Event::Many(Box::new(resolve)));
        }
    }
}

/// Messages of a push consumer that are missing according to its heartbeat.
#[pyclass(frozen, get_all, module = "jetarrow._jetarrow")]
pub struct Missed {
    seq: i64,
    consumer_seq: i64,
    last_consumer_seq: i64,
}

#[pymethods]
impl Connection {
    /// Subscribes before any later operation of the connection.
    ///
    /// `kind` is "core", "push" or "ordered", `msg_class` the class of the messages. `on_notice` is called in the loop
    /// of `bridge` with the number of messages dropped by the limits and None, or with 0 and a `Missed`.
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
        Ok(Subscription { inner: Owned::new(Arc::new(subscription)), form, arrivals: Arc::default() })
    }
}

impl Subscription {
    /// Borrows the engine's subscription. Fails in a forked process.
    pub fn native(&self) -> PyResult<&engine::Subscription> {
        Ok(self.inner.get()?)
    }
}

#[pymethods]
impl Subscription {
    /// Returns the next message, if one is queued. Its verbs use `session`; `sid` is the number of its subscription.
    fn take<'py>(&self, session: &Bound<'py, PyAny>, sid: u64) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(message) = self.inner.get()?.take_message() else { return Ok(None) };
        self.form.make(session.py(), session.as_unbound(), message, Some(sid)).map(Some)
    }

    /// Returns a future of `event_loop` that resolves at the next message or at the end.
    ///
    /// None if there is one already, and for ordered subscriptions, whose waits have other ends too. Unlike `ready` it
    /// has no task, so that thousands of subscriptions which receive a message each cost little.
    fn arrival<'py>(
        &self,
        py: Python<'py>,
        event_loop: &Bound<'py, PyAny>,
        bridge: &Bridge,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let inner = self.inner.get()?;
        if inner.is_ordered() || !inner.is_waiting() {
            return Ok(None);
        }
        let future = create_future(event_loop)?;
        // Added first: the message may arrive at once.
        self.arrivals.add(py, &bridge.mailbox, &future)?;
        let arrivals = self.arrivals.clone();
        if !inner.on_arrival(Box::new(move || arrivals.wake())) {
            self.arrivals.wake();
            return Ok(None);
        }
        bridge.linger_after(py, None, false)?;
        Ok(Some(future))
    }

    /// Waits for a message.
    ///
    /// The result is "messages", "ended", "gap" (a message of an ordered subscription is missing), "silent" (no message
    /// and no heartbeat for `silence` seconds), "relinked" (of an ordered subscription, once after a reconnect) or
    /// "late" (`wait` seconds have elapsed).
    #[pyo3(signature = (silence=None, wait=None))]
    fn ready(&self, silence: Option<f64>, wait: Option<f64>) -> PyResult<Call> {
        let inner = self.inner.get()?.clone();
        let silence = optional_seconds("silence", silence)?;
        let wait = optional_seconds("wait", wait)?;
        Ok(Call::new(async move { inner.ready(silence, wait).await }, word))
    }

    /// Waits until nothing has arrived for `silence` seconds ("silent"), after a reconnect ("relinked"), or until the
    /// end ("ended"). Queued messages do not matter.
    fn quiet(&self, silence: f64) -> PyResult<Call> {
        let inner = self.inner.get()?.clone();
        let silence = seconds("silence", silence)?;
        Ok(Call::new(async move { Ok(inner.quiet(silence).await) }, word))
    }

    /// Stops accepting messages now, or after `limit` messages. Queued messages remain.
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

    /// Ends it: messages that have not arrived yet are discarded, so `last_seq` and `marks` are final. Queued messages
    /// remain.
    fn end(&self) -> PyResult<()> {
        self.inner.get()?.end();
        Ok(())
    }

    /// Unsubscribes, and waits until all messages that the server had sent have arrived.
    fn drain(&self, timeout: f64) -> PyResult<Call> {
        let inner = self.inner.get()?.clone();
        let timeout = seconds("timeout", timeout)?;
        Ok(Call::unit(async move { inner.drain(timeout).await }))
    }

    /// Sets the limits of messages that arrive from now on; 0 is no limit.
    fn set_limits(&self, messages: usize, bytes: usize) -> PyResult<()> {
        self.inner.get()?.set_limits(SubscriptionLimits { messages, bytes });
        Ok(())
    }

    /// Waits until the queue is empty.
    fn emptied(&self) -> PyResult<Call> {
        let inner = self.inner.get()?.clone();
        let work = async move {
            inner.emptied().await;
            Ok(())
        };
        Ok(Call::unit(work))
    }

    /// Queued messages.
    #[getter]
    fn pending_msgs(&self) -> PyResult<usize> {
        Ok(self.inner.get()?.counts().pending)
    }

    /// Payload bytes of the queued messages.
    #[getter]
    fn pending_bytes(&self) -> PyResult<usize> {
        Ok(self.inner.get()?.counts().pending_bytes)
    }

    /// Messages that arrived so far, with dropped ones.
    #[getter]
    fn delivered(&self) -> PyResult<u64> {
        Ok(self.inner.get()?.counts().delivered)
    }

    /// Messages dropped by the limits.
    #[getter]
    fn dropped(&self) -> PyResult<u64> {
        Ok(self.inner.get()?.counts().dropped)
    }

    /// Payload bytes of those messages.
    #[getter]
    fn dropped_bytes(&self) -> PyResult<u64> {
        Ok(self.inner.get()?.counts().dropped_bytes)
    }

    /// The stream's sequence of the last message in order; 0 before the first. For ordered subscriptions.
    #[getter]
    fn last_seq(&self) -> PyResult<i64> {
        Ok(self.inner.get()?.last_seq())
    }

    /// Sequence and nanoseconds of some received messages, the newest first. For ordered subscriptions.
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
