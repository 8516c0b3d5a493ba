//! Server events that the transport's task reports: PONG, INFO, -ERR and disconnects.

use super::{ConnectionEvent, ConnectionState, place};
use crate::disconnect_reason::{self, DisconnectReason, malformed};
use base::error::JetError;
use wire::ack_subject::AckSubject;
use wire::message::Message;
use wire::nats::ServerInfo;

impl ConnectionState {
    /// Counts a sent PING; returns its number.
    pub fn pinged(&self) -> u64 {
        self.pings.send_modify(|pings| pings.written += 1);
        self.pings.borrow().written
    }

    /// Counts a received PONG; returns the number of its PING.
    pub fn ponged(&self) -> u64 {
        self.pings.send_modify(|pings| pings.answered += 1);
        self.pings.borrow().answered
    }

    /// Handles the server's -ERR. `subscribed` is the subscription it may concern.
    pub fn server_error(&self, text: &str, subscribed: Option<&str>) {
        if !self.link.borrow().up {
            return self.note(|attempt| attempt.server_error = Some(text.to_owned()));
        }
        let server = self.lock().current.as_ref().map(place).unwrap_or_default();
        let error = disconnect_reason::of_server(&server, text, subscribed);
        if matches!(error, JetError::Permission { .. }) && self.refusals.send(&error) {
            self.link.send_modify(|link| link.refusals += 1);
        }
        self.tell(error);
    }

    /// Handles the server's INFO.
    pub fn informed(&self, info: &ServerInfo) {
        self.change(|state, notices| {
            if let Some(attempt) = &mut state.attempt {
                attempt.tls_required = Some(info.tls_required);
            }
            let Some(current) = &state.current else { return };
            let grew = self.pool().discover(current, &info.connect_urls, info.tls_required);
            // The first INFO of a connection is no event.
            if state.attempt.is_some() {
                return;
            }
            if grew {
                notices.push(ConnectionEvent::Discovered);
            }
            if info.lame_duck_mode && !std::mem::replace(&mut state.lame_duck, true) {
                notices.push(ConnectionEvent::LameDuck);
            }
        });
    }

    /// Reports malformed headers of a message about to be delivered. `meta` gives the stored position of a message that
    /// does not carry it.
    pub fn look_at_headers(&self, message: &Message, meta: Option<&AckSubject<'_>>) {
        malformed(message, meta).into_iter().for_each(|error| self.tell(error));
    }

    /// Records the reason for which the link is about to be dropped.
    pub fn broke(&self, why: DisconnectReason) {
        let mut state = self.lock();
        if state.reason.is_none() {
            let server = state.current.as_ref().map(place).unwrap_or_default();
            let reason = disconnect_reason::of_break(&server, &why);
            if let (DisconnectReason::TooLarge(_), Some(addr)) = (&why, &state.current) {
                // No message is this large, so the next attempt at this server waits.
                self.pool().suspect(addr);
            }
            state.reason = Some(reason);
        }
    }

    /// Records that the server left too many PINGs unanswered.
    pub fn stale(&self) {
        let mut state = self.lock();
        let server = state.current.as_ref().map(place).unwrap_or_default();
        state.reason = Some(JetError::Stale { server });
    }
}
