//! Limits of a consumer for pull requests, learned from the server's error texts.

use std::time::Duration;

use crate::receive::pull::PullOptions;

/// Limit that a request exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Number of concurrent requests: another fits once one is over.
    Waiting,
    Batch(usize),
    Expires(Duration),
    Bytes(usize),
}

impl Limit {
    /// Parses the server's error text in lower case.
    pub fn read(text: &str) -> Option<Limit> {
        let (what, most) = text.strip_prefix("exceeded ")?.split_once(" of ").unwrap_or((text, ""));
        match what {
            "maxrequestbatch" => most.parse().ok().map(Limit::Batch),
            "maxrequestexpires" => duration(most).map(Limit::Expires),
            "maxrequestmaxbytes" => most.parse().ok().map(Limit::Bytes),
            _ if text == "exceeded maxwaiting" => Some(Limit::Waiting),
            _ => None,
        }
    }
}

/// Parses a duration of Go: `1m0.5s`, `500ms`.
fn duration(text: &str) -> Option<Duration> {
    let (mut total, mut rest) = (Duration::ZERO, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit = &tail[..tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len())];
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "µs" | "us" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total += Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        rest = &tail[unit.len()..];
    }
    (!total.is_zero()).then_some(total)
}

/// Known limits of a consumer.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    batch: usize,
    expires: Duration,
    bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { batch: usize::MAX, expires: Duration::MAX, bytes: usize::MAX }
    }
}

impl Limits {
    pub fn learn(&mut self, limit: Limit) {
        match limit {
            Limit::Waiting => {}
            Limit::Batch(most) => self.batch = self.batch.min(most.max(1)),
            Limit::Expires(most) => self.expires = most,
            Limit::Bytes(most) => self.bytes = most.max(1),
        }
    }

    /// Maximum bytes of a request.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the request, reduced to the consumer's limits.
    pub fn allowed(&self, request: PullOptions) -> PullOptions {
        let max_bytes = match request.max_bytes {
            // Zero means no limit.
            0 if self.bytes < usize::MAX => self.bytes,
            most => most.min(self.bytes),
        };
        let heartbeat = match request.expires > self.expires {
            // At most half of the expiry.
            true => request.heartbeat.min(self.expires.mul_f64(0.45)),
            false => request.heartbeat,
        };
        PullOptions {
            batch: request.batch.min(self.batch),
            expires: request.expires.min(self.expires),
            max_bytes,
            heartbeat,
            ..request
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_parsed() {
        for (text, expected) in [("1s", 1.0), ("500ms", 0.5), ("1h0m1.5s", 3601.5), ("2m3s", 123.0), ("10µs", 1e-5)] {
            assert_eq!(duration(text), Some(Duration::from_secs_f64(expected)), "{text}");
        }
        for text in ["", "5", "s", "1x", "0s", "1.2.3s", "-1s"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn requests_are_reduced_to_the_limits() {
        let asked = PullOptions {
            batch: 100,
            max_bytes: 1 << 20,
            expires: Duration::from_secs(10),
            no_wait: false,
            heartbeat: Duration::from_secs(2),
        };
        let mut limits = Limits::default();
        assert_eq!(limits.allowed(asked).batch, 100);
        for limit in [Limit::Batch(7), Limit::Expires(Duration::from_secs(1)), Limit::Bytes(500), Limit::Waiting] {
            limits.learn(limit);
        }
        let less = limits.allowed(asked);
        assert_eq!((less.batch, less.max_bytes, less.expires), (7, 500, Duration::from_secs(1)));
        assert!(less.heartbeat < Duration::from_millis(500));
        assert_eq!(limits.allowed(PullOptions { max_bytes: 0, ..asked }).max_bytes, 500);
    }
}
