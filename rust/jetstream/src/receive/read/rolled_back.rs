//! Reaction of a read to a rolled back stream.

use super::{Item, OnRollback, ReadLoop};
use crate::api::StreamInfo;
use crate::receive::rollback::{Extent, Mark, Marks, Rollback, verify};
use base::error::{JetError, Result};

impl Extent {
    /// Returns the mark of the last message, if its time is known.
    pub(super) fn last(&self) -> Option<Mark> {
        Some(Mark { seq: self.last_seq, nanos: self.last_nanos? }).filter(|last| last.seq > 0)
    }
}

impl ReadLoop {
    /// Compares the stream with the messages read so far, if that is due. False if the read continues at another
    /// position.
    pub(super) async fn check_stream(&mut self) -> Result<bool> {
        if !self.doubtful {
            return Ok(true);
        }
        let info = self.stream_info().await?;
        if info.created != self.created {
            return Err(JetError::StreamRecreated { stream: self.range.stream.clone() });
        }
        // These marks are another reader's, perhaps of another history, so the state at this reader's opening does not
        // apply to them.
        let marks = match self.range.marks.is_empty() {
            false => Marks::new(self.range.marks.iter().copied()),
            true => Marks::new(self.marks.as_slice().iter().copied().chain(self.last).chain(self.opened)),
        };
        let found = verify(self.api(), &self.range.stream, marks.as_slice(), Some((&info.state).into())).await?;
        self.doubtful = false;
        if !self.range.marks.is_empty() {
            self.range.marks.clear();
            self.marks = marks.clone();
        }
        match found {
            None => Ok(true),
            Some(rollback) => self.roll_back(rollback, &marks, &info).await.map(|()| false),
        }
    }

    /// Restarts the read if the caller allows it. Rows read before are sent first.
    async fn roll_back(&mut self, rollback: Rollback, marks: &Marks, info: &StreamInfo) -> Result<()> {
        if self.range.on_rollback == OnRollback::Fail || self.latest.is_some() {
            return Err(JetError::RolledBack(Box::new(rollback)));
        }
        self.flush().await?;
        let good = rollback.last_good.map_or(0, |good| good.seq);
        let held = marks.as_slice().iter().map(|mark| mark.seq).find(|seq| *seq <= good && *seq < self.next);
        (self.next, self.earliest) = match (self.range.on_rollback, held) {
            (OnRollback::Continue, Some(seq)) => (seq + 1, false),
            // A bounded read has fixed sequences. One with `follow` misses no message that was stored again below its
            // start.
            (OnRollback::Continue, None) if !self.range.follow => (self.start, true),
            _ => (info.state.first_seq.max(1), true),
        };
        if !self.range.follow {
            self.end = self.end.min(info.state.last_seq + 1);
        }
        self.marks.truncate(self.next - 1);
        (self.last, self.gap) = (None, None);
        self.opened = Extent::from(&info.state).last();
        let _closed = self.out.send(Ok((Item::RolledBack(Box::new(rollback)), None))).await;
        Ok(())
    }
}
