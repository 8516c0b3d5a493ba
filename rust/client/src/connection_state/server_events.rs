//! What the connection's task hears.

use super::{ConnectionEvent, ConnectionState, place};
use crate::disconnect_reason::{self, DisconnectReason, malformed};
use base::error::JetError;
use wire::ack_subject::AckSubject;
use wire::message::Message;
use wire::nats::ServerInfo;

impl ConnectionState {
    /// A PING goes out; returns its number.
    pub fn pinged(&self) -> u64 {
        self.pings.send_modify(|pings| pings.written += 1);
        self.pings.borrow().written
    }

    /// A PONG came; returns the number of its PING.
    pub fn ponged(&self) -> u64 {
        self.pings.send_modify(|pings| pings.answered += 1);
        self.pings.borrow().answered
    }

    /// The server said -ERR; `subscribed` is the subscription that it may be about.
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

    /// The server sent an INFO.
    pub fn informed(&self, info: &ServerInfo) {
        self.change(|state, notices| {
            if let Some(attempt) = &mut state.attempt {
                attempt.tls_required = Some(info.tls_required);
            }
            let Some(current) = &state.current else { return };
            let grew = self.pool().discover(current, &info.connect_urls, info.tls_required);
            // The first INFO of a connection is no news.
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

    /// Says of a message that is handed out, where it is so, that its headers are malformed. `meta` is of one that does not
    /// say itself where it is stored.
    pub fn look_at_headers(&self, message: &Message, meta: Option<&AckSubject<'_>>) {
        malformed(message, meta).into_iter().for_each(|error| self.tell(error));
    }

    /// The link is about to be given up, for this reason.
    pub fn broke(&self, why: DisconnectReason) {
        let mut state = self.lock();
        if state.reason.is_none() {
            let server = state.current.as_ref().map(place).unwrap_or_default();
            let reason = disconnect_reason::of_break(&server, &why);
            if let (DisconnectReason::TooLarge(_), Some(addr)) = (&why, &state.current) {
                // No message does that: it is not asked again at once.
                self.pool().suspect(addr);
            }
            state.reason = Some(reason);
        }
    }

    /// The server left too many pings unanswered.
    pub fn stale(&self) {
        let mut state = self.lock();
        let server = state.current.as_ref().map(place).unwrap_or_default();
        state.reason = Some(JetError::Stale { server });
    }
}
