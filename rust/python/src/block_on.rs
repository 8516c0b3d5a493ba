//! Waiting in a Python thread, with the GIL released and signals handled.

use std::future::Future;
use std::time::Duration;

use pyo3::prelude::*;
use tokio::sync::oneshot;

use crate::error::PyResult;
use crate::python_call::begin_call;
use base::error::JetError;
use runtime::task::spawn;
use runtime::visit;

/// Maximum delay of a signal while native code blocks.
const POLL: Duration = Duration::from_millis(50);

/// Waits for work with the GIL released. All blocking calls wait here.
///
/// It runs signal handlers and the caller's `tick` every 50 ms. An error of either ends the work. Meanwhile this thread
/// drives the connection.
pub fn block_on<T: Send + 'static>(
    py: Python<'_>,
    future: impl Future<Output = T> + Send + 'static,
    mut tick: impl FnMut(Python<'_>) -> PyResult<()>,
) -> PyResult<T> {
    let (send, receive) = oneshot::channel();
    let (failed, failure) = oneshot::channel();
    let work = async move {
        let _nobody_waits = send.send(future.await);
    };
    let task = spawn(work, move |error| drop(failed.send(error)))?;
    let mut answer = Box::pin(async move {
        match receive.await {
            Ok(value) => Ok(value),
            // The task panicked. The text of the panic follows.
            Err(_) => Err(failure.await.unwrap_or_else(|_| JetError::Internal("the work was cancelled".into()))),
        }
    });
    loop {
        let answer = &mut answer;
        match py.detach(move || visit(answer, POLL))? {
            Some(value) => return Ok(value?),
            None => {
                let _call = begin_call(py);
                if let Err(err) = py.check_signals().and_then(|()| Ok(tick(py)?)) {
                    task.abort();
                    return Err(err.into());
                }
            }
        }
    }
}
