//! Messages as they come in: numbered, and with their time.

use std::time::Duration;

use tokio::time::Instant;

use super::Item;
use crate::publish::inflight::Sent;

/// Numbers messages as they come.
pub struct Intake {
    pub places: u64,
    pub timeout: Duration,
    pub one_call: bool,
}

impl Intake {
    pub fn first(&mut self, (row, body): Item, now: Instant) -> Sent {
        self.places += 1;
        // A message that came alone has its time from now on, a row of one call from when it is sent.
        let deadline = (!self.one_call).then(|| now + body.timeout().unwrap_or(self.timeout));
        Sent::new(row, self.places, body, deadline)
    }
}
