//! What selectors watch on Unix: descriptors.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

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

/// Something arrived, or the loop's selector (itself a descriptor that can be watched) has something.
#[allow(deprecated)] // what takes its place wants an owner, and the owner is Python
pub async fn until_due(arrived: &Notify, selector: i32) {
    // For this once: one that stayed registered would wake whoever drives the connection at each event of the loop.
    let Ok(selector) = AsyncFd::with_interest(selector, Interest::READABLE) else { return };
    tokio::select! {
        biased;
        () = arrived.notified() => {}
        _ = selector.readable() => {}
    }
}
