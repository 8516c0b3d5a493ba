//! How a mailbox wakes its owner: by a pipe that a selector watches, or by a function where it can watch none.
//!
//! The pipe costs one system call and no GIL. Windows' selectors know only sockets, and its usual event loop watches
//! nothing at all: there a function is called, in a thread that may wait for the GIL as long as it takes.

use std::io;
use std::sync::Arc;

use pyo3::prelude::*;

use super::system::Pipe;
use runtime::finalization::PythonCall;
use runtime::task;

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

    /// From any thread; waits for nothing.
    pub fn ring(&self) {
        // A closed loop wants no wake-up: both errors mean just that.
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

    /// By the owner, before it looks for what came.
    pub fn heard(&self) -> io::Result<()> {
        match self {
            Wake::Pipe(pipe) => pipe.heard(),
            Wake::Call(_) => Ok(()),
        }
    }

    /// What becomes readable at `ring`; None where a function is called.
    pub fn descriptor(&self) -> Option<i32> {
        match self {
            Wake::Pipe(pipe) => Some(pipe.descriptor()),
            Wake::Call(_) => None,
        }
    }
}
