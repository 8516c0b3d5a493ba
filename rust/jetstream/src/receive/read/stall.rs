//! A read without progress, although the stream may have more: a message is lost in transit, or the consumer's replica
//! lags behind the stream's leader.

use std::time::Duration;

use tokio::time::Instant;

use super::ReadLoop;
use base::error::{JetError, Result};

/// Time after which a consumer is replaced; the server may place the next one at another replica. Long, because a consumer
/// that searches a large stream for a rare subject would begin again.
const CONSUMER_PATIENCE: Duration = Duration::from_secs(10);

/// Time since the first sign that nothing arrives; each message ends it.
pub struct Stall {
    since: Instant,
    replaced: Instant,
}

impl ReadLoop {
    /// Replaces the consumer if it has not delivered the next message for a while. An error after the time of an outage.
    pub(super) fn check_stall(&mut self) -> Result<()> {
        let now = Instant::now();
        let stall = self.stall.get_or_insert(Stall { since: now, replaced: now });
        if now - stall.since > self.range.outage {
            let what = format!("a read of stream {:?} at sequence {}", self.range.stream, self.next);
            return Err(JetError::Timeout { what, after: self.range.outage });
        }
        if now - stall.replaced > CONSUMER_PATIENCE.min(self.range.outage / 2) {
            stall.replaced = now;
            self.drop_consumer();
        }
        Ok(())
    }
}
