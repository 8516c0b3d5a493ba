//! What a read does where its stream may have gone back.

use super::{Item, OnRollback, ReadLoop};
use crate::api::StreamInfo;
use crate::receive::rollback::{Extent, Mark, Marks, Rollback, verify};
use base::error::{JetError, Result};

impl Extent {
    /// The last message, if its time is known.
    pub(super) fn last(&self) -> Option<Mark> {
        Some(Mark { seq: self.last_seq, nanos: self.last_nanos? }).filter(|last| last.seq > 0)
    }
}

impl ReadLoop {
    /// After a doubt: compares the stream with what was read of it. False where the read goes on elsewhere.
    pub(super) async fn check_stream(&mut self) -> Result<bool> {
        if !self.doubtful {
            return Ok(true);
        }
        let info = self.stream_info().await?;
        if info.created != self.created {
            return Err(JetError::StreamRecreated { stream: self.range.stream.clone() });
        }
        // Of another reader, perhaps of another history: what the stream was like when this one was opened says nothing of
        // them.
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

    /// Begins anew where the caller wants that; what was read before goes out before.
    async fn roll_back(&mut self, rollback: Rollback, marks: &Marks, info: &StreamInfo) -> Result<()> {
        if self.range.on_rollback == OnRollback::Fail || self.latest.is_some() {
            return Err(JetError::RolledBack(Box::new(rollback)));
        }
        self.flush().await?;
        let good = rollback.last_good.map_or(0, |good| good.seq);
        let held = marks.as_slice().iter().map(|mark| mark.seq).find(|seq| *seq <= good && *seq < self.next);
        (self.next, self.earliest) = match (self.range.on_rollback, held) {
            (OnRollback::Continue, Some(seq)) => (seq + 1, false),
            // A read of a range has its sequences; one that follows misses nothing that was stored anew below its first.
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
