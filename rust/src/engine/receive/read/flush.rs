//! Batches on their way to the reader.

use super::{Item, Run};
use crate::error::Result;

impl Run {
    /// Sends a batch that is full to the reader; false when the reader is gone.
    pub(super) async fn flush_if_full(&mut self) -> Result<bool> {
        let builder = &self.builder;
        let most = self.range.limit.map_or(self.range.batch_rows, |left| self.range.batch_rows.min(left as usize));
        let full = builder.len() >= most || builder.bytes() >= self.range.batch_bytes || builder.room() == 0;
        Ok(!full || self.flush().await?)
    }

    /// Sends what there is to the reader, as a batch; false when the reader is gone, or has all the rows that it wants.
    pub(super) async fn flush(&mut self) -> Result<bool> {
        if let Some(gap) = self.gap.take() {
            self.report_loss_since(gap).await?;
        }
        if self.builder.is_empty() {
            return Ok(true);
        }
        let mut batch = self.builder.finish()?;
        if let Some(typed) = &mut self.typed {
            batch = typed.apply(batch)?;
            if batch.record.num_rows() == 0 {
                return Ok(true);
            }
        }
        let mut more = true;
        if let Some(left) = &mut self.range.limit {
            *left = left.saturating_sub(batch.record.num_rows() as u64);
            more = *left > 0;
        }
        Ok(self.out.send(Ok(Item::Batch(batch))).await.is_ok() && more)
    }
}
