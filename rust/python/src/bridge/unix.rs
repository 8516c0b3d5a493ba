//! The bridge's system calls for Unix, whose selectors watch file descriptors.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// A pipe that a selector can watch, and whose reader never blocks.
pub struct Pipe {
    reader: PipeReader,
    writer: PipeWriter,
    /// Bytes in the pipe that were not read. A loop can call its reader twice for one byte: after a KeyboardInterrupt
    /// its queue still holds the first call.
    bytes: AtomicUsize,
}

impl Pipe {
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Pipe { reader, writer, bytes: AtomicUsize::new(0) })
    }

    pub fn ring(&self) -> io::Result<()> {
        (&self.writer).write_all(&[1])?;
        // After the write, so that a counted byte can be read. A byte that is not counted yet leaves the pipe readable.
        self.bytes.fetch_add(1, Ordering::Release);
        Ok(())
    }

    pub fn heard(&self) -> io::Result<()> {
        let counted = self.bytes.fetch_update(Ordering::Acquire, Ordering::Relaxed, |bytes| bytes.checked_sub(1));
        if counted.is_ok() { (&self.reader).read_exact(&mut [0]) } else { Ok(()) }
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
