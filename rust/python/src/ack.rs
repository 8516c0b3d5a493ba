//! Acks of the rows of a batch, and of single messages.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::batch::Batch;
use crate::call::Call;
use crate::connect::Connection;
use crate::convert::optional_seconds;
use crate::error::PyResult;
use client::outbox::Outgoing;
use client::traffic;
use jetstream::receive::ack::{AckKind, AckVerb, ack, ack_sync};
use jetstream::receive::message::Received;
use wire::ack_subject::parse_ack_subject;
use wire::nats::Subject;
use wire::subject;

#[pymethods]
impl Connection {
    /// Sends one ack per selected row of `batch`. `rows` is None, row numbers, or a mask.
    #[pyo3(signature = (batch, kind, rows, *, delay=None, reason=None, confirm=None))]
    fn ack_rows(
        &self,
        batch: &Batch,
        kind: &str,
        rows: Option<&Bound<'_, PyAny>>,
        delay: Option<f64>,
        reason: Option<String>,
        confirm: Option<f64>,
    ) -> PyResult<Call> {
        let chosen = batch.select(rows)?;
        let Some(replies) = &batch.inner.replies else {
            return Err(PyValueError::new_err("these messages have no consumer that requires acks").into());
        };
        let subjects = chosen.into_iter().map(|row| replies.value(row).into()).collect();
        self.acknowledge(subjects, kind, delay, reason, confirm)
    }

    /// Queues one ack. It is sent at the end of the loop's iteration, or at once without a loop.
    #[pyo3(signature = (event_loop, reply, kind, *, delay=None, reason=None))]
    fn ack_one(
        slf: &Bound<'_, Self>,
        event_loop: Option<&Bound<'_, PyAny>>,
        reply: &str,
        kind: &str,
        delay: Option<f64>,
        reason: Option<String>,
    ) -> PyResult<()> {
        let conn = slf.get().connection()?;
        subject::check(reply)?;
        if conn.link.borrow().closed {
            return Err(conn.closed().into());
        }
        let payload = parse_kind(kind, delay, reason)?.payload();
        let message = Outgoing { subject: reply.into(), reply: None, headers: None, payload };
        Connection::hold(slf, conn, event_loop, message, traffic::Verb::Ack).map(drop)
    }

    /// Sends one ack per reply subject. With `confirm` waits that many seconds for the server's confirmation.
    #[pyo3(signature = (replies, kind, *, delay=None, reason=None, confirm=None))]
    fn ack(
        &self,
        replies: Vec<String>,
        kind: &str,
        delay: Option<f64>,
        reason: Option<String>,
        confirm: Option<f64>,
    ) -> PyResult<Call> {
        replies.iter().try_for_each(|reply| subject::check(reply))?;
        self.acknowledge(replies.into_iter().map(Subject::from).collect(), kind, delay, reason, confirm)
    }
}

impl Connection {
    /// Queues a plain ack of a message as it was received. False without an ack subject, or if the connection is closed.
    pub fn ack_received(slf: &Bound<'_, Self>, event_loop: &Bound<'_, PyAny>, msg: &Received) -> PyResult<bool> {
        let conn = slf.get().connection()?;
        if parse_ack_subject(msg.reply()).is_none() || conn.link.borrow().closed {
            return Ok(false);
        }
        let payload = AckKind::Ack.payload();
        let message = Outgoing { subject: msg.reply().into(), reply: None, headers: None, payload };
        Connection::hold(slf, conn, Some(event_loop), message, traffic::Verb::Ack).map(|_| true)
    }

    fn acknowledge(
        &self,
        replies: Vec<Subject>,
        kind: &str,
        delay: Option<f64>,
        reason: Option<String>,
        confirm: Option<f64>,
    ) -> PyResult<Call> {
        let conn = self.get()?;
        let kind = parse_kind(kind, delay, reason)?;
        let confirm = optional_seconds("timeout", confirm)?;
        let work = async move {
            match confirm {
                Some(timeout) => ack_sync(&conn, replies, &kind, timeout).await,
                None => ack(&conn, replies, &kind).await,
            }
        };
        Ok(Call::unit(work))
    }
}

/// The delay is validated for a nak only.
fn parse_kind(kind: &str, delay: Option<f64>, reason: Option<String>) -> PyResult<AckKind> {
    let verb: AckVerb = kind.parse()?;
    let delay = if verb == AckVerb::Nak { optional_seconds("delay", delay)? } else { None };
    Ok(verb.with(delay, reason))
}
