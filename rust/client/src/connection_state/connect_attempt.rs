//! One attempt to connect: its server, credentials, and the details that explain a failure.

use super::{ConnectionEvent, ConnectionState, Pings, place};
use crate::disconnect_reason::{self, AttemptDetails};
use crate::transport::AttemptFailure;
use base::error::JetError;
use wire::nats::{Auth, ServerAddr};

/// The attempt under way, as its connection keeps it.
pub struct ConnectAttempt<'a>(pub(super) &'a ConnectionState);

impl ConnectAttempt<'_> {
    /// Records the start of an attempt at this server.
    pub fn begin(&self, addr: ServerAddr) {
        let timeout = self.0.attempt_timeout();
        let mut state = self.0.lock();
        self.0.pings.send_modify(|pings| *pings = Pings { attempts: pings.attempts + 1, ..Pings::default() });
        state.attempt = Some(AttemptDetails { timeout, ..AttemptDetails::default() });
        state.current = Some(addr);
    }

    /// Records the failure of the current attempt.
    pub fn failed(&self, failure: &AttemptFailure) {
        self.0.change(|state, notices| {
            let (Some(attempt), Some(addr)) = (state.attempt.take(), state.current.clone()) else { return };
            self.0.pool().failed(&addr);
            let error = disconnect_reason::of_attempt(&place(&addr), failure, &attempt);
            if let Some(outage) = &mut state.outage {
                outage.failed(&error);
            }
            if state.first.is_some() {
                state.failures.retain(|(failed, _)| *failed != place(&addr));
                state.failures.push((place(&addr), error.clone()));
            }
            if matches!(error, JetError::Callback { .. }) && self.0.settings.notices.is_some() {
                // A user callback raised; Python holds the exception.
                state.last_error = Some(error);
            } else {
                notices.push(ConnectionEvent::Error(error));
            }
        });
    }

    /// Returns the credentials for the current server. On failure the error is stored in the attempt's details.
    pub async fn credentials(&self, nonce: &[u8]) -> Option<Auth> {
        let current = self.0.lock().current.clone();
        let url = current
            .and_then(|addr| self.0.pool().get_mut(&addr).map(|server| (server.user.clone(), server.password.clone())))
            .unwrap_or_default();
        let answer = self.0.settings.credentials.answer(nonce, url).await;
        answer.map_err(|error| self.note(|attempt| attempt.credentials = Some(error))).ok()
    }

    pub(super) fn note(&self, note: impl FnOnce(&mut AttemptDetails)) {
        if let Some(attempt) = &mut self.0.lock().attempt {
            note(attempt);
        }
    }

    pub fn refused_certificate(&self, text: String) {
        self.note(|attempt| attempt.certificate = Some(text));
    }

    pub fn asked_for_certificate(&self) {
        self.note(|attempt| attempt.asked_for_certificate = true);
    }

    /// Returns the second name that the current server's certificate may carry.
    pub fn tls_name(&self) -> Option<String> {
        let current = self.0.lock().current.clone()?;
        self.0.pool().get_mut(&current).and_then(|server| server.tls_name.clone())
    }
}
