//! Wake-up of a mailbox's owner: through a pipe that a selector watches, or else through a function.
//!
//! The pipe costs one system call and no GIL. Windows' selectors watch sockets only, and its default event loop has no
//! selector. So a function is called there, in a thread that may wait for the GIL.

use std::io;
use std::sync::Arc;

use pyo3::prelude::*;

use super::system::Pipe;
use runtime::finalization::PythonCall;
use runtime::task;

/// A wake-up through a pipe or a function.
pub enum Wake {
    Pipe(Pipe),
    Call(Arc<Py<PyAny>>),
}

impl Wake {
    pub fn new(call: Option<Py<PyAny>>) -> io::Result<Self> {
        Ok(match call {
            None => Wake::Pipe(Pipe::new()?),
            Some(call) => Wake::Call(Arc::new(call)),
        })
    }

    /// Wakes the owner. Can be called from any thread and does not block.
    pub fn ring(&self) {
        // Both errors mean that the loop is closed, so it needs no wake-up.
        match self {
            Wake::Pipe(pipe) => drop(pipe.ring()),
            Wake::Call(call) => {
                let call = call.clone();
                drop(task::blocking(move || {
                    let _call = PythonCall::begin()?;
                    Python::try_attach(move |py| call.call0(py).map(drop))
                }));
            }
        }
    }

    /// Resets the wake-up. The owner calls it before it reads the mailbox.
    pub fn heard(&self) -> io::Result<()> {
        match self {
            Wake::Pipe(pipe) => pipe.heard(),
            Wake::Call(_) => Ok(()),
        }
    }

    /// Returns the descriptor that becomes readable at `ring`; `None` if a function is called.
    pub fn descriptor(&self) -> Option<i32> {
        match self {
            Wake::Pipe(pipe) => Some(pipe.descriptor()),
            Wake::Call(_) => None,
        }
    }
}
