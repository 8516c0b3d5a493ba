//! What a request brings after its call has returned: over a slow link, or from a server that was stopped.
//!
//! It belongs to the next call of the same subscription, which asks for nothing new before all of it has come: what is
//! under way stays bounded by one request. When the subscription ends it is given back.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Message;
use futures_util::{FutureExt, StreamExt};
use tokio::task::JoinHandle;

use crate::engine::connection::Connection;
use crate::engine::receive::pull::PullInbox;
use crate::task::spawn;

/// How long one round trip is waited for, before it is looked whether the link still stands.
const TRIP: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(100);

/// An inbox whose request was withdrawn.
pub struct Late {
    inbox: PullInbox,
    /// Came, and was too large for the call that looked at it.
    refused: Option<Message>,
    /// Ends when all that the server had sent has come; then it is None.
    coming: Option<JoinHandle<()>>,
}

impl Late {
    /// `breaks`: of the link, when the request was sent.
    pub fn new(conn: &Arc<Connection>, inbox: PullInbox, breaks: u64) -> Self {
        let coming = spawn(all_came(conn.clone(), breaks), |_| ()).ok();
        Late { inbox, refused: None, coming }
    }

    /// The next message; None when all have come.
    pub async fn next(&mut self) -> Option<Message> {
        if let Some(message) = self.refused.take() {
            return Some(message);
        }
        loop {
            let message = match &mut self.coming {
                None => self.inbox.messages.next().now_or_never().flatten()?,
                Some(coming) => tokio::select! {
                    biased;
                    message = self.inbox.messages.next() => message?,
                    _over = coming => {
                        self.coming = None;
                        continue;
                    }
                },
            };
            if self.inbox.status(&message).is_none() {
                return Some(message);
            }
        }
    }

    /// Takes back what `next` gave.
    pub fn put_back(&mut self, message: Message) {
        self.refused = Some(message);
    }
}

/// Returns once nothing can come any more of what the server had sent: a round trip later, or when the link broke.
async fn all_came(conn: Arc<Connection>, breaks: u64) {
    while conn.breaks() == breaks && !conn.link.borrow().closed {
        if conn.round_trip(TRIP).await.is_ok() {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
}
