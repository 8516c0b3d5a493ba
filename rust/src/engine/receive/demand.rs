//! How much a read asks for ahead: as `connection::congestion`, of the messages on their way to us.
//!
//! A server sends what it was asked for at once. Over a slow link more than it carries in two round trips stands in a
//! queue, and whatever else is answered over the connection waits behind it: seconds, with the 16 MiB that keep a fast
//! one busy.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::connection::Connection;
use crate::engine::connection::congestion::Congestion;

/// Bytes asked for before anything is known: a fast link is not to wait for many round trips.
const FIRST: usize = 1 << 20;
/// What is under way at least, in time: a message costs less to send than to store, so more of them come in a burst.
const HICCUP: Duration = Duration::from_millis(25);

pub struct Demand {
    congestion: Congestion,
    /// Bytes of a message, on average.
    mean: usize,
    /// Messages that came.
    came: u64,
}

impl Demand {
    /// At most `most` bytes.
    pub fn new(conn: &Connection, most: usize, mean: usize) -> Self {
        let congestion = Congestion::beginning(FIRST, HICCUP, &conn.path_back, conn.breaks(), most, Default::default());
        Demand { congestion, mean: mean.max(1), came: 0 }
    }

    /// Messages of one request, at most so many; two of them may be under way, one where it is to be measured how long
    /// one takes that waits for no other.
    pub fn rows(&self, most: usize) -> (usize, usize) {
        let rows = (self.congestion.window() / 2 / self.mean).clamp(1, most.max(1));
        (rows, if self.congestion.is_draining() { 0 } else { rows })
    }

    /// So many are asked for, with others still to come.
    pub fn asked(&mut self, rows: usize, owed: usize) {
        let begin = self.came + owed as u64;
        self.congestion.asked(begin + 1..=begin + rows as u64, owed, Instant::now());
        self.congestion.is_full((owed + rows) * self.mean, self.mean);
    }

    /// One of them came.
    pub fn came(&mut self, conn: &Connection, breaks: u64) {
        self.came += 1;
        if self.congestion.is_timed(self.came) {
            self.congestion.answered(self.came, Instant::now(), &conn.path_back, breaks);
        }
    }

    /// What is under way comes later than it could, or never.
    pub fn forget(&mut self) {
        self.congestion.forget();
    }
}
