//! A PING and its PONG.

use crate::connection_state::{ConnectionState, Pings};
use crate::transport::Client;
use base::error::Result;

/// Task yields after a PONG. More than one is needed, because tokio may run a task that yields again at once.
const YIELDS_AFTER_PONG: usize = 3;

/// Waits for a PING and its PONG. By then the server has processed all data sent before, and all data it sent before
/// has arrived. False if there were more disconnects than `breaks`.
pub async fn trip(client: &Client, state: &ConnectionState, breaks: u64) -> Result<bool> {
    let mut link = state.link.subscribe();
    let mut pings = state.pings.subscribe();
    let ours = loop {
        if client.ping() {
            break *pings.borrow_and_update();
        }
        let _gone = link.wait_for(|link| link.up || link.closed).await.map(drop);
        if link.borrow().closed {
            return Err(state.closed_error());
        }
        tokio::task::yield_now().await;
    };
    let answered = |now: &Pings| now.attempts != ours.attempts || now.answered >= ours.written;
    let same = tokio::select! {
        now = pings.wait_for(answered) => now.is_ok_and(|now| now.attempts == ours.attempts),
        _ = link.wait_for(|link| link.closed) => false,
    };
    // Tasks woken before this one have not run yet: subscriptions process earlier messages first. One yield is not
    // enough, because tokio may run a yielding task again at once.
    for _ in 0..YIELDS_AFTER_PONG {
        tokio::task::yield_now().await;
    }
    let link = *link.borrow();
    if link.closed { Err(state.closed_error()) } else { Ok(same && link.breaks == breaks) }
}
