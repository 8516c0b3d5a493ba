//! Congestion control of a fast ingest without a limit from the caller: bytes that may be unconfirmed beyond the
//! default rows.

use tokio::time::Instant;

use super::batch::{FastBatch, most_bytes};
use crate::publish::window::Window;
use client::Connection;
use client::congestion::Congestion;

pub struct Growth {
    congestion: Option<Congestion>,
    /// Number of disconnects at the last batch.
    breaks: u64,
}

impl Growth {
    pub fn new(conn: &Connection, window: &Window) -> Self {
        let steady = || Congestion::steady(&conn.path, conn.breaks(), most_bytes(window));
        Growth { congestion: window.max_inflight.is_none().then(steady), breaks: conn.breaks() }
    }

    pub fn bytes(&self) -> usize {
        self.congestion.as_ref().map_or(0, Congestion::window)
    }

    /// Starts another batch, with its own numbering and perhaps on another link.
    pub fn begin(&mut self, batch: &FastBatch) {
        let same = std::mem::replace(&mut self.breaks, batch.breaks) == batch.breaks;
        let begin = if same { Congestion::forget } else { Congestion::restart };
        self.congestion.iter_mut().for_each(begin);
    }

    /// Records the ack of the first row, which did not queue: a min RTT sample.
    pub fn accepted(&self, batch: &FastBatch, conn: &Connection) {
        if self.congestion.is_some() && batch.sent == 1 {
            conn.path.measured(batch.breaks, batch.begun.elapsed());
        }
    }

    /// Records that the window is full.
    pub fn is_full(&mut self, batch: &FastBatch) {
        if let Some(congestion) = &mut self.congestion {
            congestion.sent(batch.sent, batch.bytes, Instant::now());
            congestion.is_full(batch.bytes, batch.bytes / batch.rows.len().max(1));
        }
    }

    /// Records that rows up to this one are confirmed.
    pub fn confirmed(&mut self, place: u64, batch: &FastBatch, conn: &Connection) {
        if let Some(congestion) = &mut self.congestion {
            congestion.answered(place, Instant::now(), &conn.path, batch.breaks);
        }
    }
}
