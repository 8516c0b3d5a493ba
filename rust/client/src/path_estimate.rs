//! What the publishers of one connection have learnt of its way to the server: how long a round trip takes when nothing
//! queues on it, and how much gets through. All of them share it, so that one begins with what another has found out.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::congestion::inflight_probe::ProbeResult;
use base::lock::{Guard, lock};

#[derive(Clone, Copy, Default)]
pub struct Estimate {
    /// How often the link had broken: behind another one may be another server.
    pub breaks: u64,
    /// A round trip of a message that waits for no other, from its publish to its ack; zero: not known.
    pub round_trip: Duration,
    /// Bytes a second that were answered; zero: not known.
    pub rate: f64,
    /// Rises when all publishers are to drain the way, so that a round trip can be measured again.
    pub drains: u64,
    pub in_flight_probe: ProbeResult,
    /// The drain that the last measurement is of.
    measured: u64,
}

#[derive(Default)]
pub struct PathEstimate {
    known: Mutex<Estimate>,
    /// Until then no reply subject is used again: on this way messages are answered twice.
    reuse_suspended: Mutex<Option<Instant>>,
}

impl PathEstimate {
    /// What is known of this link.
    pub fn known(&self, breaks: u64) -> Estimate {
        *self.of(breaks)
    }

    /// So much gets through.
    pub fn record_rate(&self, breaks: u64, rate: f64) {
        self.of(breaks).rate = rate;
    }

    /// So many messages in flight are best.
    pub fn record_window(&self, breaks: u64, in_flight_probe: ProbeResult) {
        self.of(breaks).in_flight_probe = in_flight_probe;
    }

    /// Has all publishers drain the way.
    pub fn drain(&self, breaks: u64) -> Estimate {
        let mut known = self.of(breaks);
        known.drains += 1;
        *known
    }

    /// The round trip of a message that was sent when the way was drained. Of several in one drain the shortest counts;
    /// a single one on a busy machine may be far off, so it only moves what is known half the way.
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

    /// Keeps all publishers from using reply subjects again until then.
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
    fn each_link_is_learnt_anew() {
        let path = PathEstimate::default();
        path.measured(0, Duration::from_millis(10));
        path.record_rate(0, 1e6);
        assert_eq!((path.known(0).round_trip, path.known(0).rate), (Duration::from_millis(10), 1e6));
        assert_eq!((path.known(1).round_trip, path.known(1).rate), (Duration::ZERO, 0.0));
    }

    #[test]
    fn of_one_drain_the_shortest_counts() {
        let path = PathEstimate::default();
        path.measured(0, Duration::from_millis(10));
        path.drain(0);
        path.measured(0, Duration::from_millis(30));
        assert_eq!(path.known(0).round_trip, Duration::from_millis(20));
        path.measured(0, Duration::from_millis(12));
        assert_eq!(path.known(0).round_trip, Duration::from_millis(12));
    }
}
