//! Sends batches to the reader.

use tokio::time::sleep;

use super::{Item, READ_RETRY_INTERVAL, ReadFormat, ReadLoop};
use base::error::{JetError, Result};
use columns::batch::Batch;

impl ReadLoop {
    /// Sends a full batch to the reader; false if the reader is gone.
    pub(super) async fn flush_if_full(&mut self) -> Result<bool> {
        let builder = &self.builder;
        let (rows, bytes) = self.sizes.now();
        let most = self.range.limit.map_or(rows, |left| rows.min(left as usize));
        let full = builder.len() >= most || builder.bytes() >= bytes || builder.room() == 0;
        Ok(!full || self.flush().await?)
    }

    /// Sends the available rows to the reader as a batch; false if the reader is gone, or has all rows of its limit.
    pub(super) async fn flush(&mut self) -> Result<bool> {
        if let Some((gap, rows)) = self.gap {
            // Forgotten only after the report: a request that fails is repeated.
            self.report_loss_since(gap, rows).await?;
            (self.gap, self.away) = (None, None);
        }
        if self.builder.is_empty() {
            return Ok(true);
        }
        self.last.into_iter().for_each(|last| self.marks.push(last));
        let sizes = self.builder.sizes();
        let batch = self.builder.finish()?;
        self.builder.set_expected_sizes(sizes);
        self.deliver(batch).await
    }

    /// As `flush`. The request that finds out about a loss is repeated during an outage; until then no row is sent.
    pub(super) async fn flush_over_outages(&mut self) -> Result<bool> {
        loop {
            match self.flush().await {
                // With the gap the rows are still there.
                Err(err) if self.gap.is_some() && err.is_transient() && !self.outage_left().is_zero() => {
                    self.until_linked().await?;
                    sleep(READ_RETRY_INTERVAL).await;
                }
                Err(JetError::Timeout { .. } | JetError::Unanswered { .. }) => return Err(self.away_too_long()),
                done => return done,
            }
        }
    }

    /// Sends the first rows of the builder, and drops the others.
    pub(super) async fn flush_first(&mut self, rows: usize) -> Result<()> {
        if rows > 0 {
            let batch = self.builder.finish()?;
            self.deliver(batch.slice(0, rows)).await?;
        }
        Ok(())
    }

    async fn deliver(&mut self, batch: Batch) -> Result<bool> {
        match &mut self.form {
            ReadFormat::Messages => self.send(batch).await,
            ReadFormat::Typed(typed) => {
                typed.prepare(&batch).await?;
                let batch = typed.apply(batch)?;
                self.send(batch).await
            }
            ReadFormat::Tables(unpack) => {
                unpack.add_messages(batch);
                while let ReadFormat::Tables(unpack) = &mut self.form
                    && let Some(batch) = unpack.rows()?
                {
                    if !self.send(batch).await? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    async fn send(&mut self, mut batch: Batch) -> Result<bool> {
        if batch.record.num_rows() == 0 {
            return Ok(true);
        }
        if self.out.capacity() == 0
            && let Some(consumer) = &mut self.consumer
        {
            // The reader is slower than the server.
            consumer.demand.forget();
        }
        let mut more = true;
        if let Some(left) = &mut self.range.limit {
            if batch.record.num_rows() as u64 > *left {
                // A message may hold more rows than the limit.
                batch = batch.slice(0, *left as usize);
            }
            *left = left.saturating_sub(batch.record.num_rows() as u64);
            more = *left > 0;
        }
        let place = self.sizes.place(batch.bytes).await;
        Ok(self.out.send(Ok((Item::Batch(batch), place))).await.is_ok() && more)
    }
}
