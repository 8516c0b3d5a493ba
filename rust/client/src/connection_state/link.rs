//! State of the link to the server, and the outage while it is down.

use std::time::Instant;

use super::ConnectionState;
use base::error::JetError;

/// State of the link to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Number of disconnects. Messages in flight when it increases may be lost.
    pub breaks: u64,
    pub up: bool,
    /// No reconnect follows.
    pub closed: bool,
    /// Number of publishes and subscriptions that the server rejected.
    pub refusals: u64,
    /// The connection is about to move to another server: what begins now waits for it.
    pub moving: bool,
}

impl Link {
    /// True if messages may be sent that an answer is expected for.
    pub fn is_open(&self) -> bool {
        self.up && !self.moving
    }
}

/// An outage, with its attempts to reconnect.
pub struct Outage {
    since: Instant,
    attempts: u32,
    /// Cause of the disconnect, then of the last failed attempt.
    why: Option<String>,
}

impl Outage {
    pub fn new(reason: Option<&JetError>) -> Self {
        Outage { since: Instant::now(), attempts: 0, why: reason.map(ToString::to_string) }
    }

    pub fn failed(&mut self, error: &JetError) {
        self.attempts += 1;
        self.why = Some(error.to_string());
    }

    fn describe(&self) -> String {
        let mut text = format!("the connection has been down for {:.1} s", self.since.elapsed().as_secs_f64());
        match self.attempts {
            0 => {}
            1 => text.push_str(", 1 attempt to reconnect has failed"),
            count => text.push_str(&format!(", {count} attempts to reconnect have failed")),
        }
        if let Some(why) = &self.why {
            text.push_str(": ");
            text.push_str(why);
        }
        text
    }
}

impl ConnectionState {
    /// Describes the outage: its duration, the number of attempts and the last cause. `None` while the link is up.
    pub fn outage(&self) -> Option<String> {
        self.lock().outage.as_ref().map(Outage::describe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outage_text_has_duration_attempts_and_cause() {
        let mut outage = Outage::new(Some(&JetError::Eof { server: "h:1".into() }));
        assert_eq!(outage.describe(), "the connection has been down for 0.0 s: h:1 closed the connection");
        let refused = JetError::Io { what: "h:1".into(), cause: "refused".into(), errno: None };
        outage.failed(&refused);
        outage.failed(&refused);
        assert!(outage.describe().ends_with(" s, 2 attempts to reconnect have failed: h:1: refused"));
    }
}
