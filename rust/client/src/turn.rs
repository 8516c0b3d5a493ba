//! A turn in the outbox.

use tokio::sync::oneshot;

/// A place in the queue for what only its owner can hand over. Dropping it lets the queue go on.
pub struct Turn {
    come: oneshot::Receiver<()>,
    over: oneshot::Sender<()>,
}

impl Turn {
    /// The turn, what tells that it has come, and what tells that it is over.
    pub fn new() -> (Self, oneshot::Sender<()>, oneshot::Receiver<()>) {
        let ((told, come), (over, passed)) = (oneshot::channel(), oneshot::channel());
        (Turn { come, over }, told, passed)
    }

    /// Waits until all before it was handed over; false where the connection is closed before that. Safe to give up.
    pub async fn wait(&mut self) -> bool {
        (&mut self.come).await.is_ok()
    }

    /// It was handed over; what was asked for later follows.
    pub fn pass(self) {
        let _closed = self.over.send(());
    }
}
