//! Creation of messages in the class of their session.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Msg, SyncMsg};
use crate::error::PyResult;
use crate::python_call::begin_call;
use jetstream::receive::message::Received;

/// The class of a session's messages.
pub enum MessageFormat {
    Awaited,
    Blocking,
    /// A class of the program (`Client.msg_class`).
    Own(Py<PyAny>),
}

impl MessageFormat {
    pub fn new(class: &Bound<'_, PyAny>) -> Self {
        let py = class.py();
        if class.is(py.get_type::<Msg>()) {
            MessageFormat::Awaited
        } else if class.is(py.get_type::<SyncMsg>()) {
            MessageFormat::Blocking
        } else {
            MessageFormat::Own(class.clone().unbind())
        }
    }

    /// Returns the format of a session.
    pub fn of(session: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(MessageFormat::new(&session.getattr(intern!(session.py(), "msg_class"))?))
    }

    /// Creates a message.
    pub fn make<'py>(
        &self,
        py: Python<'py>,
        session: &Py<PyAny>,
        message: impl Into<Received>,
        sid: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let msg = Msg::new(Some(session.clone_ref(py)), message.into(), sid);
        let class = match self {
            MessageFormat::Awaited => return Ok(Bound::new(py, msg)?.into_any()),
            MessageFormat::Blocking => {
                return Ok(Bound::new(py, PyClassInitializer::from(msg).add_subclass(SyncMsg))?.into_any());
            }
            MessageFormat::Own(class) => class.bind(py),
        };
        let _call = begin_call(py);
        let fields = PyDict::new(py);
        fields.set_item("_client", msg.client(py)?)?;
        fields.set_item("subject", msg.subject(py)?)?;
        fields.set_item("reply", msg.reply(py)?)?;
        fields.set_item("data", msg.data(py)?)?;
        fields.set_item("headers", msg.headers(py)?)?;
        fields.set_item("_sid", sid)?;
        Ok(class.call((), Some(&fields))?)
    }
}
