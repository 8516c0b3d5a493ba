//! The bridge's system calls for Unix, whose selectors watch file descriptors.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// A nonblocking pipe that a selector can watch.
pub struct Pipe {
    reader: PipeReader,
    writer: PipeWriter,
}

impl Pipe {
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Pipe { reader, writer })
    }

    pub fn ring(&self) -> io::Result<()> {
        (&self.writer).write_all(&[1])
    }

    pub fn heard(&self) -> io::Result<()> {
        (&self.reader).read_exact(&mut [0])
    }

    pub fn descriptor(&self) -> i32 {
        self.reader.as_raw_fd()
    }
}

/// Waits for an event, or until the loop's selector, which is itself a descriptor, is readable.
#[allow(deprecated)] // what takes its place wants an owner, and the owner is Python
pub async fn until_due(arrived: &Notify, selector: i32) {
    // Registered for this wait only. Otherwise each event of the loop would wake the driving thread.
    let Ok(selector) = AsyncFd::with_interest(selector, Interest::READABLE) else { return };
    tokio::select! {
        biased;
        () = arrived.notified() => {}
        _ = selector.readable() => {}
    }
}
