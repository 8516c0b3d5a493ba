//! The link to the server: its state, and the outage while it is down.

use std::time::Instant;

use super::ConnectionState;
use base::error::JetError;

/// The state of the link to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// How often the link broke. What was in flight when it rises may be lost.
    pub breaks: u64,
    pub up: bool,
    /// No reconnect will be tried any more.
    pub closed: bool,
    /// How many publishes and subscriptions the server refused.
    pub refusals: u64,
}

/// A link that is down, with the attempts to reconnect.
pub struct Outage {
    since: Instant,
    attempts: u32,
    /// Why the link broke, then why the last attempt failed.
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
    /// Since when the link is down, how often it was tried again and why that failed; None while it is up.
    pub fn outage(&self) -> Option<String> {
        self.lock().outage.as_ref().map(Outage::describe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_since_when_how_often_and_why() {
        let mut outage = Outage::new(Some(&JetError::Eof { server: "h:1".into() }));
        assert_eq!(outage.describe(), "the connection has been down for 0.0 s: h:1 ended the connection");
        let refused = JetError::Io { what: "h:1".into(), cause: "refused".into(), errno: None };
        outage.failed(&refused);
        outage.failed(&refused);
        assert!(outage.describe().ends_with(" s, 2 attempts to reconnect have failed: h:1: refused"));
    }
}
