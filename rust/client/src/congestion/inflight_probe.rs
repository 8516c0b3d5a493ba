//! Probe for the number of small messages in flight: few, or as many as the time for bursts allows.
//!
//! A server caches the routes of 1,024 reply subjects. If all messages in flight are among them, it needs a fifth less
//! time per message (`publish::ack_tracker`; benches/history/diary.md). Over loopback few messages keep the server
//! busy. A millisecond of RTT, or pauses of a machine or cluster, may leave it idle. The client cannot see that, so it
//! tries both for a few rounds, and repeats the trial ever more rarely.

use std::time::Duration;

use super::MAX_IN_FLIGHT_MESSAGES;

/// Few messages: fewer than the pool of reusable reply subjects (`publish::ack_tracker`). Windows of 400 to 900 reach
/// the same rate (benches/history/diary.md).
const FEW_MESSAGES: usize = 900;
/// Without a long path all messages in flight may be in the stream's queue. The server's default is 10,000, shared by
/// all publishers.
const QUEUE_MESSAGES: usize = 8_192;
/// RTT above which few messages cannot fill the link.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(5);
/// Rounds of a trial and of the baseline before it. One round between them is skipped, because it still has the other
/// number of messages in flight.
const TRIAL_ROUNDS: u32 = 4;
const SKIPPED_ROUNDS: u32 = 1;
/// Rounds between two trials, initially and at most.
const MIN_PAUSE_ROUNDS: u32 = 64;
const MAX_PAUSE_ROUNDS: u32 = 4_096;
/// Minimum ratio of delivery rates at which the trial wins, for many and for few messages.
const MIN_GAIN_OF_MANY: f64 = 1.15;
const MIN_GAIN_OF_FEW: f64 = 1.0;

/// Result of a trial, for the next publish loop of the connection.
#[derive(Clone, Copy)]
pub struct ProbeResult {
    wide: bool,
    rest: u32,
}

impl Default for ProbeResult {
    fn default() -> Self {
        ProbeResult { wide: false, rest: MIN_PAUSE_ROUNDS }
    }
}

pub struct InFlightProbe {
    wide: bool,
    /// Delivery rate of the other setting just before; `None` outside a trial.
    other: Option<f64>,
    /// Rounds left of the pause or of the trial.
    left: u32,
    rest: u32,
    sum: f64,
}

impl InFlightProbe {
    pub fn new(ProbeResult { wide, rest }: ProbeResult) -> Self {
        InFlightProbe { wide, other: None, left: rest, rest, sum: 0.0 }
    }

    /// Maximum number of unacknowledged messages.
    pub fn most_messages(&self, round_trip: Duration) -> usize {
        match (round_trip > LONG_ROUND_TRIP, self.wide) {
            (true, _) => MAX_IN_FLIGHT_MESSAGES,
            (false, true) => QUEUE_MESSAGES,
            (false, false) => FEW_MESSAGES,
        }
    }

    /// Records a round with its delivery rate. Returns the result if a trial ended.
    pub fn ended(&mut self, rate: f64, round_trip: Duration) -> Option<ProbeResult> {
        if round_trip > LONG_ROUND_TRIP {
            return None;
        }
        self.left = self.left.saturating_sub(1);
        if self.left < TRIAL_ROUNDS {
            self.sum += rate;
        }
        if self.left > 0 {
            return None;
        }
        let sum = std::mem::take(&mut self.sum);
        let Some(other) = self.other.take() else {
            self.other = Some(sum);
            self.wide = !self.wide;
            self.left = TRIAL_ROUNDS + SKIPPED_ROUNDS;
            return None;
        };
        if sum > other * if self.wide { MIN_GAIN_OF_MANY } else { MIN_GAIN_OF_FEW } {
            self.rest = MIN_PAUSE_ROUNDS;
        } else {
            self.wide = !self.wide;
            self.rest = (2 * self.rest).min(MAX_PAUSE_ROUNDS);
        }
        self.left = self.rest + SKIPPED_ROUNDS;
        Some(ProbeResult { wide: self.wide, rest: self.rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of rounds with many messages in flight, for the given rates of few and many.
    fn wide_rounds(rounds: usize, narrow: f64, wide: f64) -> usize {
        let mut in_flight_probe = InFlightProbe::new(ProbeResult::default());
        let mut were = 0;
        for _ in 0..rounds {
            were += usize::from(in_flight_probe.wide);
            in_flight_probe.ended(if in_flight_probe.wide { wide } else { narrow }, LONG_ROUND_TRIP);
        }
        were
    }

    #[test]
    fn probe_keeps_the_faster_setting() {
        assert!(wide_rounds(1_000, 1.0, 0.9) < 100 && wide_rounds(1_000, 1.0, 1.1) < 100);
        assert!(wide_rounds(1_000, 1.0, 1.5) > 900);
        let in_flight_probe = InFlightProbe::new(ProbeResult::default());
        assert_eq!(in_flight_probe.most_messages(LONG_ROUND_TRIP), FEW_MESSAGES);
        assert_eq!(in_flight_probe.most_messages(2 * LONG_ROUND_TRIP), MAX_IN_FLIGHT_MESSAGES);
    }
}
