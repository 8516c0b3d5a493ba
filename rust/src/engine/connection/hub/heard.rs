//! What the connection's task hears.

use std::sync::{Arc, Weak};

use async_nats::ServerInfo;

use super::{Hub, Notice, place};
use crate::engine::connection::fault::{self, Broken};
use crate::error::JetError;
use crate::lock::lock;

impl Hub {
    pub fn pinged(&self) {
        self.pings.send_modify(|pings| pings.written += 1);
    }

    pub fn ponged(&self) {
        self.pings.send_modify(|pings| pings.answered += 1);
    }

    /// The server said -ERR.
    pub fn server_error(&self, text: &str) {
        if !self.link.borrow().up {
            return self.note(|attempt| attempt.server_error = Some(text.to_owned()));
        }
        let server = self.lock().current.as_ref().map(place).unwrap_or_default();
        let error = fault::of_server(&server, text);
        if matches!(error, JetError::Permission { .. }) && self.refusals.send(error.clone()).is_ok() {
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
                notices.push(Notice::Discovered);
            }
            if info.lame_duck_mode && !std::mem::replace(&mut state.lame_duck, true) {
                notices.push(Notice::LameDuck);
            }
        });
    }

    /// How often the link broke because of something that could not be read.
    pub fn garbled(&self) -> u64 {
        self.lock().garbled
    }

    /// Says that somebody listens to this subject, as long as the text lives.
    pub fn listens(&self, subject: &Arc<str>) {
        let mut listening = lock(&self.listening);
        if listening.len() == listening.capacity() {
            listening.retain(|subject| subject.strong_count() > 0);
        }
        listening.push(Arc::downgrade(subject));
    }

    /// The link is about to be given up, for this reason.
    pub fn broke(&self, why: Broken) {
        let mut state = self.lock();
        if state.reason.is_none() {
            let server = state.current.as_ref().map(place).unwrap_or_default();
            let listening: Vec<_> = lock(&self.listening).iter().filter_map(Weak::upgrade).collect();
            let reason = fault::of_break(&server, &why, &listening);
            state.garbled += u64::from(matches!(why, Broken::Unreadable));
            if let (Broken::TooLarge(_), Some(addr)) = (&why, &state.current) {
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
