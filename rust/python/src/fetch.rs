//! The class `PullSubscription`.

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

/// A subscription to a pull consumer.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct PullSubscription {
    inner: Owned<Arc<engine::PullSubscription>>,
    /// Sizes of the rows of the last batch.
    sizes: Arc<Mutex<RowSizes>>,
}

#[pymethods]
impl Connection {
    /// Creates the pull subscription of a consumer. Sends nothing.
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
    /// Fetches up to `max_messages` messages as a `Batch`.
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
        builder.set_expected_sizes(lock(&self.sizes).of_rows(max_messages));
        let sizes = self.sizes.clone();
        let (cancel, last) = sub.cancel();
        let work = async move { sub.fetch(&fetch, builder, last).await };
        let call = Call::new(work, move |py, fetched| {
            let mut builder = fetched.claim()?;
            *lock(&sizes) = builder.sizes();
            let inner = builder.finish()?;
            Ok(Batch { inner }.into_pyobject(py)?.into_any())
        });
        Ok(call.bulk().before_cancel(move || cancel.begin()))
    }

    /// Fetches up to `max_messages` messages as a list. Their acks use `session`; `sid` is the number of their
    /// subscription.
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
        Ok(call.bulk().before_cancel(move || cancel.begin()))
    }

    /// Sets the maximum number of messages of one request.
    fn limit_request(&self, most: usize) -> PyResult<()> {
        self.inner.get()?.limit_request(most);
        Ok(())
    }

    /// The consumer's `max_ack_pending`, if it is known.
    #[getter]
    fn ack_window(&self) -> PyResult<Option<usize>> {
        Ok(self.inner.get()?.ack_window().size())
    }

    /// Sets the consumer's `max_ack_pending`; None for no limit.
    fn set_ack_window(&self, most: Option<usize>) -> PyResult<()> {
        self.inner.get()?.ack_window().learn(most);
        Ok(())
    }

    /// The server's id of this client as the one that a priority group is pinned to.
    fn pin(&self, group: &str) -> PyResult<Option<String>> {
        Ok(self.inner.get()?.pin(group))
    }

    /// Sets the consumer's properties.
    fn set_ways(&self, wants_acks: bool, headers_only: bool) -> PyResult<()> {
        self.inner.get()?.learn(ConsumerTraits { wants_acks, headers_only });
        Ok(())
    }

    /// Returns undelivered messages: to the next call, or to the server.
    fn put_back(&self, messages: Vec<Bound<'_, Msg>>) -> PyResult<Call> {
        let kept = messages.iter().map(|message| Undelivered::of_message(message.get().content())).collect();
        Ok(Call::unit(self.inner.get()?.put_back(kept)))
    }

    /// As `put_back`, for a batch.
    fn put_back_rows(&self, batch: &Batch) -> PyResult<Call> {
        Ok(Call::unit(self.inner.get()?.put_back(Undelivered::of_batch(&batch.inner))))
    }

    /// Returns messages that arrived too late for their call, and those that are still to arrive.
    fn give_back(&self) -> PyResult<()> {
        self.inner.get()?.give_back();
        Ok(())
    }
}
