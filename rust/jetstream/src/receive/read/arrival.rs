//! Waits for the next message of a read, with the reasons for its absence.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::time::sleep;

use super::ReadOutput;
use crate::receive::pull::PullInbox;
use base::error::Result;
use client::{Connection, Link};
use wire::message::Message;

/// Reason for which the message loop stopped.
pub enum ReadStop {
    End,
    /// The consumer must be replaced.
    Renew,
    /// The last messages were lost in transit; they are still in the stream.
    Missed,
    /// Request again from `next` with the same consumer.
    Again,
    /// The consumer has no more messages; the stream must confirm the end.
    Dry,
    /// The server waits for new messages; the stream must confirm the end.
    Silent,
    /// The reader was dropped or closed.
    Dropped,
}

/// Waits for the next message, at most `silence`. Returns the reason if none follows.
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
