//! Moves the connection to another server when its server announces its shutdown (lame duck mode, ADR-5).
//!
//! A server in that mode closes its connections one after the other, whatever is on its way. So the connection leaves first,
//! at a moment in which nothing is unanswered: what begins meanwhile waits. Without such a moment it stays until the server
//! closes it, and then reconnects as after any disconnect.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::connection_state::ConnectionState;
use crate::pool::random;
use crate::request::PendingRequests;
use crate::round_trip::trip;
use crate::traffic::Traffic;
use crate::transport::Client;

/// A client waits for a random part of this, because all clients of the server move.
const JITTER: Duration = Duration::from_secs(1);
/// Longest time for which new messages wait for the responses of requests.
const HOLD: Duration = Duration::from_secs(1);
/// Longest time for which they wait for acks, which a slow stream delays: less than the timeout of most requests. A
/// server closes nothing for its grace period, 10 s by default.
const HOLD_FOR_ACKS: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_secs(2);
const ATTEMPTS: u32 = 5;
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

pub struct LameDuck {
    client: Client,
    state: Arc<ConnectionState>,
    traffic: Arc<Traffic>,
    requests: PendingRequests,
}

impl LameDuck {
    pub fn new(client: Client, state: Arc<ConnectionState>, traffic: Arc<Traffic>, requests: PendingRequests) -> Self {
        LameDuck { client, state, traffic, requests }
    }

    /// Moves the connection whenever its server announces its shutdown, until it is closed.
    pub async fn run(self) {
        let mut link = self.state.link.subscribe();
        loop {
            tokio::select! {
                () = self.state.lame_duck.notified() => {}
                _ = link.wait_for(|link| link.closed) => return,
            }
            let breaks = link.borrow().breaks;
            let gone = async {
                // Its guard would keep the link from being changed by the end of the hold.
                drop(link.wait_for(|link| link.closed || link.breaks != breaks).await);
            };
            tokio::select! {
                () = self.move_away() => {}
                () = gone => {}
            }
        }
    }

    async fn move_away(&self) {
        sleep(JITTER.mul_f64(random())).await;
        for _ in 0..ATTEMPTS {
            // The announcement may be that of an earlier link.
            if !self.state.is_lame_duck() || self.state.pool().count() < 2 {
                return;
            }
            let hold = Hold::new(&self.state);
            if timeout(HOLD_FOR_ACKS, self.answered()).await.unwrap_or(false) {
                // Messages that are routed here would be lost with the link.
                self.client.take_no_more();
                let breaks = self.state.link.borrow().breaks;
                let _late = timeout(HOLD, trip(&self.client, &self.state, breaks)).await;
                if let Some(addr) = self.state.current() {
                    // It takes no new connections.
                    self.state.pool().suspect(&addr);
                }
                self.client.force_reconnect();
                // This ends with the link, and the hold with it.
                return std::future::pending().await;
            }
            drop(hold);
            sleep(PAUSE).await;
        }
    }

    /// Waits until nothing is unanswered, and the server has taken what was sent. False if a request waits for long.
    async fn answered(&self) -> bool {
        let (begin, last) = (Instant::now(), self.requests.last());
        let breaks = self.state.link.borrow().breaks;
        loop {
            if self.requests.is_any(last) {
                if begin.elapsed() >= HOLD {
                    return false;
                }
            } else if self.traffic.unanswered() == 0
                && matches!(trip(&self.client, &self.state, breaks).await, Ok(true))
                && self.traffic.unanswered() == 0
            {
                return true;
            }
            sleep(LOOK_INTERVAL).await;
        }
    }
}

/// New messages wait as long as this lives.
struct Hold<'a>(&'a ConnectionState);

impl<'a> Hold<'a> {
    fn new(state: &'a ConnectionState) -> Self {
        state.link.send_modify(|link| link.moving = true);
        Hold(state)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.link.send_modify(|link| link.moving = false);
    }
}
