//! Server events that the transport's task reports: PONG, INFO, -ERR and disconnects.

use super::{ConnectionEvent, ConnectionState, place};
use crate::disconnect_reason::{self, DisconnectReason};
use base::error::JetError;
use wire::nats::ServerInfo;

/// The events that the server causes, as the transport reports them.
pub struct ServerEvents<'a>(pub(super) &'a ConnectionState);

impl ServerEvents<'_> {
    /// Counts a received PONG; returns the number of its PING.
    pub fn ponged(&self) -> u64 {
        self.0.pings.send_modify(|pings| pings.answered += 1);
        self.0.pings.borrow().answered
    }

    /// Handles the server's -ERR. `subscribed` is the subscription it may concern.
    pub fn server_error(&self, text: &str, subscribed: Option<&str>) {
        if !self.0.link.borrow().up {
            return self.0.attempt().note(|attempt| attempt.server_error = Some(text.to_owned()));
        }
        let server = self.0.lock().current.as_ref().map(place).unwrap_or_default();
        let error = disconnect_reason::of_server(&server, text, subscribed);
        if matches!(error, JetError::Permission { .. }) && self.0.refusals.send(&error) {
            self.0.link.send_modify(|link| link.refusals += 1);
        }
        self.0.tell(error);
    }

    /// Handles the server's INFO.
    pub fn informed(&self, info: &ServerInfo) {
        self.0.change(|state, notices| {
            if let Some(attempt) = &mut state.attempt {
                attempt.tls_required = Some(info.tls_required);
            }
            let Some(current) = &state.current else { return };
            let grew = self.0.pool().discover(current, &info.connect_urls, info.tls_required);
            // The first INFO of a connection is no event.
            if state.attempt.is_some() {
                return;
            }
            if grew {
                notices.push(ConnectionEvent::Discovered);
            }
            if info.lame_duck_mode && !std::mem::replace(&mut state.lame_duck, true) {
                notices.push(ConnectionEvent::LameDuck);
                self.0.lame_duck.notify_one();
            }
        });
    }

    /// Records the reason for which the link is about to be dropped.
    pub fn broke(&self, why: DisconnectReason) {
        let mut state = self.0.lock();
        if state.reason.is_none() {
            let server = state.current.as_ref().map(place).unwrap_or_default();
            let reason = disconnect_reason::of_break(&server, &why);
            if let (DisconnectReason::TooLarge(_), Some(addr)) = (&why, &state.current) {
                // No message is this large, so the next attempt at this server waits.
                self.0.pool().suspect(addr);
            }
            state.reason = Some(reason);
        }
    }

    /// Records that the server left too many PINGs unanswered.
    pub fn stale(&self) {
        let mut state = self.0.lock();
        let server = state.current.as_ref().map(place).unwrap_or_default();
        state.reason = Some(JetError::Stale { server });
    }
}
