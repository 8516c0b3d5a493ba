//! How many bytes a publish loop has unanswered where the caller leaves that to it (`max_inflight=None`), and how many a
//! read asks for ahead (`receive::prefetch`): as many as the way to the server carries, and few enough that whatever else
//! goes over the connection does not wait long behind them.
//!
//! The window is `rate * (2 * round trip + 5 ms)`, and at least what gets through in 12 ms. The rate is that of the best
//! of the last rounds; a round is one message, the last that fitted into the window, from its publish to its ack: what
//! was in flight with it, by the time it took. On a way that could carry more nothing queues, so the time stays and the
//! next window is twice as large, or three times. On a full one the time grows and the rate stays, and so does the
//! window: what queues is worth one round trip and 5 ms. These, and the 12 ms, are for the server and the machine, which
//! take and answer in bursts, and run other things; with small messages a part of it may be better (`in_flight_probe`).
//!
//! The round trip is that of a message that waits for no other. Such are those that find nothing in flight; in one of
//! fifty rounds the window shrinks to half of what is on a way without a queue, so that there are some.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use inflight_probe::InFlightProbe;
use tokio::time::Instant;

use crate::path_estimate::{Estimate, PathEstimate};

/// Rounds of which the best counts, and how many times what a round should take they count for.
const ROUNDS: usize = 8;
const MEMORY: u32 = 10;
/// Rounds to the first drain, and between any two.
const FIRST_DRAIN: u32 = 10;
const DRAIN: u32 = 50;
/// How often a message that finds nothing in flight is timed.
const LOOK: Duration = Duration::from_millis(100);
/// What may queue beside one round trip's worth; and what may at least be in flight.
pub const BURST: Duration = Duration::from_millis(5);
const MIN_IN_FLIGHT_TIME: Duration = Duration::from_millis(12);
/// The window before anything is known, and the smallest that is not there to drain the way.
const FIRST: usize = 64 << 10;
const LEAST: usize = 32 << 10;
/// A time that is shorter than the clock can be trusted with.
pub const SHORTEST: Duration = Duration::from_micros(50);
/// Messages that may be unanswered, however small: what is kept of each is bounded too.
pub const MOST_MESSAGES: usize = 1 << 18;

/// A message on its way, or one that was asked for.
struct Timed {
    place: u64,
    sent: Instant,
    /// Bytes in flight, itself included; and of one message.
    bytes: usize,
    message: usize,
}

pub struct Congestion {
    /// Most bytes, whatever the way carries.
    most: usize,
    /// Before anything is known.
    first: usize,
    hiccup: Duration,
    window: usize,
    most_messages: usize,
    /// The window, for those who bound what waits for this loop; and beyond it bytes whose stream does not answer.
    published_window: Arc<AtomicUsize>,
    overtaken: usize,
    /// The last message of this round.
    last: Option<(u64, Instant)>,
    round: Option<Timed>,
    /// One that found nothing in flight, and when the last such was timed.
    alone: Option<Timed>,
    looked: Option<Instant>,
    /// Of each round, and when it ended.
    rates: [Option<(f64, Instant)>; ROUNDS],
    rounds: usize,
    until_drain: u32,
    /// The drain that was joined last, and whether this round is one.
    drains: u64,
    draining: bool,
    /// Where it matters how many messages there are.
    in_flight_probe: Option<InFlightProbe>,
    /// It takes part in drains.
    drains_too: bool,
}

impl Congestion {
    /// For messages that are published.
    pub fn new(path: &PathEstimate, breaks: u64, most: usize, published_window: Arc<AtomicUsize>) -> Self {
        let known = path.known(breaks);
        let in_flight_probe = InFlightProbe::new(known.in_flight_probe);
        let most_messages = in_flight_probe.most_messages(known.round_trip);
        let congestion = Self::beginning(FIRST, MIN_IN_FLIGHT_TIME, path, breaks, most, published_window);
        Congestion { in_flight_probe: Some(in_flight_probe), most_messages, ..congestion }
    }

    /// Begins with `first` bytes, and has in flight what gets through in `hiccup` at least.
    pub fn beginning(
        first: usize,
        hiccup: Duration,
        path: &PathEstimate,
        breaks: u64,
        most: usize,
        published_window: Arc<AtomicUsize>,
    ) -> Self {
        let known = path.known(breaks);
        let mut congestion = Congestion {
            most,
            first,
            hiccup,
            window: 0,
            most_messages: MOST_MESSAGES,
            published_window,
            overtaken: 0,
            last: None,
            round: None,
            alone: None,
            looked: None,
            rates: [None; ROUNDS],
            rounds: 0,
            until_drain: FIRST_DRAIN,
            drains: known.drains,
            draining: false,
            in_flight_probe: None,
            drains_too: true,
        };
        congestion.resize(if known.rate > 0.0 {
            (known.rate * congestion.worth(known.round_trip, 2)).max(LEAST as f64)
        } else {
            first as f64
        });
        congestion
    }

    /// For messages of which only some are answered: with few in flight none is, so the way is never drained.
    pub fn steady(path: &PathEstimate, breaks: u64, most: usize) -> Self {
        Congestion {
            drains_too: false,
            ..Self::beginning(FIRST, MIN_IN_FLIGHT_TIME, path, breaks, most, Arc::default())
        }
    }

    /// Bytes that may be unanswered.
    pub fn window(&self) -> usize {
        self.window
    }

    /// Messages that may be unanswered, however small.
    pub fn most_messages(&self) -> usize {
        self.most_messages
    }

    /// A message goes out, with so many bytes in flight before it. Its place is higher than that of all before it.
    pub fn sent(&mut self, place: u64, before: usize, now: Instant) {
        self.asked(place..=place, before, now);
    }

    /// The messages of these places are asked for.
    pub fn asked(&mut self, places: RangeInclusive<u64>, before: usize, now: Instant) {
        self.last = Some((*places.end(), now));
        if before == 0 && self.alone.is_none() && self.looked.is_none_or(|at| now.duration_since(at) >= LOOK) {
            self.alone = Some(Timed { place: *places.start(), sent: now, bytes: 0, message: 0 });
        }
    }

    /// Whether `answered` does something for this place.
    pub fn is_timed(&self, place: u64) -> bool {
        self.alone.as_ref().is_some_and(|alone| alone.place == place)
            || self.round.as_ref().is_some_and(|round| round.place <= place)
    }

    /// True where nothing is to be in flight for a moment.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// What is timed now takes as long as somebody else wants.
    pub fn forget(&mut self) {
        (self.last, self.round, self.alone) = (None, None, None);
    }

    /// The next message has to wait for the acks of those that are in flight: so many bytes, of messages of this size.
    pub fn is_full(&mut self, bytes: usize, message: usize) {
        if self.round.is_none() {
            self.round = self.last.map(|(place, sent)| Timed { place, sent, bytes, message });
        }
    }

    /// So many bytes a second came of what was asked for at once. Nothing tells more about the way, and nothing tells it
    /// earlier; but they may have lain in a buffer, so it is believed up to `most`.
    pub fn carries(&mut self, rate: f64, most: usize, path: &PathEstimate, breaks: u64) {
        let window = (rate * self.worth(path.known(breaks).round_trip, 2)).min(most as f64);
        if window > self.window as f64 {
            self.resize(window);
        }
    }

    /// The link broke: nothing timed is on its way, and the way may be another one.
    pub fn restart(&mut self) {
        self.forget();
        self.looked = None;
        self.rates = [None; ROUNDS];
        (self.until_drain, self.draining) = (FIRST_DRAIN, false);
        self.resize(self.first as f64);
    }

    /// A message was answered.
    pub fn answered(&mut self, place: u64, now: Instant, path: &PathEstimate, breaks: u64) {
        if self.alone.take_if(|alone| alone.place == place).is_some_and(|alone| {
            path.measured(breaks, took(&alone, now));
            true
        }) {
            self.looked = Some(now);
        }
        if let Some(round) = self.round.take_if(|round| round.place <= place) {
            self.end(&round, now, path, breaks);
        }
    }

    fn end(&mut self, round: &Timed, now: Instant, path: &PathEstimate, breaks: u64) {
        // The next round's message goes out after this: into a window that may be another one.
        self.last = None;
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
        let known = if self.drains_too { self.drain(path, breaks) } else { path.known(breaks) };
        if self.draining {
            return self.resize(self.rate() * known.round_trip.as_secs_f64() / 2.0);
        }
        // Nothing queued, although nothing was held back for that: it may carry much more.
        let times = if !drained && took < known.round_trip * 5 / 4 + BURST / 5 { 3 } else { 2 };
        let window = self.rate() * self.worth(known.round_trip, times);
        if let Some(in_flight_probe) = &self.in_flight_probe {
            self.most_messages = in_flight_probe.most_messages(known.round_trip);
        }
        let bytes = self.most_messages as f64 * round.message as f64;
        self.resize(window.min(bytes).max(LEAST as f64));
    }

    /// Begins a drain, or joins one.
    fn drain(&mut self, path: &PathEstimate, breaks: u64) -> Estimate {
        self.until_drain = self.until_drain.saturating_sub(1);
        let mut known = path.known(breaks);
        if self.until_drain == 0 && known.drains == self.drains {
            known = path.drain(breaks);
        }
        self.draining = known.drains != self.drains;
        if self.draining {
            (self.drains, self.until_drain) = (known.drains, DRAIN);
        }
        known
    }

    fn remember(&mut self, rate: f64, now: Instant, should_take: f64) {
        let since = now.checked_sub(Duration::from_secs_f64(should_take) * MEMORY);
        for known in &mut self.rates {
            known.take_if(|(_, at)| since.is_some_and(|since| *at < since));
        }
        self.rates[self.rounds % ROUNDS] = Some((rate, now));
        self.rounds += 1;
    }

    /// Seconds that a round should take.
    fn worth(&self, round_trip: Duration, times: u32) -> f64 {
        (round_trip * times + BURST).max(self.hiccup).as_secs_f64()
    }

    fn rate(&self) -> f64 {
        self.rates.iter().flatten().map(|(rate, _)| *rate).fold(0.0, f64::max)
    }

    fn resize(&mut self, bytes: f64) {
        self.window = (bytes as usize).min(self.most);
        self.tell();
    }

    /// So many bytes are unanswered because their stream does not answer: they are not counted as being on the way.
    pub fn set_overtaken(&mut self, bytes: usize) {
        self.overtaken = bytes.min(self.most / 2);
        self.tell();
    }

    fn tell(&self) {
        self.published_window.store(self.window + self.overtaken, Ordering::Relaxed);
    }

    /// How much later than another message one may be answered that takes the same way: what queues beside round trips.
    pub fn overdue(&self, path: &PathEstimate, breaks: u64) -> Duration {
        2 * path.known(breaks).round_trip + BURST
    }
}

fn took(timed: &Timed, now: Instant) -> Duration {
    now.saturating_duration_since(timed.sent).max(SHORTEST)
}

pub mod inflight_probe;
#[cfg(test)]
mod tests;
