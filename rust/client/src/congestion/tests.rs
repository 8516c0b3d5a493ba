//! Publishers over a simulated link with a given delivery rate and RTT; simulated time, so no test waits.

use std::collections::VecDeque;

use super::*;

const SIZE: usize = 200;

struct Sender {
    congestion: Congestion,
    place: u64,
    unanswered: usize,
    /// Messages left to send; no others follow.
    left: u64,
}

struct SimulatedLink<'a> {
    path: PathEstimate,
    begun: Instant,
    now: f64,
    free: f64,
    /// Bytes per second, and RTT in seconds, at a time.
    rate: &'a dyn Fn(f64) -> f64,
    round_trip: &'a mut dyn FnMut(f64) -> f64,
    senders: Vec<Sender>,
    /// Acks: time, sender, place.
    answers: VecDeque<(f64, usize, u64)>,
    answered: u64,
    /// Longest queueing delay in seconds since the last reset.
    queued: f64,
}

impl<'a> SimulatedLink<'a> {
    fn new(senders: usize, rate: &'a dyn Fn(f64) -> f64, round_trip: &'a mut dyn FnMut(f64) -> f64) -> Self {
        let path = PathEstimate::default();
        let sender = || Sender {
            congestion: Congestion::new(&path, 0, 64 << 20, Arc::default()),
            place: 0,
            unanswered: 0,
            left: u64::MAX,
        };
        let senders = (0..senders).map(|_| sender()).collect();
        let (begun, answers) = (Instant::now(), VecDeque::new());
        SimulatedLink { path, begun, now: 0.0, free: 0.0, rate, round_trip, senders, answers, answered: 0, queued: 0.0 }
    }

    fn time(&self) -> Instant {
        self.begun + Duration::from_secs_f64(self.now)
    }

    fn send(&mut self) {
        let now = self.time();
        for number in 0..self.senders.len() {
            loop {
                let sender = &mut self.senders[number];
                if sender.left == 0 {
                    break;
                }
                if sender.unanswered > 0 && sender.unanswered + SIZE > sender.congestion.window() {
                    sender.congestion.is_full(sender.unanswered, SIZE);
                    break;
                }
                sender.left -= 1;
                sender.place += 1;
                sender.unanswered += SIZE;
                sender.congestion.sent(sender.place, sender.unanswered - SIZE, now);
                let place = sender.place;
                self.queued = self.queued.max(self.free - self.now);
                self.free = self.free.max(self.now) + SIZE as f64 / (self.rate)(self.now);
                // Acks keep their order.
                let last = self.answers.back().map_or(0.0, |(at, ..)| *at);
                let at = (self.free + (self.round_trip)(self.now)).max(last);
                self.answers.push_back((at, number, place));
            }
        }
    }

    /// Runs until `end`. Returns the bytes per second acknowledged meanwhile, and the longest queueing delay in
    /// seconds.
    fn until(&mut self, end: f64) -> (f64, f64) {
        let (from, before) = (self.now, self.answered);
        self.queued = 0.0;
        self.send();
        while let Some((at, ..)) = self.answers.front()
            && *at < end
        {
            let at = *at;
            self.now = at;
            // Acks that arrive together are read together.
            while let Some((_, number, place)) = self.answers.pop_front_if(|(when, ..)| *when <= at) {
                let now = self.time();
                let sender = &mut self.senders[number];
                sender.unanswered -= SIZE;
                self.answered += SIZE as u64;
                sender.congestion.answered(place, now, &self.path, 0);
            }
            self.send();
        }
        self.now = end;
        ((self.answered - before) as f64 / (end - from), self.queued)
    }
}

#[test]
fn window_fills_a_long_link() {
    for round_trip in [0.01, 0.02, 0.05, 0.1] {
        let (rate, mut trip) = (60e6, move |_| round_trip);
        let carries = |_| rate;
        let mut link = SimulatedLink::new(1, &carries, &mut trip);
        // Startup takes some round trips.
        link.until(10.0 * round_trip);
        let (got, queued) = link.until(4.0);
        assert!(got > 0.95 * rate, "{got} of {rate} at {round_trip}");
        assert!(queued < 1.5 * round_trip + 0.008, "{queued} at {round_trip}");
    }
}

#[test]
fn slow_link_queues_little() {
    // 20 Mbit/s.
    for round_trip in [0.005, 0.02, 0.05] {
        let (rate, mut trip) = (2.5e6, move |_| round_trip);
        let carries = |_| rate;
        let mut link = SimulatedLink::new(1, &carries, &mut trip);
        let (_, at_first) = link.until(1.0);
        assert!(at_first < 0.1, "{at_first}");
        let (got, queued) = link.until(10.0);
        assert!(got > 0.97 * rate, "{got} of {rate} at {round_trip}");
        // A message of another task waits for this queue and its own RTT: three RTTs in total on long links.
        assert!(queued < (2.0 * round_trip).max(0.025), "{queued} at {round_trip}");
    }
}

#[test]
fn window_follows_the_delivery_rate() {
    let mut trip = |_| 0.02;
    let carries = |now: f64| if (5.0..10.0).contains(&now) { 2.5e6 } else { 25e6 };
    let mut link = SimulatedLink::new(1, &carries, &mut trip);
    link.until(5.0);
    link.until(7.5);
    let (slow, queued) = link.until(10.0);
    assert!(slow > 2.4e6 && queued < 0.04, "{slow}, {queued}");
    link.until(10.5);
    let (fast, _) = link.until(12.0);
    assert!(fast > 24e6, "{fast}");
}

#[test]
fn several_publishers_share_a_link() {
    let (rate, mut trip) = (2.5e6, |_| 0.02);
    let carries = |_| rate;
    let mut link = SimulatedLink::new(3, &carries, &mut trip);
    link.until(5.0);
    for _ in 0..10 {
        let (got, queued) = link.until(link.now + 5.0);
        assert!(got > 0.95 * rate && queued < 0.1, "{got}, {queued}");
    }
}

#[test]
fn late_scheduler_does_not_close_the_window() {
    // Loopback, with up to 15 ms of scheduling delay for any message.
    let mut state = 1u64;
    let mut trip = move |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        0.0002 + 0.015 * (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let (rate, fixed) = (60e6, 5_000.0 * SIZE as f64 / 0.015);
    let carries = |_| rate;
    let mut link = SimulatedLink::new(1, &carries, &mut trip);
    link.until(1.0);
    let (got, _) = link.until(10.0);
    assert!(got > 0.5 * fixed.min(rate), "{got}");
}

#[test]
fn slow_feed_keeps_the_window_and_the_next_loop_starts_from_the_estimate() {
    let (mut trip, carries) = (|_| 0.02, |_| 60e6);
    let mut link = SimulatedLink::new(1, &carries, &mut trip);
    link.until(1.0);
    let window = link.senders[0].congestion.window();
    assert!(window > 2_000_000, "{window}");
    for step in 0..50 {
        link.senders[0].left = 1;
        link.until(1.0 + 0.03 * f64::from(step + 1));
    }
    assert_eq!(link.senders[0].congestion.window(), window);
    let published_window = Arc::new(AtomicUsize::new(0));
    let next = Congestion::new(&link.path, 0, 64 << 20, published_window.clone());
    assert_eq!((next.window(), published_window.load(Ordering::Relaxed)), (window, window));
    assert_eq!(Congestion::new(&link.path, 1, 64 << 20, published_window).window(), INITIAL_WINDOW, "another link");
}

#[test]
fn window_keeps_its_bound_and_restarts_after_a_disconnect() {
    let (path, published_window) = (PathEstimate::default(), Arc::default());
    let mut congestion = Congestion::new(&path, 0, 1_000, published_window);
    assert_eq!(congestion.window(), 1_000);
    let begun = Instant::now();
    for place in 0..100 {
        congestion.sent(place, 0, begun);
        congestion.is_full(1_000_000, SIZE);
        congestion.answered(place, begun + Duration::from_millis(1), &path, 0);
        assert!((1..=1_000).contains(&congestion.window()));
    }
    congestion.sent(100, 0, begun);
    congestion.restart();
    congestion.answered(100, begun + Duration::from_secs(100), &path, 1);
    assert!(path.known(1).round_trip.is_zero(), "a disconnect discards the sample");
}

#[test]
fn measured_rate_only_opens_the_window() {
    let path = PathEstimate::default();
    path.measured(0, Duration::from_millis(20));
    let mut congestion = Congestion::new(&path, 0, 64 << 20, Arc::default());
    congestion.carries(1e6, 1 << 20, &path, 0);
    assert_eq!(congestion.window(), INITIAL_WINDOW);
    congestion.carries(10e6, 1 << 20, &path, 0);
    assert_eq!(congestion.window(), 450_000);
    congestion.carries(1e9, 1 << 20, &path, 0);
    assert_eq!(congestion.window(), 1 << 20);
}

#[test]
fn low_rate_estimate_starts_with_the_smallest_window() {
    let path = PathEstimate::default();
    path.measured(0, Duration::from_millis(20));
    path.record_rate(0, 5_000.0);
    assert_eq!(Congestion::new(&path, 0, 64 << 20, Arc::default()).window(), MIN_WINDOW);
}

#[test]
fn small_messages_in_flight_stay_few_if_the_link_is_full() {
    let few = |rate: f64, round_trip: f64| {
        let (mut trip, carries) = (|_| round_trip, |_| rate);
        let mut link = SimulatedLink::new(1, &carries, &mut trip);
        link.until(1.0);
        let mut windows = (1..=100).map(|step| {
            link.until(1.0 + 0.05 * f64::from(step));
            link.senders[0].congestion.window()
        });
        windows.by_ref().filter(|window| *window <= 900 * SIZE).count()
    };
    // 12 ms worth of data would be four times as many messages, and no faster.
    assert!(few(60e6, 0.0002) > 80);
    // With an RTT of 3 ms few messages are too few. At 10 ms the limit is off without a trial.
    assert!(few(120e6, 0.003) < 40 && few(60e6, 0.01) < 20);
}
