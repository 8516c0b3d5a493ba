//! Requests, as a call or as a future of the loop. They are queued when they are created.

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bridge::{Bridge, Event, MOST_LINGERED_FOR, settle};
use crate::call::Call;
use crate::connect::Connection;
use crate::convert::{Timeout, Word};
use crate::error::{PyResult, Raised};
use crate::headers;
use crate::message::MessageFormat;
use crate::payload::message;
use crate::python_call::create_future;
use base::error::{About, JetError};
use base::lock::lock;
use client as engine;
use client::request::Request;
use client::traffic::Verb;
use wire::message::Message;
use wire::subject;

#[pymethods]
impl Connection {
    /// Sends an API request. The result is the payload of the response.
    fn request(&self, subject: Word<'_>, payload: &[u8], timeout: Timeout) -> PyResult<Call> {
        let conn = self.get()?;
        subject::check_tokens(subject.0)?;
        let subject = subject.0.into();
        let payload = Bytes::copy_from_slice(payload);
        Ok(Call::new(
            conn.ask(Request { subject, payload, headers: None, timeout: timeout.0, verb: Verb::Request })?,
            |py, answer| Ok(PyBytes::new(py, answer.payload()).into_any()),
        ))
    }

    /// Sends a request. The result is the whole message, whose verbs use `session`.
    #[pyo3(signature = (session, subject, payload, *, timeout, headers=None))]
    fn request_msg(
        &self,
        session: &Bound<'_, PyAny>,
        subject: Word<'_>,
        payload: &Bound<'_, PyAny>,
        timeout: Timeout,
        headers: Option<headers::Given<'_>>,
    ) -> PyResult<Call> {
        let conn = self.get()?;
        let request = self.checked(&conn, subject.0, payload, timeout, headers)?;
        let (form, session) = (MessageFormat::of(session)?, session.clone().unbind());
        Ok(Call::new(conn.ask(request)?, move |py, answer| form.make(py, &session, answer, None)))
    }

    /// `request_msg` as a future of the loop of `bridge`, without a task.
    fn request_future<'py>(
        slf: &Bound<'py, Self>,
        event_loop: &Bound<'py, PyAny>,
        bridge: &Bridge,
        session: &Bound<'_, PyAny>,
        subject: Word<'_>,
        payload: &Bound<'_, PyAny>,
        timeout: Timeout,
        headers: Option<headers::Given<'_>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let conn = slf.get().connection()?;
        let request = slf.get().checked(conn, subject.0, payload, timeout, headers)?;
        let future = create_future(event_loop)?;
        let (form, session) = (MessageFormat::of(session)?, session.clone().unbind());
        let (waiting, mailbox) = (future.clone().unbind(), bridge.mailbox.clone());
        let done = Box::new(move |answer: Result<Message, JetError>| {
            let deliver = move |py: Python<'_>| {
                let message = answer.map_err(Raised::from).and_then(|answer| form.make(py, &session, answer, None));
                settle(waiting.bind(py), message)
            };
            mailbox.push(0, Event::Many(Box::new(deliver)));
        });
        let others = conn.pending_requests();
        conn.start_request(request, future.as_ptr() as usize, done)?;
        Connection::send_request(slf, event_loop, bridge, others)?;
        Ok(future)
    }

    /// Ends a request whose future was cancelled. If it was not sent, it will not be.
    fn cancel_request(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        self.connection()?.cancel_request(future.as_ptr() as usize);
        Ok(())
    }

    /// Returns a unique subject.
    fn new_inbox(&self) -> PyResult<String> {
        Ok(self.connection()?.new_inbox()?)
    }

    /// Waits for a round trip to the server.
    fn flush(&self, timeout: Timeout) -> PyResult<Call> {
        let conn = self.get()?;
        self.publisher_fences.close_fences(&conn.outbox);
        Ok(Call::unit(async move { conn.round_trip(timeout.0).await }))
    }
}

impl Connection {
    /// Returns the request if the server would accept it.
    fn checked(
        &self,
        conn: &engine::Connection,
        subject: &str,
        payload: &Bound<'_, PyAny>,
        timeout: Timeout,
        headers: Option<headers::Given<'_>>,
    ) -> PyResult<Request> {
        let checked = lock(&self.copies).subject(subject, |subject| conn.check(subject))?;
        let what = || About::Other(format!("the request to {subject:?}"));
        let limit = conn.client.max_payload();
        let (payload, headers) =
            message(what, payload, |cell| self.of_a_request(cell), || headers::lenient(headers), limit)?;
        Ok(Request { subject: checked, payload, headers, timeout: timeout.0, verb: Verb::Request })
    }

    /// Sends a queued request, and waits for its reply in this thread if the loop has no other work.
    pub fn send_request(
        slf: &Bound<'_, Self>,
        event_loop: &Bound<'_, PyAny>,
        bridge: &Bridge,
        others: usize,
    ) -> PyResult<()> {
        let outbox = &slf.get().connection()?.outbox;
        if others == 0 {
            outbox.flush_now();
            return bridge.linger_after(slf.py(), None, false);
        }
        // With other requests in flight, a delay until the end of the iteration costs nothing.
        Connection::kick_later(slf, event_loop)?;
        if others > MOST_LINGERED_FOR {
            return Ok(());
        }
        let flush = || {
            outbox.flush_now();
            Ok(())
        };
        bridge.linger_after(slf.py(), Some(&flush), false)
    }
}
