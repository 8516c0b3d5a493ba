//! Thin classes over the engine. Everything that waits is a `Call`: the async face awaits it, the sync face blocks on
//! it.

mod ack;
mod arrow;
mod batch;
mod call;
mod connect;
mod content_ids;
mod convert;
mod copies;
mod decompress;
mod entry;
mod fetch;
mod headers;
mod keys;
mod lane;
mod loss;
mod message;
mod notices;
mod options;
mod outbox;
mod payload;
mod puback;
mod publish;
mod publisher;
mod read;
mod request;
mod requested;
mod rows;
mod status;
mod subscribe;
mod table;
mod typed;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyString};

use crate::error::JetError;
use crate::py::convert::{SURROGATE, utf8};

/// The flat native module `jetarrow._jetarrow`.
#[pymodule(gil_used = false)]
pub fn _jetarrow(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    // Benchmarks refuse to run on it.
    module.add("__debug_build__", cfg!(debug_assertions))?;
    module.add_class::<crate::bridge::Bridge>()?;
    module.add_class::<batch::Array>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<call::Call>()?;
    module.add_class::<connect::Connection>()?;
    module.add_class::<content_ids::ContentIds>()?;
    module.add_class::<content_ids::Ids>()?;
    module.add_class::<decompress::Decompressor>()?;
    module.add_class::<entry::Entries>()?;
    module.add_class::<keys::Subjects>()?;
    module.add_class::<fetch::PullSubscription>()?;
    module.add_class::<loss::Loss>()?;
    message::add_classes(module)?;
    module.add_class::<notices::Notices>()?;
    module.add_class::<publish::FailedRow>()?;
    module.add_class::<publish::PublishOutcome>()?;
    module.add_class::<publisher::Publisher>()?;
    module.add_class::<read::Reader>()?;
    module.add_class::<status::PoolServer>()?;
    module.add_class::<subscribe::Missed>()?;
    module.add_class::<subscribe::Subscription>()?;
    module.add_class::<table::TableMessages>()?;
    module.add_function(wrap_pyfunction!(connect::connect, module)?)?;
    module.add_function(wrap_pyfunction!(call::last_words, module)?)?;
    module.add_function(wrap_pyfunction!(keys::key_subjects, module)?)?;
    module.add_function(wrap_pyfunction!(typed::schema_of_payload, module)?)?;
    module.add_function(wrap_pyfunction!(check_name, module)?)?;
    module.add_function(wrap_pyfunction!(check_subject, module)?)?;
    crate::task::report_panics(log_panic);
    let forked = wrap_pyfunction!(forked, module)?;
    let hooks = [("after_in_child", forked)].into_py_dict(module.py())?;
    // Where there is a fork.
    if let Ok(register) = module.py().import("os")?.getattr("register_at_fork") {
        register.call((), Some(&hooks))?;
    }
    let logged = wrap_pyfunction!(panics_are_logged, module)?;
    module.py().import("atexit")?.call_method1("register", (logged,))?;
    #[cfg(debug_assertions)]
    module.add_function(wrap_pyfunction!(call::force_panic, module)?)?;
    Ok(())
}

/// Into the log, and not by the thread that panics: it may hold any lock.
fn log_panic(text: String) {
    let log = move |py: Python<'_>| -> PyResult<()> {
        let log = py.import("logging")?.call_method1("getLogger", ("jetarrow",))?;
        log.call_method1("error", ("a panic in native code, please report it: %s", text)).map(drop)
    };
    let work = move || {
        let _at_exit = Python::try_attach(|py| log(py).unwrap_or_else(|err| err.write_unraisable(py, None)));
        LOGGING.fetch_sub(1, SeqCst);
    };
    LOGGING.fetch_add(1, SeqCst);
    if std::thread::Builder::new().name("jetarrow-panic".into()).spawn(work).is_err() {
        LOGGING.fetch_sub(1, SeqCst);
    }
}

/// Threads that log a panic.
static LOGGING: AtomicUsize = AtomicUsize::new(0);
const LAST_LOG: Duration = Duration::from_millis(500);

/// At the end of the process: a thread that has Python while the interpreter ends would bring it down.
#[pyfunction]
fn panics_are_logged(py: Python<'_>) {
    let begin = Instant::now();
    while LOGGING.load(SeqCst) > 0 && begin.elapsed() < LAST_LOG {
        py.detach(|| std::thread::sleep(Duration::from_millis(1)));
    }
}

/// Runs in every child that Python forks.
#[pyfunction]
fn forked() {
    LOGGING.store(0, SeqCst);
    crate::runtime::forked();
}

/// The one check of the names of streams and consumers, also for Python's own requests.
#[pyfunction]
fn check_name(what: &str, name: &Bound<'_, PyString>) -> PyResult<()> {
    let name = utf8(name, || JetError::Value(format!("the {what} name: {SURROGATE}")))?;
    Ok(crate::engine::subject::check_name(what, &name)?)
}

/// What begins the API's subjects is checked where it is given, not first where it is used.
#[pyfunction]
fn check_subject(subject: &str) -> PyResult<()> {
    Ok(crate::engine::subject::check(subject)?)
}
