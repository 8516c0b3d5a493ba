//! A pull subscription, as Python holds it.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::batch::Batch;
use crate::call::Call;
use crate::connect::Connection;
use crate::convert::{optional_seconds, seconds};
use crate::error::PyResult;
use crate::message::{MessageFormat, Msg};
use base::lock::lock;
use jetstream::receive::batch_builder::{BatchBuilder, RowSizes};
use jetstream::receive::column::{Column, Layout};
use jetstream::receive::fetch::{self as engine, ConsumerTraits, Fetch, MessageSink, Undelivered};
use jetstream::receive::priority::PriorityGroup;
use runtime::Owned;
use wire::subject;

#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct PullSubscription {
    inner: Owned<Arc<engine::PullSubscription>>,
    /// What the last batch took.
    sizes: Arc<Mutex<RowSizes>>,
}

#[pymethods]
impl Connection {
    /// The messages of a pull consumer, for whoever asks. Nothing is sent.
    fn pull_subscribe(&self, prefix: String, stream: String, consumer: String) -> PyResult<PullSubscription> {
        let conn = self.get()?;
        subject::check(&prefix)?;
        subject::check_name("stream", &stream)?;
        subject::check_name("consumer", &consumer)?;
        let sub = engine::PullSubscription::new(conn, prefix, stream, consumer);
        Ok(PullSubscription { inner: Owned::new(Arc::new(sub)), sizes: Arc::default() })
    }
}

fn limits(
    max_messages: usize,
    max_bytes: Option<usize>,
    timeout: f64,
    min_messages: usize,
    heartbeat: Option<f64>,
    group: Option<GroupArguments>,
) -> PyResult<Fetch> {
    if max_messages == 0 || max_bytes == Some(0) {
        return Err(PyValueError::new_err("max_messages and max_bytes must be at least 1").into());
    }
    if min_messages > max_messages {
        return Err(PyValueError::new_err(format!(
            "min_messages={min_messages} is more than max_messages={max_messages}"
        ))
        .into());
    }
    Ok(Fetch {
        max_messages,
        max_bytes,
        timeout: seconds("timeout", timeout)?,
        min_messages,
        heartbeat: optional_seconds("heartbeat", heartbeat)?,
        group: group.map(|(name, min_pending, min_ack_pending, priority)| PriorityGroup {
            name,
            min_pending,
            min_ack_pending,
            priority,
        }),
    })
}

/// Name, `min_pending`, `min_ack_pending`, `priority`.
type GroupArguments = (String, u64, u64, u8);

#[pymethods]
impl PullSubscription {
    /// Up to `max_messages` as a `Batch`.
    #[pyo3(signature = (max_messages, *, max_bytes, timeout, min_messages, heartbeat, columns, group=None))]
    fn fetch_batch(
        &self,
        max_messages: usize,
        max_bytes: Option<usize>,
        timeout: f64,
        min_messages: usize,
        heartbeat: Option<f64>,
        columns: Option<Vec<String>>,
        group: Option<GroupArguments>,
    ) -> PyResult<Call> {
        let sub = self.inner.get()?.clone();
        let fetch = limits(max_messages, max_bytes, timeout, min_messages, heartbeat, group)?;
        let columns = columns.map_or_else(|| Ok(Column::DEFAULT.to_vec()), |names| Column::parse(&names))?;
        let mut builder = BatchBuilder::new(Layout::new(columns, false), true);
        builder.expect(lock(&self.sizes).of_rows(max_messages));
        let sizes = self.sizes.clone();
        let (cancel, last) = sub.cancel();
        let work = async move { sub.fetch(&fetch, builder, last).await };
        let call = Call::new(work, move |py, fetched| {
            let mut builder = fetched.claim()?;
            *lock(&sizes) = builder.sizes();
            let inner = builder.finish()?;
            Ok(Batch { inner }.into_pyobject(py)?.into_any())
        });
        Ok(call.before_cancel(move || cancel.begin()))
    }

    /// Up to `max_messages` as a list of messages, whose acks go through `session`; `sid` is their subscription's number.
    #[pyo3(signature = (session, sid, max_messages, *, max_bytes, timeout, min_messages, heartbeat, group=None))]
    fn fetch(
        &self,
        session: Bound<'_, PyAny>,
        sid: u64,
        max_messages: usize,
        max_bytes: Option<usize>,
        timeout: f64,
        min_messages: usize,
        heartbeat: Option<f64>,
        group: Option<GroupArguments>,
    ) -> PyResult<Call> {
        let sub = self.inner.get()?.clone();
        let fetch = limits(max_messages, max_bytes, timeout, min_messages, heartbeat, group)?;
        let (form, session) = (MessageFormat::of(&session)?, session.unbind());
        let (cancel, last) = sub.cancel();
        let work = async move { sub.fetch(&fetch, MessageSink::default(), last).await };
        let call = Call::new(work, move |py, fetched| {
            let messages = fetched.claim()?.messages;
            let list = messages.into_iter().map(|message| form.make(py, &session, message, Some(sid)));
            Ok(PyList::new(py, list.collect::<PyResult<Vec<_>>>()?)?.into_any())
        });
        Ok(call.before_cancel(move || cancel.begin()))
    }

    /// No request asks for more than this many messages.
    fn limit_request(&self, most: usize) -> PyResult<()> {
        self.inner.get()?.limit_request(most);
        Ok(())
    }

    /// How many messages the consumer gives before it wants acks, where the server has said so.
    #[getter]
    fn ack_window(&self) -> PyResult<Option<usize>> {
        Ok(self.inner.get()?.ack_window().size())
    }

    /// What the server said of that; None is any number.
    fn set_ack_window(&self, most: Option<usize>) -> PyResult<()> {
        self.inner.get()?.ack_window().learn(most);
        Ok(())
    }

    /// What the server said of the consumer.
    fn set_ways(&self, wants_acks: bool, headers_only: bool) -> PyResult<()> {
        self.inner.get()?.learn(ConsumerTraits { wants_acks, headers_only });
        Ok(())
    }

    /// Takes back messages that nobody has got: for the next call, or for the server.
    fn put_back(&self, messages: Vec<Bound<'_, Msg>>) -> PyResult<Call> {
        let kept = messages.iter().map(|message| Undelivered::of_message(message.get().content())).collect();
        Ok(Call::unit(self.inner.get()?.put_back(kept)))
    }

    /// The same with a batch.
    fn put_back_rows(&self, batch: &Batch) -> PyResult<Call> {
        Ok(Call::unit(self.inner.get()?.put_back(Undelivered::of_batch(&batch.inner))))
    }

    /// Gives back what came too late for its call, and what is still to come.
    fn give_back(&self) -> PyResult<()> {
        self.inner.get()?.give_back();
        Ok(())
    }
}
