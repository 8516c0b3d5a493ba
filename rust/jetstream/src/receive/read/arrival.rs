//! What comes next, or why nothing does.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::time::sleep;

use super::ReadOutput;
use crate::receive::pull::PullInbox;
use base::error::Result;
use client::{Connection, Link};
use wire::message::Message;

/// Why the message loop stopped.
pub enum ReadStop {
    End,
    /// The consumer is of no use any more.
    Renew,
    /// Nothing is in doubt: ask again from `next`.
    Again,
    /// Everything that the consumer had has come: is that all?
    Dry,
    /// The server waits for more: the same.
    Silent,
    /// The reader was dropped or closed.
    Dropped,
}

/// Waits for the next message; or says why none will come. `silence` is how long that may take.
pub async fn arrival(
    inbox: &mut PullInbox,
    conn: &Connection,
    link: &mut watch::Receiver<Link>,
    breaks: u64,
    silence: Duration,
    out: &ReadOutput,
) -> Result<Result<Message, ReadStop>> {
    loop {
        tokio::select! {
            biased;
            message = inbox.messages.next() => return message.map(Ok).ok_or_else(|| conn.closed()),
            () = out.closed() => return Ok(Err(ReadStop::Dropped)),
            Ok(()) = link.changed() => {
                if conn.breaks() != breaks {
                    return Ok(Err(ReadStop::Renew));
                }
                if let Some(cause) = inbox.refused() {
                    return Err(cause);
                }
            }
            () = sleep(silence) => return Ok(Err(ReadStop::Renew)),
        }
    }
}
