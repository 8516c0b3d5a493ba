//! Builder of Arrow batches from delivered messages.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::TimeUnit;

use crate::receive::column::{Column, Layout};
use crate::receive::headers_column::HeadersBuilder;
use base::error::{JetError, Result};
use columns::batch::Batch;
use columns::bytes::BytesBuilder;
use columns::column_buffer::SparePages;
use wire::ack_subject::AckSubject;
use wire::message::Message;
use wire::nats::Subject;

/// Maximum bytes of a batch. Arrow counts the bytes of a column in 31 bits. The last message may be as large as a
/// server allows (64 MiB), and base64 of malformed rows takes a third more.
const MAX_BATCH_BYTES: usize = 1 << 30;

/// Number of rows from which on room for all wanted rows is reserved, and the maximum of that reservation.
const MANY_ROWS: usize = 4096;
const MAX_BATCH_ROWS: usize = 1 << 20;

/// Sizes of a batch, and recycled memory of dropped ones.
#[derive(Clone, Default)]
pub struct RowSizes {
    /// Maximum number of rows of the next batch.
    wanted: usize,
    rows: usize,
    data: usize,
    reply: usize,
    spare: Arc<SparePages>,
}

impl RowSizes {
    /// Scales the sizes to this number of rows.
    pub fn of_rows(&self, wanted: usize) -> RowSizes {
        let rows = wanted.min(self.rows);
        let part = |bytes: usize| (bytes as f64 * rows as f64 / self.rows.max(1) as f64) as usize;
        RowSizes { wanted, rows, data: part(self.data), reply: part(self.reply), spare: self.spare.clone() }
    }
}

/// Position of the last message of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastRow {
    pub consumer_seq: u64,
    /// Messages that were pending behind it.
    pub pending: u64,
}

impl LastRow {
    pub fn of(meta: &AckSubject<'_>) -> Self {
        let count = |number: i64| u64::try_from(number).unwrap_or_default();
        LastRow { consumer_seq: count(meta.consumer_seq), pending: count(meta.pending) }
    }
}

/// Builder of batches; it builds only the selected columns.
pub struct BatchBuilder {
    layout: Layout,
    stream: String,
    seq: Vec<i64>,
    nanos: Vec<i64>,
    delivered: Option<Vec<i64>>,
    consumer_seq: Option<Vec<i64>>,
    pending: Option<Vec<i64>>,
    last: LastRow,
    subject: Option<StringBuilder>,
    headers: Option<HeadersBuilder>,
    data: Option<BytesBuilder>,
    reply: Option<BytesBuilder>,
    bytes: usize,
    limit: usize,
    /// Sizes to reserve for the next batch.
    expected: Option<RowSizes>,
    wanted: usize,
    spare: Arc<SparePages>,
}

impl BatchBuilder {
    /// Creates a builder. `replies` keeps the ack subjects even if no column has them.
    pub fn new(layout: Layout, replies: bool) -> Self {
        Self::with_limit(layout, replies, MAX_BATCH_BYTES)
    }

    fn with_limit(layout: Layout, replies: bool, limit: usize) -> Self {
        let wants = |column| layout.columns.contains(&column);
        BatchBuilder {
            stream: String::new(),
            seq: Vec::new(),
            nanos: Vec::new(),
            delivered: wants(Column::Delivered).then(Vec::new),
            consumer_seq: wants(Column::ConsumerSeq).then(Vec::new),
            pending: wants(Column::Pending).then(Vec::new),
            last: LastRow::default(),
            subject: wants(Column::Subject).then(StringBuilder::new),
            headers: wants(Column::Headers).then(|| HeadersBuilder::new(layout.binary_headers)),
            data: wants(Column::Data).then(BytesBuilder::default),
            reply: (replies || wants(Column::Reply)).then(BytesBuilder::default),
            bytes: 0,
            limit,
            expected: None,
            wanted: 0,
            spare: Arc::default(),
            layout,
        }
    }

    pub fn len(&self) -> usize {
        self.seq.len()
    }

    pub fn is_empty(&self) -> bool {
        self.seq.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes of messages that still fit. At 0 the batch must be finished.
    pub fn room(&self) -> usize {
        // The stream's name is not part of the messages, and is in each row.
        self.limit.saturating_sub(self.bytes.max(self.len().saturating_mul(self.stream.len())))
    }

    /// Returns what the last row's ack subject has.
    pub fn last(&self) -> Option<LastRow> {
        (!self.seq.is_empty()).then_some(self.last)
    }

    /// Returns the ack subjects of the rows so far.
    pub fn replies(&self) -> Vec<Subject> {
        let Some(replies) = &self.reply else { return Vec::new() };
        let all = replies.iter();
        all.filter_map(|reply| std::str::from_utf8(reply).ok())
            .filter(|reply| !reply.is_empty())
            .map(Subject::from)
            .collect()
    }

    /// Appends a message. If `room` is not 0, a message of any size that a server stores fits.
    pub fn push(&mut self, message: &Message, meta: &AckSubject<'_>) -> Result<()> {
        if self.room() == 0 {
            return Err(JetError::Internal(format!("more than {} bytes of messages in one batch", self.limit)));
        }
        if let Some(sizes) = self.expected.take() {
            self.reserve(sizes);
        }
        if self.len() == MANY_ROWS {
            self.reserve_rows(self.wanted.min(MAX_BATCH_ROWS).saturating_sub(MANY_ROWS));
        }
        if self.stream.is_empty() {
            meta.stream.clone_into(&mut self.stream);
        }
        self.seq.push(meta.seq);
        self.nanos.push(meta.nanos);
        for (column, number) in [
            (&mut self.delivered, meta.delivered),
            (&mut self.consumer_seq, meta.consumer_seq),
            (&mut self.pending, meta.pending),
        ] {
            column.as_mut().into_iter().for_each(|column| column.push(number));
        }
        self.last = LastRow::of(meta);
        self.bytes += message.size();
        if let Some(subject) = &mut self.subject {
            subject.append_value(self.layout.shown(&message.subject()));
        }
        if let Some(data) = &mut self.data {
            data.append(Some(message.payload()));
        }
        if let Some(reply) = &mut self.reply {
            reply.append(message.reply().map(str::as_bytes));
        }
        if let Some(headers) = &mut self.headers {
            headers.push(message.raw_headers())?;
        }
        Ok(())
    }

    /// Sets the sizes of an earlier batch, to be reserved on the first message: growing costs as much as filling.
    pub fn set_expected_sizes(&mut self, sizes: RowSizes) {
        self.expected = Some(sizes);
    }

    fn reserve(&mut self, sizes: RowSizes) {
        (self.wanted, self.spare) = (sizes.wanted, sizes.spare);
        self.reserve_rows(sizes.rows);
        for (column, bytes) in [(&mut self.data, sizes.data), (&mut self.reply, sizes.reply)] {
            let spare = || Arc::downgrade(&self.spare);
            column.as_mut().into_iter().for_each(|column| column.reserve(sizes.wanted, bytes, spare()));
        }
    }

    /// Reserves room for more rows. The system commits the memory on use only.
    fn reserve_rows(&mut self, rows: usize) {
        self.seq.reserve(rows);
        self.nanos.reserve(rows);
        for column in [&mut self.delivered, &mut self.consumer_seq, &mut self.pending] {
            column.as_mut().into_iter().for_each(|column| column.reserve(rows));
        }
        for column in [&mut self.data, &mut self.reply] {
            column.as_mut().into_iter().for_each(|column| column.reserve_rows(rows));
        }
    }

    /// Returns the sizes of the batch.
    pub fn sizes(&self) -> RowSizes {
        let bytes = |column: &Option<BytesBuilder>| column.as_ref().map_or(0, BytesBuilder::bytes);
        let (data, reply) = (bytes(&self.data), bytes(&self.reply));
        RowSizes { wanted: self.len(), rows: self.len(), data, reply, spare: self.spare.clone() }
    }

    /// Returns the rows so far and starts a new batch.
    pub fn finish(&mut self) -> Result<Batch> {
        let rows = self.len();
        let broken = |e: arrow_schema::ArrowError| JetError::Internal(e.to_string());
        let seqs = Int64Array::from(fit(&mut self.seq));
        let replies = self.reply.as_mut().map(BytesBuilder::finish_texts).transpose().map_err(broken)?;
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.layout.columns.len());
        for column in self.layout.columns.clone() {
            columns.push(match column {
                Column::Stream => repeat(&self.stream, rows),
                Column::Seq => Arc::new(seqs.clone()),
                Column::Timestamp => self.timestamps(),
                Column::Delivered => numbers(&mut self.delivered),
                Column::ConsumerSeq => numbers(&mut self.consumer_seq),
                Column::Pending => numbers(&mut self.pending),
                Column::Subject => Arc::new(self.subject.get_or_insert_default().finish()),
                Column::Data => Arc::new(self.data.get_or_insert_default().finish_binary().map_err(broken)?),
                Column::Headers => {
                    self.headers.get_or_insert_with(|| HeadersBuilder::new(self.layout.binary_headers)).finish()
                }
                Column::Reply => Arc::new(replies.clone().unwrap_or_else(|| StringArray::new_null(rows))),
            });
        }
        let record = RecordBatch::try_new(self.layout.schema.clone(), columns).map_err(broken)?;
        let bytes = std::mem::take(&mut self.bytes);
        self.nanos.clear();
        Ok(Batch { record, replies, seqs, bytes })
    }

    fn timestamps(&mut self) -> ArrayRef {
        let mut values = fit(&mut self.nanos);
        if self.layout.unit == TimeUnit::Nanosecond {
            return Arc::new(TimestampNanosecondArray::from(values).with_timezone("UTC"));
        }
        values.iter_mut().for_each(|nanos| *nanos = nanos.div_euclid(1_000));
        Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC"))
    }
}

fn numbers(values: &mut Option<Vec<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from(fit(values.get_or_insert_default())))
}

/// Takes the values and frees most of the spare capacity.
fn fit(values: &mut Vec<i64>) -> Vec<i64> {
    let mut values = std::mem::take(values);
    if values.capacity() > 2 * values.len() {
        values.shrink_to_fit();
    }
    values
}

/// Builds a column that repeats one string.
fn repeat(text: &str, rows: usize) -> ArrayRef {
    let offsets = OffsetBuffer::<i32>::from_repeated_length(text.len(), rows);
    Arc::new(StringArray::new(offsets, text.repeat(rows).into_bytes().into(), None))
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

    use super::*;

    fn message(headers: &[u8]) -> Message {
        Message::new("a.b", "$JS.ACK.S.c.1.7.3.1700000000123456789.9", headers, b"data")
    }

    fn meta(message: &Message) -> Result<AckSubject<'_>> {
        message.meta().ok_or_else(|| JetError::Internal(format!("{message:?}")))
    }

    #[test]
    fn full_builder_rejects_messages_and_stays_usable() -> Result<()> {
        let message = message(b"");
        let (meta, size) = (meta(&message)?, message.size());
        let limit = 2 * size + 2;
        let mut builder = BatchBuilder::with_limit(Layout::new(Column::DEFAULT.to_vec(), true), true, limit);
        for left in [size + 2, 2, 0] {
            builder.push(&message, &meta)?;
            assert_eq!(builder.room(), left);
        }
        assert!(builder.push(&message, &meta).is_err());
        assert_eq!(builder.replies(), vec![Subject::from(message.reply().unwrap_or_default()); 3]);
        assert_eq!(builder.finish()?.record.num_rows(), 3);
        assert_eq!(builder.room(), limit);
        // The column of the stream's name grows with the rows, even if the messages are small.
        let meta = AckSubject { stream: "a long name", ..meta };
        let mut builder = BatchBuilder::with_limit(Layout::new(vec![Column::Stream], true), false, 10);
        builder.push(&Message::new("a", "", b"", b""), &meta)?;
        assert_eq!((builder.room(), builder.replies()), (0, Vec::new()));
        Ok(())
    }

    #[test]
    fn unused_room_is_freed() -> Result<()> {
        let message = message(b"");
        let meta = meta(&message)?;
        let mut builder = BatchBuilder::new(Layout::new(Column::DEFAULT.to_vec(), true), true);
        let sizes = RowSizes { rows: 100_000, data: 1 << 20, reply: 1 << 20, ..RowSizes::default() };
        builder.set_expected_sizes(sizes.of_rows(50_000));
        builder.push(&message, &meta)?;
        assert!(builder.seq.capacity() >= 50_000 && builder.sizes().data == message.payload().len());
        let batch = builder.finish()?;
        let held: usize = batch.record.columns().iter().map(|column| column.get_buffer_memory_size()).sum();
        assert!(held < 100_000, "{held}");
        assert_eq!(sizes.of_rows(1_000_000).rows, 100_000);
        Ok(())
    }

    /// Before the first batch only the maximum number of rows is known.
    #[test]
    fn room_for_all_rows_is_reserved_after_many() -> Result<()> {
        let message = message(b"");
        let meta = meta(&message)?;
        for (wanted, room) in [(100_000, 100_000), (usize::MAX, MAX_BATCH_ROWS)] {
            let mut builder = BatchBuilder::new(Layout::new(Column::DEFAULT.to_vec(), true), true);
            builder.set_expected_sizes(RowSizes::default().of_rows(wanted));
            for _ in 0..MANY_ROWS {
                builder.push(&message, &meta)?;
            }
            assert!(builder.seq.capacity() < room);
            builder.push(&message, &meta)?;
            assert!(builder.seq.capacity() >= room && builder.nanos.capacity() >= room);
            assert_eq!(builder.finish()?.record.num_rows(), MANY_ROWS + 1);
        }
        Ok(())
    }

    #[test]
    fn finish_returns_columns_and_restarts_the_builder() -> Result<()> {
        let mut builder = BatchBuilder::new(Layout::new(Column::DEFAULT.to_vec(), true), true);
        for message in [message(b""), message(b"NATS/1.0\r\nB: 1\r\nA: 2\r\nB: 3\r\n\r\n")] {
            builder.push(&message, &meta(&message)?)?;
        }
        let batch = builder.finish()?;
        assert_eq!(batch.record.num_rows(), 2);
        assert_eq!(batch.record["stream"].as_string::<i32>().value(1), "S");
        assert_eq!(
            batch.record["timestamp"].as_primitive::<arrow_array::types::TimestampMicrosecondType>().value(0),
            1_700_000_000_123_456
        );
        let map = batch.record["headers"].as_map();
        assert!(map.is_null(0));
        assert_eq!(map.value(1).column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["A", "B"]);
        assert_eq!(batch.replies.map(|r| r.len()), Some(2));
        assert_eq!(builder.finish()?.record.num_rows(), 0);
        Ok(())
    }
}
