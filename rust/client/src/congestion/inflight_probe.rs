//! Few messages in flight, or as many as the time for bursts allows: whichever gets more through.
//!
//! A server caches the routes of 1,024 reply subjects, and answers in a fifth less of its time if all in flight are
//! among them (`publish::ack_tracker`). Over loopback as few keep it busy; a millisecond further off, or where a machine or a
//! cluster lets messages wait now and then, they may not. That cannot be seen from outside, so it is tried: for a few
//! rounds, and ever more rarely.

use std::time::Duration;

use super::MOST_MESSAGES;

/// Few: below the pool of reply subjects that are used again (`publish::ack_tracker`).
const FEW: usize = 900;
/// A round trip that few cannot fill.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(5);
/// Rounds that a try takes, and that are compared with it; the one before still has other messages in flight.
const TRY: u32 = 4;
const SKIP: u32 = 1;
/// Rounds between two tries, at first and at most.
const FIRST_REST: u32 = 64;
const MOST_REST: u32 = 4_096;
/// What the one that is tried has to be better by.
const WIDER: f64 = 1.15;
const NARROWER: f64 = 1.0;

/// What was found out, for the next loop of the connection.
#[derive(Clone, Copy)]
pub struct ProbeResult {
    wide: bool,
    rest: u32,
}

impl Default for ProbeResult {
    fn default() -> Self {
        ProbeResult { wide: false, rest: FIRST_REST }
    }
}

pub struct InFlightProbe {
    wide: bool,
    /// How much the other got through just before; `None` where nothing is being tried.
    other: Option<f64>,
    /// Rounds left of this rest, or try.
    left: u32,
    rest: u32,
    sum: f64,
}

impl InFlightProbe {
    pub fn new(ProbeResult { wide, rest }: ProbeResult) -> Self {
        InFlightProbe { wide, other: None, left: rest, rest, sum: 0.0 }
    }

    /// Messages that may be unanswered.
    pub fn most_messages(&self, round_trip: Duration) -> usize {
        if self.wide || round_trip > LONG_ROUND_TRIP { MOST_MESSAGES } else { FEW }
    }

    /// A round is over, at this rate; what is now known, where that is news.
    pub fn ended(&mut self, rate: f64, round_trip: Duration) -> Option<ProbeResult> {
        if round_trip > LONG_ROUND_TRIP {
            return None;
        }
        self.left = self.left.saturating_sub(1);
        if self.left < TRY {
            self.sum += rate;
        }
        if self.left > 0 {
            return None;
        }
        let sum = std::mem::take(&mut self.sum);
        let Some(other) = self.other.take() else {
            self.other = Some(sum);
            self.wide = !self.wide;
            self.left = TRY + SKIP;
            return None;
        };
        if sum > other * if self.wide { WIDER } else { NARROWER } {
            self.rest = FIRST_REST;
        } else {
            self.wide = !self.wide;
            self.rest = (2 * self.rest).min(MOST_REST);
        }
        self.left = self.rest + SKIP;
        Some(ProbeResult { wide: self.wide, rest: self.rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many rounds are wide, where they get so much through.
    fn wide(rounds: usize, narrow: f64, wide: f64) -> usize {
        let mut in_flight_probe = InFlightProbe::new(ProbeResult::default());
        let mut were = 0;
        for _ in 0..rounds {
            were += usize::from(in_flight_probe.wide);
            in_flight_probe.ended(if in_flight_probe.wide { wide } else { narrow }, LONG_ROUND_TRIP);
        }
        were
    }

    #[test]
    fn the_better_one_is_kept() {
        assert!(wide(1_000, 1.0, 0.9) < 100 && wide(1_000, 1.0, 1.1) < 100);
        assert!(wide(1_000, 1.0, 1.5) > 900);
        let in_flight_probe = InFlightProbe::new(ProbeResult::default());
        assert_eq!(in_flight_probe.most_messages(LONG_ROUND_TRIP), FEW);
        assert_eq!(in_flight_probe.most_messages(2 * LONG_ROUND_TRIP), MOST_MESSAGES);
    }
}
