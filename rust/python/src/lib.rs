//! The native module `jetarrow._jetarrow`: thin classes over the engine, and the bridge to asyncio.
//!
//! Each operation that waits is a `Call`: the async API awaits it, the sync API blocks on it. Uses every crate of the
//! engine. Begin at [`call`] and [`bridge`].

mod ack;
mod arrow;
mod batch;
mod block_on;
mod bridge;
mod call;
mod connect;
mod content_ids;
mod convert;
mod copies;
mod decompress;
mod entry;
mod error;
mod fetch;
mod headers;
mod keys;
mod loss;
mod message;
mod notices;
mod options;
mod outbox;
mod payload;
mod puback;
mod publish;
mod publisher;
mod publisher_fence;
mod python_call;
mod python_names;
mod read;
mod registry;
mod request;
mod requested;
mod rows;
mod status;
mod subscribe;
mod table;
mod typed;

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyString};

use crate::convert::{SURROGATE, utf8};
use crate::error::PyResult;
use base::error::JetError;
use runtime::finalization::{self, PythonCall};
use runtime::foreign;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The native module `jetarrow._jetarrow`. It is flat.
#[pymodule(gil_used = false)]
pub fn _jetarrow(module: &Bound<'_, PyModule>) -> pyo3::PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    // Benchmarks refuse to run with a debug build.
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
    module.add_class::<registry::SchemaRegistry>()?;
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
    module.add_function(wrap_pyfunction!(call::alive_tasks, module)?)?;
    module.add_function(wrap_pyfunction!(call::last_words, module)?)?;
    module.add_function(wrap_pyfunction!(keys::key_subjects, module)?)?;
    module.add_function(wrap_pyfunction!(read::thin_marks, module)?)?;
    module.add_function(wrap_pyfunction!(typed::columns_of_schema, module)?)?;
    module.add_function(wrap_pyfunction!(typed::schema_of_payload, module)?)?;
    module.add_function(wrap_pyfunction!(check_name, module)?)?;
    module.add_function(wrap_pyfunction!(check_subject, module)?)?;
    base::panics::report_panics(log_panic);
    let forked = wrap_pyfunction!(forked, module)?;
    let hooks = [("after_in_child", forked)].into_py_dict(module.py())?;
    // Only systems with fork have this function.
    if let Ok(register) = module.py().import("os")?.getattr("register_at_fork") {
        register.call((), Some(&hooks))?;
    }
    let at_exit = wrap_pyfunction!(begin_finalization, module)?;
    module.py().import("atexit")?.call_method1("register", (at_exit,))?;
    #[cfg(debug_assertions)]
    module.add_function(wrap_pyfunction!(call::force_panic, module)?)?;
    Ok(())
}

/// Logs a panic in another thread, because the thread that panics can hold any lock.
fn log_panic(text: String) {
    let log = move |py: Python<'_>| -> PyResult<()> {
        let log = py.import("logging")?.call_method1("getLogger", ("jetarrow",))?;
        Ok(log.call_method1("error", ("a panic in native code, please report it: %s", text)).map(drop)?)
    };
    let Some(call) = PythonCall::begin() else { return };
    let work = move || {
        let _until_logged = call;
        let _at_exit =
            Python::try_attach(|py| log(py).unwrap_or_else(|err| PyErr::from(err).write_unraisable(py, None)));
    };
    let _no_thread = std::thread::Builder::new().name("jetarrow-panic".into()).spawn(work);
}

/// Maximum time for which the exit hook waits for calls into Python, such as one to a producer of rows.
const LAST_CALLS: Duration = Duration::from_secs(1);

#[pyfunction]
fn begin_finalization(py: Python<'_>) {
    py.detach(|| finalization::begin(LAST_CALLS));
    foreign::release();
}

/// Runs in every forked child.
#[pyfunction]
fn forked() {
    finalization::forked();
    runtime::forked();
}

/// Validates the name of a stream or consumer, also for requests that Python builds.
#[pyfunction]
fn check_name(what: &str, name: &Bound<'_, PyString>) -> PyResult<()> {
    let name = utf8(name, || JetError::Value(format!("the {what} name: {SURROGATE}")))?;
    Ok(wire::subject::check_name(what, &name)?)
}

/// Validates the prefix of API subjects when it is set, not at its first use.
#[pyfunction]
fn check_subject(subject: &str) -> PyResult<()> {
    Ok(wire::subject::check(subject)?)
}
