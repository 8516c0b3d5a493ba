//! What `tap` hears of the connection.

use std::sync::{Arc, Weak};

use super::{Hub, Notice, place};
use crate::engine::connection::fault;
use crate::engine::connection::info::Info;
use crate::error::JetError;
use crate::lock::lock;

impl Hub {
    pub fn pinged(&self) {
        self.pings.send_modify(|pings| pings.written += 1);
    }

    pub fn ponged(&self) {
        self.pings.send_modify(|pings| pings.answered += 1);
        self.read_something();
    }

    /// The server said -ERR.
    pub fn server_error(&self, text: &str) {
        let text = text.trim_matches('\'');
        if !self.link.borrow().up {
            return self.note(|attempt| attempt.server_error = Some(text.to_owned()));
        }
        if self.quiet.get().is_some_and(|subject| text.contains(subject.as_str())) {
            return;
        }
        let server = self.lock().current.as_ref().map(place).unwrap_or_default();
        let error = fault::of_server(&server, text);
        if matches!(error, JetError::Permission { .. }) && self.refusals.send(error.clone()).is_ok() {
            self.link.send_modify(|link| link.refusals += 1);
        }
        self.tell(error);
    }

    /// The server sent an INFO.
    pub fn informed(&self, info: &Info) {
        self.learn_limit(info.max_payload);
        self.change(|state, notices| {
            if let Some(attempt) = &mut state.attempt {
                attempt.tls_required = Some(info.tls_required);
            }
            let Some(current) = &state.current else { return };
            let grew = self.pool().discover(current, &info.connect_urls, info.tls_required);
            if grew {
                self.pool_grew.notify_one();
            }
            // The first INFO of a connection is no news.
            if state.attempt.is_some() {
                return;
            }
            if grew {
                notices.push(Notice::Discovered);
            }
            if info.lame_duck && !std::mem::replace(&mut state.lame_duck, true) {
                notices.push(Notice::LameDuck);
            }
        });
    }

    /// How often the link broke because of something that async-nats could not read.
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

    /// The link is about to be found broken, for this reason (async-nats's words).
    pub fn broke(&self, error: &str) {
        let mut state = self.lock();
        if state.reason.is_none() {
            let server = state.current.as_ref().map(place).unwrap_or_default();
            let listening: Vec<_> = lock(&self.listening).iter().filter_map(Weak::upgrade).collect();
            let reason = fault::of_break(&server, error, &listening);
            state.garbled += u64::from(matches!(reason, JetError::Protocol { .. }));
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
