//! Congestion control for publish windows (`max_inflight=None`) and for the prefetch of reads (`receive::prefetch`).
//!
//! It follows BBR (draft-ietf-ccwg-bbr): a model of min RTT and delivery rate bounds the bytes in flight. The link
//! stays full, and other traffic of the connection does not queue long behind a bulk transfer. There is no pacing: TCP
//! paces the bytes.
//!
//! The window is `rate * (2 * min RTT + 5 ms)`, and at least `rate * 12 ms`. Two bandwidth-delay products are the
//! draft's default cwnd gain. The 5 ms and the 12 ms allow for aggregation (the draft's `extra_acked`): server and
//! machine process and acknowledge in bursts.
//!
//! A round is one message, the last that fitted into the window, from its publish to its ack. Its delivery rate is the
//! bytes in flight divided by its duration. The rate of the model is the maximum over the last rounds (the draft's
//! max-bandwidth filter).
//!
//! In startup nothing queues, so the rounds keep their duration and the window doubles or triples per round. On a full
//! link the rounds get longer, but rate and window are constant. At most one min RTT and 5 ms of data queue.
//! `in_flight_probe` may lower the bound for small messages.
//!
//! Only a message that does not queue measures the min RTT: one that finds nothing in flight, or one in a drain. One
//! round in fifty is a drain (the draft's ProbeRTT): the window shrinks to half a bandwidth-delay product.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use inflight_probe::InFlightProbe;
use queue_limit::QueueLimit;
use tokio::time::Instant;

use crate::path_estimate::{Estimate, PathEstimate};

/// Max-bandwidth filter: number of rounds, and their maximum age in expected round durations.
const FILTER_ROUNDS: usize = 8;
const MAX_AGE_ROUNDS: u32 = 10;
/// Rounds before the first drain, and between two drains.
const ROUNDS_TO_FIRST_DRAIN: u32 = 10;
const ROUNDS_BETWEEN_DRAINS: u32 = 50;
/// Minimum time between two min RTT samples from messages that find nothing in flight.
const IDLE_SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// Allowance for acks in bursts: data that may queue on top of the bandwidth-delay product, and the minimum in flight.
/// The test `late_scheduler_does_not_close_the_window` covers the second.
pub const AGGREGATION_ALLOWANCE: Duration = Duration::from_millis(5);
const MIN_IN_FLIGHT_TIME: Duration = Duration::from_millis(12);
/// Initial window in bytes, and the smallest window outside drains.
const INITIAL_WINDOW: usize = 64 << 10;
const MIN_WINDOW: usize = 32 << 10;
/// Shortest duration that the clock measures reliably.
pub const MIN_MEASURABLE: Duration = Duration::from_micros(50);
/// Maximum number of unacknowledged messages of any size: memory is kept for each.
pub const MAX_IN_FLIGHT_MESSAGES: usize = 1 << 18;

/// A message whose ack is timed, or a requested message whose delivery is timed.
struct Timed {
    place: u64,
    sent: Instant,
    /// Bytes in flight including the message, and the size of one message.
    bytes: usize,
    message: usize,
}

pub struct Congestion {
    /// Upper bound of the window in bytes.
    most: usize,
    /// Window in bytes before the first round.
    first: usize,
    min_in_flight_time: Duration,
    window: usize,
    most_messages: usize,
    queue_limit: QueueLimit,
    /// The window plus the bytes whose stream does not acknowledge. Others bound the queue of this loop by it.
    published_window: Arc<AtomicUsize>,
    overtaken: usize,
    /// Last message of this round.
    last: Option<(u64, Instant)>,
    round: Option<Timed>,
    /// Message that found nothing in flight, and the time of the last such sample.
    idle_sample: Option<Timed>,
    idle_sample_at: Option<Instant>,
    /// Delivery rate of each round, and the time at which the round ended.
    rates: [Option<(f64, Instant)>; FILTER_ROUNDS],
    rounds: usize,
    until_drain: u32,
    /// Number of the last drain this loop joined, and whether the current round is a drain.
    drains: u64,
    draining: bool,
    /// Present if the number of messages affects the server's cost.
    in_flight_probe: Option<InFlightProbe>,
    /// Takes part in drains.
    joins_drains: bool,
}

impl Congestion {
    /// Creates the congestion control of a publish loop.
    pub fn new(path: &PathEstimate, breaks: u64, most: usize, published_window: Arc<AtomicUsize>) -> Self {
        let known = path.known(breaks);
        let in_flight_probe = InFlightProbe::new(known.in_flight_probe);
        let most_messages = in_flight_probe.most_messages(known.round_trip);
        let congestion = Self::beginning(INITIAL_WINDOW, MIN_IN_FLIGHT_TIME, path, breaks, most, published_window);
        Congestion { in_flight_probe: Some(in_flight_probe), most_messages, ..congestion }
    }

    /// Creates a congestion control with an initial window of `first` bytes and at least `min_in_flight_time` worth of
    /// data in flight.
    pub fn beginning(
        first: usize,
        min_in_flight_time: Duration,
        path: &PathEstimate,
        breaks: u64,
        most: usize,
        published_window: Arc<AtomicUsize>,
    ) -> Self {
        let known = path.known(breaks);
        let mut congestion = Congestion {
            most,
            first,
            min_in_flight_time,
            window: 0,
            most_messages: MAX_IN_FLIGHT_MESSAGES,
            queue_limit: QueueLimit::new(MAX_IN_FLIGHT_MESSAGES),
            published_window,
            overtaken: 0,
            last: None,
            round: None,
            idle_sample: None,
            idle_sample_at: None,
            rates: [None; FILTER_ROUNDS],
            rounds: 0,
            until_drain: ROUNDS_TO_FIRST_DRAIN,
            drains: known.drains,
            draining: false,
            in_flight_probe: None,
            joins_drains: true,
        };
        congestion.resize(if known.rate > 0.0 {
            (known.rate * congestion.worth(known.round_trip, 2)).max(MIN_WINDOW as f64)
        } else {
            first as f64
        });
        congestion
    }

    /// Creates a congestion control for messages of which only some are acknowledged. It never drains: with few in
    /// flight the server acknowledges none of them.
    pub fn steady(path: &PathEstimate, breaks: u64, most: usize) -> Self {
        Congestion {
            joins_drains: false,
            ..Self::beginning(INITIAL_WINDOW, MIN_IN_FLIGHT_TIME, path, breaks, most, Arc::default())
        }
    }

    /// Maximum number of unacknowledged bytes.
    pub fn window(&self) -> usize {
        self.window
    }

    /// Maximum number of unacknowledged messages.
    pub fn most_messages(&self) -> usize {
        self.most_messages.min(self.queue_limit.messages())
    }

    /// Records that a stream refused a message, because its queue is full.
    pub fn refused(&mut self, in_flight: usize, now: Instant) {
        self.queue_limit.refused(in_flight, now);
    }

    /// Records a sent message, with `before` bytes in flight ahead of it. `place` is higher than all earlier ones.
    pub fn sent(&mut self, place: u64, before: usize, now: Instant) {
        self.asked(place..=place, before, now);
    }

    /// Records a request for the messages at `places`.
    pub fn asked(&mut self, places: RangeInclusive<u64>, before: usize, now: Instant) {
        self.last = Some((*places.end(), now));
        if before == 0
            && self.idle_sample.is_none()
            && self.idle_sample_at.is_none_or(|at| now.duration_since(at) >= IDLE_SAMPLE_INTERVAL)
        {
            self.idle_sample = Some(Timed { place: *places.start(), sent: now, bytes: 0, message: 0 });
        }
    }

    /// Whether `answered` has an effect for this place.
    pub fn is_timed(&self, place: u64) -> bool {
        self.idle_sample.as_ref().is_some_and(|alone| alone.place == place)
            || self.round.as_ref().is_some_and(|round| round.place <= place)
    }

    /// Whether this round is a drain, so almost nothing may be in flight.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Discards the samples under way, because something other than the link determines their duration.
    pub fn forget(&mut self) {
        (self.last, self.round, self.idle_sample) = (None, None, None);
    }

    /// Records that the window is full: the next message waits for acks. `bytes` are in flight, in messages of
    /// `message` bytes.
    pub fn is_full(&mut self, bytes: usize, message: usize) {
        if self.round.is_none() {
            self.round = self.last.map(|(place, sent)| Timed { place, sent, bytes, message });
        }
    }

    /// Opens the window for a rate in bytes per second that one request's messages arrived at.
    ///
    /// This is the earliest sample of the link's rate. The messages may have been in a buffer, so the window opens to
    /// `most` bytes at most. It never shrinks.
    pub fn carries(&mut self, rate: f64, most: usize, path: &PathEstimate, breaks: u64) {
        let window = (rate * self.worth(path.known(breaks).round_trip, 2)).min(most as f64);
        if window > self.window as f64 {
            self.resize(window);
        }
    }

    /// Restarts the model after a disconnect: samples under way are lost, and the next link may take another path.
    pub fn restart(&mut self) {
        self.forget();
        self.idle_sample_at = None;
        self.rates = [None; FILTER_ROUNDS];
        (self.until_drain, self.draining) = (ROUNDS_TO_FIRST_DRAIN, false);
        self.resize(self.first as f64);
    }

    /// Records an ack: takes a min RTT sample, and ends the round if it is due.
    pub fn answered(&mut self, place: u64, now: Instant, path: &PathEstimate, breaks: u64) {
        if self.idle_sample.take_if(|alone| alone.place == place).is_some_and(|alone| {
            path.measured(breaks, took(&alone, now));
            true
        }) {
            self.idle_sample_at = Some(now);
        }
        if let Some(round) = self.round.take_if(|round| round.place <= place) {
            self.end(&round, now, path, breaks);
        }
    }

    fn end(&mut self, round: &Timed, now: Instant, path: &PathEstimate, breaks: u64) {
        // The message that starts the next round is sent into a window of another size.
        self.last = None;
        self.queue_limit.answered(now);
        let took = took(round, now);
        let rate = round.bytes as f64 / took.as_secs_f64();
        let round_trip = path.known(breaks).round_trip;
        if self.draining || round_trip.is_zero() {
            path.measured(breaks, took);
        }
        if !self.draining {
            self.remember(rate, now, self.worth(round_trip, 2));
            if let Some(found) =
                self.in_flight_probe.as_mut().and_then(|in_flight_probe| in_flight_probe.ended(rate, round_trip))
            {
                path.record_window(breaks, found);
            }
            path.record_rate(breaks, self.rate());
        }
        let drained = self.draining;
        let known = if self.joins_drains { self.drain(path, breaks) } else { path.known(breaks) };
        if self.draining {
            return self.resize(self.rate() * known.round_trip.as_secs_f64() / 2.0);
        }
        // Startup: nothing queued without a drain before it, so the link may carry much more.
        let times = if !drained && took < known.round_trip * 5 / 4 + AGGREGATION_ALLOWANCE / 5 { 3 } else { 2 };
        let window = self.rate() * self.worth(known.round_trip, times);
        if let Some(in_flight_probe) = &self.in_flight_probe {
            self.most_messages = in_flight_probe.most_messages(known.round_trip);
        }
        let bytes = self.most_messages() as f64 * round.message as f64;
        self.resize(window.min(bytes).max(MIN_WINDOW as f64));
    }

    /// Starts a drain, or joins one that another publisher started.
    fn drain(&mut self, path: &PathEstimate, breaks: u64) -> Estimate {
        self.until_drain = self.until_drain.saturating_sub(1);
        let mut known = path.known(breaks);
        if self.until_drain == 0 && known.drains == self.drains {
            known = path.drain(breaks);
        }
        self.draining = known.drains != self.drains;
        if self.draining {
            (self.drains, self.until_drain) = (known.drains, ROUNDS_BETWEEN_DRAINS);
        }
        known
    }

    fn remember(&mut self, rate: f64, now: Instant, should_take: f64) {
        let since = now.checked_sub(Duration::from_secs_f64(should_take) * MAX_AGE_ROUNDS);
        for known in &mut self.rates {
            known.take_if(|(_, at)| since.is_some_and(|since| *at < since));
        }
        self.rates[self.rounds % FILTER_ROUNDS] = Some((rate, now));
        self.rounds += 1;
    }

    /// Expected duration of a round in seconds.
    fn worth(&self, round_trip: Duration, times: u32) -> f64 {
        (round_trip * times + AGGREGATION_ALLOWANCE).max(self.min_in_flight_time).as_secs_f64()
    }

    fn rate(&self) -> f64 {
        self.rates.iter().flatten().map(|(rate, _)| *rate).fold(0.0, f64::max)
    }

    fn resize(&mut self, bytes: f64) {
        self.window = (bytes as usize).min(self.most);
        self.publish_window();
    }

    /// Sets the bytes that are unacknowledged because their stream does not answer. They do not count as in flight.
    pub fn set_overtaken(&mut self, bytes: usize) {
        self.overtaken = bytes.min(self.most / 2);
        self.publish_window();
    }

    fn publish_window(&self) {
        self.published_window.store(self.window + self.overtaken, Ordering::Relaxed);
    }

    /// Maximum delay of an ack behind the ack of a later message on the same path: the queue's share beside the RTT.
    pub fn overdue(&self, path: &PathEstimate, breaks: u64) -> Duration {
        2 * path.known(breaks).round_trip + AGGREGATION_ALLOWANCE
    }
}

fn took(timed: &Timed, now: Instant) -> Duration {
    now.saturating_duration_since(timed.sent).max(MIN_MEASURABLE)
}

pub mod inflight_probe;
pub mod queue_limit;
#[cfg(test)]
mod tests;
