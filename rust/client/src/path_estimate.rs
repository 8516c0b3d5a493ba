//! Path estimate (min RTT, delivery rate), shared by all publishers of a connection.
//!
//! A new publish loop starts from the estimate of the loops before it.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::congestion::inflight_probe::ProbeResult;
use base::lock::{Guard, lock};

#[derive(Clone, Copy, Default)]
pub struct Estimate {
    /// Number of disconnects at the time of the estimate. Behind the next link may be another server.
    pub breaks: u64,
    /// Min RTT: publish to ack of a message that does not queue. Zero: not measured yet.
    pub round_trip: Duration,
    /// Delivery rate in acknowledged bytes per second. Zero: not measured yet.
    pub rate: f64,
    /// Number of drains so far. An increase asks all publishers to drain, so that the min RTT can be measured
    /// (ProbeRTT).
    pub drains: u64,
    pub in_flight_probe: ProbeResult,
    /// Number of the drain of the last measurement.
    measured: u64,
}

#[derive(Default)]
pub struct PathEstimate {
    known: Mutex<Estimate>,
    /// Time until which no reply subject is reused, because messages on this path are answered twice.
    reuse_suspended: Mutex<Option<Instant>>,
}

impl PathEstimate {
    /// Returns the estimate of the current link.
    pub fn known(&self, breaks: u64) -> Estimate {
        *self.of(breaks)
    }

    /// Records a delivery rate in bytes per second.
    pub fn record_rate(&self, breaks: u64, rate: f64) {
        self.of(breaks).rate = rate;
    }

    /// Records the result of an in-flight probe.
    pub fn record_window(&self, breaks: u64, in_flight_probe: ProbeResult) {
        self.of(breaks).in_flight_probe = in_flight_probe;
    }

    /// Asks all publishers to drain.
    pub fn drain(&self, breaks: u64) -> Estimate {
        let mut known = self.of(breaks);
        known.drains += 1;
        *known
    }

    /// Records the RTT of a message sent during a drain.
    ///
    /// The shortest sample of a drain counts. The first sample of a drain moves the estimate only halfway,
    /// because one sample on a busy machine may be far off.
    pub fn measured(&self, breaks: u64, round_trip: Duration) {
        let mut known = self.of(breaks);
        if known.round_trip.is_zero() {
            known.round_trip = round_trip;
        } else if known.measured != known.drains {
            known.round_trip = (known.round_trip + round_trip) / 2;
        } else {
            known.round_trip = known.round_trip.min(round_trip);
        }
        known.measured = known.drains;
    }

    /// Keeps all publishers from reusing reply subjects until then.
    pub fn suspend_reuse(&self, until: Instant) {
        *lock(&self.reuse_suspended) = Some(until);
    }

    pub fn reuse_suspended(&self) -> Option<Instant> {
        *lock(&self.reuse_suspended)
    }

    fn of(&self, breaks: u64) -> Guard<'_, Estimate> {
        let mut known = lock(&self.known);
        if known.breaks != breaks {
            *known = Estimate { breaks, ..Estimate::default() };
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_starts_anew_with_each_link() {
        let path = PathEstimate::default();
        path.measured(0, Duration::from_millis(10));
        path.record_rate(0, 1e6);
        assert_eq!((path.known(0).round_trip, path.known(0).rate), (Duration::from_millis(10), 1e6));
        assert_eq!((path.known(1).round_trip, path.known(1).rate), (Duration::ZERO, 0.0));
    }

    #[test]
    fn shortest_sample_of_a_drain_counts() {
        let path = PathEstimate::default();
        path.measured(0, Duration::from_millis(10));
        path.drain(0);
        path.measured(0, Duration::from_millis(30));
        assert_eq!(path.known(0).round_trip, Duration::from_millis(20));
        path.measured(0, Duration::from_millis(12));
        assert_eq!(path.known(0).round_trip, Duration::from_millis(12));
    }
}
