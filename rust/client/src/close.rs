//! The end of a connection.

use std::time::Duration;

use crate::connect::{Connection, TIMEOUT_MARGIN};
use crate::round_trip::trip;
use crate::stall::run_until_stalled;

/// Maximum wait for unsent data in a hurried close.
const MAX_HURRIED_FLUSH: Duration = Duration::from_millis(300);

impl Connection {
    /// Sends all queued data, then closes the connection. In a hurry it does not wait for a slow server.
    pub async fn close(&self, hurry: bool) {
        if self.link.borrow().closed {
            return;
        }
        self.state.stop();
        let sent = self.while_up(async {
            let _not_confirmed = self.round_trip(Duration::MAX).await;
        });
        if hurry {
            let _late = tokio::time::timeout(MAX_HURRIED_FLUSH, sent).await;
        } else {
            self.run_until_stalled(sent).await;
        }
        let mut link = self.link.clone();
        self.client.end();
        let ended = link.wait_for(|link| link.closed);
        let _stuck = tokio::time::timeout(if hurry { TIMEOUT_MARGIN / 2 } else { TIMEOUT_MARGIN }, ended).await;
        self.state.closed(None);
    }

    /// Runs `work` until it is done, or until nothing was sent or received for a while.
    pub async fn run_until_stalled(&self, work: impl Future<Output = ()>) {
        run_until_stalled(&self.client, self.outbox.recall(), work).await;
    }

    /// Waits until the server has processed all data sent so far, or until progress stalls.
    pub async fn settle(&self) {
        self.while_up(self.run_until_stalled(async {
            let _not_confirmed = self.round_trip(Duration::MAX).await;
        }))
        .await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.link.borrow().closed {
            // Subscriptions keep the transport's task alive, so it needs an explicit stop.
            self.state.stop();
            let (client, state, rest) = (self.client.clone(), self.state.clone(), self.outbox.rest());
            let outbox = self.outbox.recall();
            runtime::linger(async move {
                let sent = async {
                    rest.await;
                    let _away = trip(&client, &state, 0).await;
                };
                run_until_stalled(&client, outbox, sent).await;
                client.end();
                let mut link = state.link.subscribe();
                let _closed = tokio::time::timeout(TIMEOUT_MARGIN, link.wait_for(|link| link.closed)).await;
            });
        }
    }
}
