//! A link that is down: since when, and how often it was tried to make it again.

use std::time::Instant;

use super::Hub;
use base::error::JetError;

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

impl Hub {
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
