//! Conversion of the options of `connect`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tokio::sync::oneshot;

use crate::bridge::{Event, Mailbox};
use crate::convert::seconds;
use crate::error::PyResult;
use crate::notices::Notices;
use base::error::JetError;
use client::Options;
use client::auth::{Callback, CallbackAnswer, Credentials, Source, Text};
use client::pool;
use client::tls::Tls;
use runtime::finalization::PythonCall;
use runtime::task::blocking;
use wire::nats::{ServerAddr, ServerInfo};

/// The options of `connect`. Python has checked their types.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct RawOptions {
    servers: Vec<String>,
    name: Option<String>,
    websocket_headers: Vec<(String, String)>,
    connect_timeout: f64,
    reconnect_timeout: f64,
    ping_interval: f64,
    max_outstanding_pings: u32,
    inbox_prefix: Option<String>,
    no_echo: bool,
    skip_subject_validation: bool,
    allow_reconnect: bool,
    max_reconnects: Option<u32>,
    reconnect_wait: f64,
    reconnect_wait_max: f64,
    reconnect_jitter: f64,
    reconnect_jitter_tls: f64,
    ignore_discovered: bool,
    randomize: bool,
    retry_first: bool,
    pending_size: usize,
    user: Option<Py<PyAny>>,
    password: Option<Py<PyAny>>,
    token: Option<Py<PyAny>>,
    /// Kind, and one or two texts or paths.
    source: Option<(String, String, Option<String>)>,
    jwt: Option<Py<PyAny>>,
    nkey: Option<Py<PyAny>>,
    sign: Option<Py<PyAny>>,
    tls: Option<RawTls>,
    choose: Option<Py<PyAny>>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct RawTls {
    required: bool,
    roots: Option<Vec<Vec<u8>>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
    hostname: Option<String>,
    verify: bool,
    check_name: bool,
    handshake_first: bool,
}

/// Runs user callbacks in the event loop, or in a thread if there is no loop.
#[derive(Clone)]
struct Caller(Option<Arc<Mailbox>>);

impl Caller {
    /// Calls a user callback. `name` is the option, for errors. If it raises, Python already holds the exception.
    fn ask<T: Send + 'static>(
        &self,
        name: &'static str,
        call: impl FnOnce(Python<'_>) -> PyResult<T> + Send + 'static,
    ) -> CallbackAnswer<T> {
        let (send, answer) = oneshot::channel();
        let call = move |py: Python<'_>| match call(py) {
            Ok(value) => {
                let _nobody_waits = send.send(value);
                Ok(())
            }
            Err(err) if err.is_instance_of::<PyException>(py) => Ok(()),
            // Ctrl-C and other non-errors propagate to the loop.
            Err(err) => Err(err),
        };
        let run = match &self.0 {
            Some(mailbox) => {
                mailbox.push(0, Event::Many(Box::new(call)));
                None
            }
            None => Some(blocking(move || {
                let _call = PythonCall::begin()?;
                Python::try_attach(|py| call(py).unwrap_or_else(|err| PyErr::from(err).write_unraisable(py, None)))
            })),
        };
        Box::pin(async move {
            if let Some(run) = run {
                run.await?;
            }
            answer.await.map_err(|_| JetError::Callback { name })
        })
    }

    fn text(&self, py: Python<'_>, name: &'static str, value: Option<Py<PyAny>>) -> PyResult<Option<Text>> {
        let Some(value) = value else { return Ok(None) };
        if let Ok(text) = value.bind(py).cast::<PyString>() {
            return Ok(Some(Text::Fixed(text.to_str()?.to_owned())));
        }
        if !value.bind(py).is_callable() {
            return Err(PyTypeError::new_err(format!("{name} must be a string, or a function that returns one")).into());
        }
        Ok(Some(Text::Callback(self.callback(name, value, |function, ()| Ok(function.call0()?)))))
    }

    /// A user callback that returns a text. `call` calls it.
    fn callback<A: Send + 'static>(
        &self,
        name: &'static str,
        function: Py<PyAny>,
        call: impl for<'py> Fn(&Bound<'py, PyAny>, A) -> PyResult<Bound<'py, PyAny>> + Copy + Send + Sync + 'static,
    ) -> Callback<A, String> {
        let (caller, function) = (self.clone(), Arc::new(function));
        Arc::new(move |argument| {
            let function = function.clone();
            caller.ask(name, move |py| text_of(&call(function.bind(py), argument)?))
        })
    }
}

/// Returns the text of a str or of bytes.
fn text_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.extract::<String>() {
        Ok(text) => Ok(text),
        Err(_) => Ok(String::from_utf8(value.extract::<Vec<u8>>()?)?),
    }
}

impl RawOptions {
    pub fn into_options(self, py: Python<'_>, notices: Option<&Notices>) -> PyResult<Options> {
        let caller = Caller(notices.and_then(Notices::of_loop));
        let credentials = Credentials {
            user: caller.text(py, "user", self.user)?,
            password: caller.text(py, "password", self.password)?,
            token: caller.text(py, "token", self.token)?,
            source: self.source.map(|(kind, first, second)| source(&kind, first, second.unwrap_or_default())),
            jwt: self
                .jwt
                .map(|function| caller.callback("user_jwt_cb", function, |function, ()| Ok(function.call0()?))),
            nkey: self.nkey.map(|function| caller.callback("nkey", function, |function, ()| Ok(function.call0()?))),
            sign: self.sign.map(|function| {
                caller.callback("signature_cb", function, |function, nonce: String| Ok(function.call1((nonce,))?))
            }),
        };
        Ok(Options {
            servers: self.servers,
            name: self.name,
            websocket_headers: self.websocket_headers,
            connect_timeout: seconds("connect_timeout", self.connect_timeout)?,
            reconnect_timeout: seconds("reconnect_timeout", self.reconnect_timeout)?,
            ping_interval: seconds("ping_interval", self.ping_interval)?,
            max_outstanding_pings: self.max_outstanding_pings,
            inbox_prefix: self.inbox_prefix,
            no_echo: self.no_echo,
            skip_subject_validation: self.skip_subject_validation,
            allow_reconnect: self.allow_reconnect,
            max_reconnects: self.max_reconnects,
            reconnect_wait: seconds("reconnect_time_wait", self.reconnect_wait)?,
            reconnect_wait_max: seconds("reconnect_time_wait_max", self.reconnect_wait_max)?,
            reconnect_jitter: seconds("reconnect_jitter", self.reconnect_jitter)?,
            reconnect_jitter_tls: seconds("reconnect_jitter_tls", self.reconnect_jitter_tls)?,
            ignore_discovered: self.ignore_discovered,
            randomize: self.randomize,
            retry_first: self.retry_first,
            pending_size: self.pending_size,
            credentials,
            tls: self.tls.map(Tls::from),
            choose: self.choose.map(|function| {
                let function = Arc::new(function);
                Arc::new(move |servers: Vec<(ServerAddr, u32)>, info: ServerInfo| {
                    let function = function.clone();
                    caller.ask("reconnect_to_server_handler", move |py| choose(function.bind(py), &servers, &info))
                }) as _
            }),
            notices: notices.map(Notices::taker),
        })
    }
}

impl From<RawTls> for Tls {
    fn from(raw: RawTls) -> Tls {
        Tls {
            required: raw.required,
            roots: raw.roots,
            identity: raw.identity,
            hostname: raw.hostname,
            verify: raw.verify,
            check_name: raw.check_name,
            handshake_first: raw.handshake_first,
        }
    }
}

/// Returns the source of credentials. `kind` is one of Python's names for it.
fn source(kind: &str, first: String, second: String) -> Source {
    match kind {
        "file" => Source::File(PathBuf::from(first)),
        "pair" => Source::Pair(PathBuf::from(first), PathBuf::from(second)),
        "seed_file" => Source::SeedFile(PathBuf::from(first)),
        "seed" => Source::Seed(first),
        _ => Source::Raw(first),
    }
}

/// `function(servers, info)` returns the index of the server to try, or None, and the delay in seconds.
fn choose(
    function: &Bound<'_, PyAny>,
    servers: &[(ServerAddr, u32)],
    info: &ServerInfo,
) -> PyResult<(Option<usize>, Duration)> {
    let servers: Vec<_> = servers.iter().map(|(addr, failures)| (pool::url(addr), *failures)).collect();
    let (index, delay): (_, f64) = function.call1((servers, info_dict(function.py(), info)?))?.extract()?;
    Ok((index, seconds("delay", delay)?))
}

/// Returns the server's INFO as a dict with the protocol's names.
pub fn info_dict<'py>(py: Python<'py>, info: &ServerInfo) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in [
        ("server_id", &info.server_id),
        ("server_name", &info.server_name),
        ("host", &info.host),
        ("version", &info.version),
        ("go", &info.go),
        ("client_ip", &info.client_ip),
    ] {
        dict.set_item(name, value)?;
    }
    for (name, value) in [
        ("auth_required", info.auth_required),
        ("tls_required", info.tls_required),
        ("headers", info.headers),
        ("ldm", info.lame_duck_mode),
        ("jetstream", info.jetstream),
    ] {
        dict.set_item(name, value)?;
    }
    dict.set_item("port", info.port)?;
    dict.set_item("proto", info.proto)?;
    dict.set_item("max_payload", info.max_payload)?;
    dict.set_item("client_id", info.client_id)?;
    dict.set_item("connect_urls", info.connect_urls.clone())?;
    for (name, value) in [("cluster", &info.cluster), ("domain", &info.domain)] {
        if let Some(value) = value {
            dict.set_item(name, value)?;
        }
    }
    Ok(dict)
}
