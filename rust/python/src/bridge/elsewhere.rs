//! The bridge's system calls for systems whose selectors watch sockets only. There is no pipe, and no selector to
//! watch.

use std::io;

use tokio::sync::Notify;

pub enum Pipe {}

impl Pipe {
    pub fn new() -> io::Result<Self> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this system cannot watch a descriptor; pass a function as wake",
        ))
    }

    pub fn ring(&self) -> io::Result<()> {
        match *self {}
    }

    pub fn heard(&self) -> io::Result<()> {
        match *self {}
    }

    pub fn descriptor(&self) -> i32 {
        match *self {}
    }
}

/// Returns at once, because a loop's selector cannot be watched.
pub async fn until_due(_arrived: &Notify, _selector: i32) {}
