//! Choice of the next server, and the end of reconnect attempts.

use std::sync::Arc;
use std::time::Duration;

use crate::connection_state::ConnectionState;
use crate::transport::AttemptFailure;
use base::error::JetError;
use wire::nats::{ServerAddr, ServerInfo};

impl ConnectionState {
    /// Records the result of the link or attempt before, then waits and returns the next server. Called before every
    /// attempt; `None` ends all attempts.
    pub async fn next_server(
        self: &Arc<Self>,
        failure: Option<AttemptFailure>,
        info: ServerInfo,
    ) -> Option<ServerAddr> {
        if self.link.borrow().up {
            self.lost();
            self.pool().shuffle();
        } else if let Some(failure) = failure {
            self.attempt().failed(&failure);
        }
        let (addr, wait) = match self.choose(info).await {
            Ok(choice) => choice,
            Err(error) => {
                self.closed(error);
                return None;
            }
        };
        if tokio::time::timeout(wait, self.ending()).await.is_ok() {
            return None;
        }
        self.attempt().begin(addr.clone());
        Some(addr)
    }

    /// Chooses the next server. An error, with its cause if known, ends all attempts.
    async fn choose(&self, info: ServerInfo) -> Result<(ServerAddr, Duration), Option<JetError>> {
        if self.is_closing() {
            return Err(None);
        }
        let was_up = self.was_up();
        if !was_up {
            if let Some(addr) = self.pool().first() {
                return Ok((addr, Duration::ZERO));
            }
            if !self.settings.retry_first {
                return Err(None);
            }
        } else if !self.settings.allow_reconnect {
            return Err(None);
        }
        let exhausted = || {
            let outage = self.outage().map_or_else(String::new, |outage| format!("; {outage}"));
            let cause = format!("all were tried as often as max_reconnect_attempts allows{outage}");
            Some(JetError::NoServers { servers: self.servers.to_string(), cause })
        };
        let Some(choose) = self.settings.choose.as_ref().filter(|_| was_up) else {
            return self.pool().next_in_turn().ok_or_else(exhausted);
        };
        let candidates = self.pool().candidates();
        if candidates.is_empty() {
            return Err(exhausted());
        }
        match choose(candidates.clone(), info).await {
            Ok((index, wait)) => {
                let chosen = index.and_then(|index| candidates.get(index)).unwrap_or(&candidates[0]);
                Ok((chosen.0.clone(), wait))
            }
            // Python holds the handler's exception. The next server in turn follows, so that a broken handler does not
            // end the connection.
            Err(_) => self.pool().next_in_turn().ok_or_else(exhausted),
        }
    }
}
