//! How many bytes of rows may be unconfirmed on a way that carries more than the rows that always may, where the caller
//! leaves that to us.

use tokio::time::Instant;

use super::batch::{Batch, most_bytes};
use crate::engine::connection::Connection;
use crate::engine::connection::congestion::Congestion;
use crate::engine::publish::window::Window;

pub struct Growth(Option<Congestion>);

impl Growth {
    pub fn new(conn: &Connection, window: &Window) -> Self {
        let steady = || Congestion::steady(&conn.path, conn.breaks(), most_bytes(window));
        Growth(window.max_inflight.is_none().then(steady))
    }

    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Congestion::window)
    }

    /// Another batch, with places of its own.
    pub fn begin(&mut self) {
        self.0.iter_mut().for_each(Congestion::forget);
    }

    /// The first row, which waited for no other, was answered.
    pub fn accepted(&self, batch: &Batch, conn: &Connection) {
        if self.0.is_some() && batch.sent == 1 {
            conn.path.measured(batch.breaks, batch.begun.elapsed());
        }
    }

    /// No more rows go out before some of them are confirmed.
    pub fn is_full(&mut self, batch: &Batch) {
        if let Some(congestion) = &mut self.0 {
            congestion.sent(batch.sent, batch.bytes, Instant::now());
            congestion.is_full(batch.bytes, batch.bytes / batch.rows.len().max(1));
        }
    }

    /// Rows up to here are confirmed.
    pub fn confirmed(&mut self, place: u64, batch: &Batch, conn: &Connection) {
        if let Some(congestion) = &mut self.0 {
            congestion.answered(place, Instant::now(), &conn.path, batch.breaks);
        }
    }
}
