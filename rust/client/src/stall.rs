//! Stall detection: waits for a server that may be slow, or may never finish.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::outbox::CancelHandle;
use crate::transport::Client;

/// Interval between two checks for progress.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of stall intervals during which received data alone counts as progress. A PONG follows all data that is in
/// transit to the client, and a server that keeps sending need not send one.
const MAX_STALLS_WHILE_RECEIVING: u32 = 5;

/// Runs `work` until it is done, or until nothing was sent or received for a while.
pub async fn run_until_stalled(client: &Client, outbox: CancelHandle, work: impl Future<Output = ()>) {
    let statistics = client.statistics();
    let mut work = std::pin::pin!(work);
    let mut movement = StallDetector::default();
    while tokio::time::timeout(POLL_INTERVAL, work.as_mut()).await.is_err() {
        let sent = (client.gone(), outbox.bytes());
        let received = statistics.in_bytes.load(Ordering::Relaxed);
        if movement.stands(sent, received, Instant::now(), runtime::stall()) {
            return;
        }
    }
}

/// Last observed progress, and the time since which it is unchanged.
#[derive(Default)]
struct StallDetector {
    sent: Option<((u64, usize), Instant)>,
    received: Option<(u64, Instant)>,
}

impl StallDetector {
    fn stands(&mut self, sent: (u64, usize), received: u64, now: Instant, stall: Duration) -> bool {
        let for_long = |since: Instant, stalls| now.duration_since(since) >= stall * stalls;
        let sent = since(&mut self.sent, sent, now);
        let received = since(&mut self.received, received, now);
        for_long(sent, 1) && (for_long(received, 1) || for_long(sent, MAX_STALLS_WHILE_RECEIVING))
    }
}

/// Returns the time since which the value is unchanged.
fn since<T: PartialEq>(seen: &mut Option<(T, Instant)>, value: T, now: Instant) -> Instant {
    match seen {
        Some((known, since)) if *known == value => *since,
        _ => seen.insert((value, now)).1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL_TIMEOUT: Duration = Duration::from_secs(2);

    /// Returns the second at which the detector reports a stall, with one check per second.
    fn given_up(sent: impl Fn(u32) -> u64, received: impl Fn(u32) -> u64) -> Option<u32> {
        let (mut movement, begun) = (StallDetector::default(), Instant::now());
        (0..100).find(|second| {
            let now = begun + Duration::from_secs(u64::from(*second));
            movement.stands((sent(*second), 0), received(*second), now, STALL_TIMEOUT)
        })
    }

    #[test]
    fn receiving_server_is_waited_for_and_one_that_only_sends_for_a_while() {
        assert_eq!(given_up(|_| 0, |_| 0), Some(2));
        assert_eq!(given_up(|second| u64::from(second.min(7)), |_| 0), Some(9));
        assert_eq!(given_up(|_| 0, |second| u64::from(second.min(4))), Some(6));
        assert_eq!(given_up(|_| 0, u64::from), Some(10));
        assert_eq!(given_up(u64::from, |_| 0), None);
    }
}
