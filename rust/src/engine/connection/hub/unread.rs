//! A bound on what async-nats gathers for one message or line.
//!
//! Missing upstream: its parser takes any length that a server says, and a line without end, and its buffer grows for as
//! long as bytes come. How we get it: it logs every read (`tap`), in its own task, after it has counted the bytes; where
//! more of them have come without a message than any message has, the task is ended from there, as `reconnect` ends it:
//! it would not look at a command before the bytes stop coming. Held in place by tests/test_hostile.py.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Hub, place};
use crate::error::JetError;

/// The largest message that a server stores unless it was told to take larger ones, with its headers; one that it stored
/// before its limit was lowered may still come.
const MOST: u64 = 64 << 20;
/// More than this is not gathered, whatever limit the server names.
const MOST_EVER: u64 = 1 << 30;
/// Lines, and what is read in one go.
const MARGIN: u64 = 1 << 20;

/// What async-nats had counted when a message was last seen to be complete.
#[derive(Default)]
pub struct Unread {
    messages: AtomicU64,
    bytes: AtomicU64,
    /// The server's limit of a message.
    max_payload: AtomicU64,
}

impl Unread {
    /// More than this is no message.
    fn limit(&self) -> u64 {
        self.max_payload.load(Ordering::Relaxed).clamp(MOST, MOST_EVER) + MARGIN
    }

    /// Bytes that have come since a message was complete, given all that were counted.
    fn since(&self, messages: u64, bytes: u64) -> u64 {
        if self.messages.swap(messages, Ordering::Relaxed) != messages {
            self.bytes.store(bytes, Ordering::Relaxed);
        }
        bytes.saturating_sub(self.bytes.load(Ordering::Relaxed))
    }
}

impl Hub {
    /// What the server says that a message may have.
    pub(super) fn learn_limit(&self, max_payload: Option<u64>) {
        if let Some(most) = max_payload {
            self.unread.max_payload.store(most, Ordering::Relaxed);
        }
    }

    /// Nothing but messages is seen to be complete: a link that begins, or answers a ping, has brought other things.
    pub(super) fn read_something(&self) {
        if let Some(all) = self.statistics.get() {
            self.unread.bytes.store(all.in_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// async-nats has read some bytes, in whose task this is called. Does not return where they are too many.
    pub fn has_read(&self) {
        let Some(all) = self.statistics.get() else { return };
        let since = self.unread.since(all.in_messages.load(Ordering::Relaxed), all.in_bytes.load(Ordering::Relaxed));
        let limit = self.unread.limit();
        if since > limit {
            let server = self.lock().current.as_ref().map(place).unwrap_or_default();
            let answer = format!("more than {limit} bytes that are no message");
            self.failed_within(JetError::Protocol { what: format!("the connection to {server}"), answer });
            // No hook hears it, and tokio catches it.
            std::panic::resume_unwind(Box::new("jetarrow: more than a message"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_from_the_last_message() {
        let unread = Unread::default();
        assert_eq!((unread.since(0, 100), unread.since(0, 300)), (100, 300));
        // Its end was in what was read last.
        assert_eq!((unread.since(1, 350), unread.since(1, 400)), (0, 50));
    }

    #[test]
    fn the_limit_is_that_of_any_server_or_the_servers_own() {
        let unread = Unread::default();
        for (said, limit) in [(0, MOST), (1 << 20, MOST), (100 << 20, 100 << 20), (u64::MAX, MOST_EVER)] {
            unread.max_payload.store(said, Ordering::Relaxed);
            assert_eq!(unread.limit(), limit + MARGIN);
        }
    }
}
