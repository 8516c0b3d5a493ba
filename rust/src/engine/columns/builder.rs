//! Delivered messages into Arrow columns.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, ListBuilder, MapBuilder, MapFieldNames, StringBuilder};
use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use async_nats::{HeaderMap, Message};
use memchr::memchr_iter;

use crate::error::{JetError, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Stream,
    Seq,
    Subject,
    Timestamp,
    Headers,
    Data,
    Delivered,
    ConsumerSeq,
    Pending,
    Reply,
}

impl Column {
    const ALL: [(&'static str, Column); 10] = [
        ("stream", Column::Stream),
        ("seq", Column::Seq),
        ("subject", Column::Subject),
        ("timestamp", Column::Timestamp),
        ("headers", Column::Headers),
        ("data", Column::Data),
        ("delivered", Column::Delivered),
        ("consumer_seq", Column::ConsumerSeq),
        ("pending", Column::Pending),
        ("reply", Column::Reply),
    ];
    pub const DEFAULT: [Column; 6] =
        [Column::Stream, Column::Seq, Column::Subject, Column::Timestamp, Column::Headers, Column::Data];

    pub fn parse(names: &[String]) -> Result<Vec<Column>> {
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let found = Self::ALL.iter().find(|(known, _)| known == name).map(|(_, column)| *column);
            match found {
                Some(column) if !columns.contains(&column) => columns.push(column),
                Some(_) => return Err(JetError::Value(format!("columns names {name:?} twice"))),
                None => {
                    let known: Vec<_> = Self::ALL.iter().map(|(known, _)| *known).collect();
                    return Err(JetError::Value(format!(
                        "columns names {name:?}, which is not one of {}",
                        known.join(", ")
                    )));
                }
            }
        }
        if columns.is_empty() {
            return Err(JetError::Value("columns names no column".into()));
        }
        Ok(columns)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, column)| *column == self).map_or("", |(name, _)| name)
    }

    fn field(self, unit: TimeUnit) -> Field {
        let data_type = match self {
            Column::Stream | Column::Subject | Column::Reply => DataType::Utf8,
            Column::Seq | Column::Delivered | Column::ConsumerSeq | Column::Pending => DataType::Int64,
            Column::Timestamp => DataType::Timestamp(unit, Some("UTC".into())),
            Column::Data => DataType::Binary,
            Column::Headers => {
                let values = DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)));
                let entries = vec![Field::new("key", DataType::Utf8, false), Field::new("value", values, true)];
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(Fields::from(entries)), false)), false)
            }
        };
        Field::new(self.name(), data_type, matches!(self, Column::Headers | Column::Reply))
    }
}

/// The columns of a batch: which, in which order, with which unit of time (microseconds for Spark).
#[derive(Clone, Debug)]
pub struct Layout {
    pub columns: Vec<Column>,
    pub schema: SchemaRef,
    unit: TimeUnit,
}

impl Layout {
    pub fn new(columns: Vec<Column>, microseconds: bool) -> Self {
        let unit = if microseconds { TimeUnit::Microsecond } else { TimeUnit::Nanosecond };
        let schema = Arc::new(Schema::new(columns.iter().map(|c| c.field(unit)).collect::<Vec<_>>()));
        Layout { columns, schema, unit }
    }
}

/// What the ack subject of a delivered message says (ADR-15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta<'a> {
    pub stream: &'a str,
    pub consumer: &'a str,
    pub delivered: i64,
    pub seq: i64,
    pub consumer_seq: i64,
    pub nanos: i64,
    pub pending: i64,
}

/// `$JS.ACK.<stream>.<consumer>.<delivered>.<seq>.<consumer seq>.<ns>.<pending>`; the newer form has domain and
/// account hash after `ACK`, and may have more tokens at the end.
pub fn parse_meta(reply: &str) -> Option<Meta<'_>> {
    const MOST: usize = 12;
    let rest = reply.strip_prefix("$JS.ACK.")?;
    // Where the tokens end; this runs for every message, and finding the dots in one pass is most of it.
    let mut ends = [0; MOST];
    let mut count = 0;
    for end in memchr_iter(b'.', rest.as_bytes()).chain([rest.len()]).take(MOST) {
        ends[count] = end;
        count += 1;
    }
    let first = match count {
        7 => 0,
        9.. => 2,
        _ => return None,
    };
    let token = |index: usize| {
        let index = first + index;
        let start = if index == 0 { 0 } else { ends[index - 1] + 1 };
        rest.get(start..ends[index])
    };
    Some(Meta {
        stream: token(0)?,
        consumer: token(1)?,
        delivered: number(token(2)?)?,
        seq: number(token(3)?)?,
        consumer_seq: number(token(4)?)?,
        nanos: number(token(5)?)?,
        pending: number(token(6)?)?,
    })
}

/// A decimal number that fits: eight digits at a time as long as there are as many.
fn number(text: &str) -> Option<i64> {
    let mut digits = text.as_bytes();
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    let mut total: u64 = 0;
    while let Some((eight, rest)) = digits.split_first_chunk::<8>() {
        let chunk = u64::from_le_bytes(*eight);
        // Every byte is an ASCII digit.
        let high = chunk & 0xF0F0_F0F0_F0F0_F0F0;
        let carried = chunk.wrapping_add(0x0606_0606_0606_0606) & 0xF0F0_F0F0_F0F0_F0F0;
        if high != 0x3030_3030_3030_3030 || carried != 0x3030_3030_3030_3030 {
            return None;
        }
        // Pairs, then fours, then all eight.
        let value = (chunk & 0x0F0F_0F0F_0F0F_0F0F).wrapping_mul(2561) >> 8;
        let value = (value & 0x00FF_00FF_00FF_00FF).wrapping_mul(6_553_601) >> 16;
        let value = (value & 0x0000_FFFF_0000_FFFF).wrapping_mul(42_949_672_960_001) >> 32;
        total = total * 100_000_000 + value;
        digits = rest;
    }
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        total = total * 10 + u64::from(digit);
    }
    i64::try_from(total).ok()
}

type HeadersBuilder = MapBuilder<StringBuilder, ListBuilder<StringBuilder>>;

fn headers_builder() -> HeadersBuilder {
    let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
    MapBuilder::new(Some(names), StringBuilder::new(), ListBuilder::new(StringBuilder::new()))
}

/// Collects messages; only the wanted columns are built.
pub struct Builder {
    layout: Layout,
    stream: String,
    seq: Vec<i64>,
    nanos: Vec<i64>,
    delivered: Vec<i64>,
    consumer_seq: Vec<i64>,
    pending: Vec<i64>,
    subject: Option<StringBuilder>,
    headers: Option<HeadersBuilder>,
    data: Option<BinaryBuilder>,
    reply: Option<StringBuilder>,
    bytes: usize,
}

/// Some finished rows, with what is needed to acknowledge them.
pub struct Batch {
    pub record: RecordBatch,
    pub replies: Option<StringArray>,
    pub seqs: Int64Array,
    /// Payload, subject and header bytes.
    pub bytes: usize,
}

impl Builder {
    /// `replies`: keep the ack subjects even where no column asks for them.
    pub fn new(layout: Layout, replies: bool) -> Self {
        let wants = |column| layout.columns.contains(&column);
        Builder {
            stream: String::new(),
            seq: Vec::new(),
            nanos: Vec::new(),
            delivered: Vec::new(),
            consumer_seq: Vec::new(),
            pending: Vec::new(),
            subject: wants(Column::Subject).then(StringBuilder::new),
            headers: wants(Column::Headers).then(headers_builder),
            data: wants(Column::Data).then(BinaryBuilder::new),
            reply: (replies || wants(Column::Reply)).then(StringBuilder::new),
            bytes: 0,
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

    pub fn push(&mut self, message: &Message, meta: &Meta<'_>) -> Result<()> {
        if self.stream.is_empty() {
            meta.stream.clone_into(&mut self.stream);
        }
        self.seq.push(meta.seq);
        self.nanos.push(meta.nanos);
        self.delivered.push(meta.delivered);
        self.consumer_seq.push(meta.consumer_seq);
        self.pending.push(meta.pending);
        self.bytes += message.length;
        if let Some(subject) = &mut self.subject {
            subject.append_value(message.subject.as_str());
        }
        if let Some(data) = &mut self.data {
            data.append_value(&message.payload);
        }
        if let Some(reply) = &mut self.reply {
            reply.append_option(message.reply.as_deref());
        }
        if let Some(headers) = &mut self.headers {
            push_headers(headers, message.headers.as_ref())?;
        }
        Ok(())
    }

    /// Hands out the rows so far and starts anew.
    pub fn finish(&mut self) -> Result<Batch> {
        let rows = self.len();
        let broken = |e: arrow_schema::ArrowError| JetError::Internal(e.to_string());
        let seqs = Int64Array::from(std::mem::take(&mut self.seq));
        let replies = self.reply.as_mut().map(|b| b.finish());
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
                Column::Data => Arc::new(self.data.get_or_insert_default().finish()),
                Column::Headers => Arc::new(self.headers.get_or_insert_with(headers_builder).finish()),
                Column::Reply => Arc::new(replies.clone().unwrap_or_else(|| StringArray::new_null(rows))),
            });
        }
        let record = RecordBatch::try_new(self.layout.schema.clone(), columns).map_err(broken)?;
        let bytes = std::mem::take(&mut self.bytes);
        for unused in [&mut self.nanos, &mut self.delivered, &mut self.consumer_seq, &mut self.pending] {
            unused.clear();
        }
        Ok(Batch { record, replies, seqs, bytes })
    }

    fn timestamps(&mut self) -> ArrayRef {
        let mut values = std::mem::take(&mut self.nanos);
        if self.layout.unit == TimeUnit::Nanosecond {
            return Arc::new(TimestampNanosecondArray::from(values).with_timezone("UTC"));
        }
        values.iter_mut().for_each(|nanos| *nanos = nanos.div_euclid(1_000));
        Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC"))
    }
}

fn numbers(values: &mut Vec<i64>) -> ArrayRef {
    Arc::new(Int64Array::from(std::mem::take(values)))
}

/// A column of one string.
fn repeat(text: &str, rows: usize) -> ArrayRef {
    let offsets = OffsetBuffer::<i32>::from_repeated_length(text.len(), rows);
    Arc::new(StringArray::new(offsets, text.repeat(rows).into_bytes().into(), None))
}

/// Sorted by name: the same message gives the same row each time it is read.
fn push_headers(builder: &mut HeadersBuilder, headers: Option<&HeaderMap>) -> Result<()> {
    let broken = |e: arrow_schema::ArrowError| JetError::Internal(e.to_string());
    let Some(headers) = headers.filter(|h| !h.is_empty()) else {
        return builder.append(false).map_err(broken);
    };
    let mut sorted: Vec<(&str, &Vec<async_nats::HeaderValue>)> = headers.iter().map(|(n, v)| (n.as_ref(), v)).collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    for (name, values) in sorted {
        builder.keys().append_value(name);
        for value in values {
            builder.values().values().append_value(value.as_str());
        }
        builder.values().append(true);
    }
    builder.append(true).map_err(broken)
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

    use super::*;

    fn message(headers: Option<HeaderMap>) -> Message {
        Message {
            subject: "a.b".into(),
            reply: Some("$JS.ACK.S.c.1.7.3.1700000000123456789.9".into()),
            payload: "data".into(),
            headers,
            status: None,
            description: None,
            length: 4,
        }
    }

    #[test]
    fn both_forms_of_ack_subject() {
        let meta = Meta {
            stream: "S",
            consumer: "c",
            delivered: 1,
            seq: 7,
            consumer_seq: 3,
            nanos: 1_700_000_000_123_456_789,
            pending: 9,
        };
        assert_eq!(parse_meta("$JS.ACK.S.c.1.7.3.1700000000123456789.9"), Some(meta));
        assert_eq!(parse_meta("$JS.ACK.hub.hash.S.c.1.7.3.1700000000123456789.9.x7"), Some(meta));
        assert_eq!(parse_meta("$JS.ACK._.hash.S.c.1.7.3.1700000000123456789.9"), Some(meta));
        for junk in [
            "",
            "_INBOX.x",
            "$JS.ACK.S.c.1.7.3.9",
            "$JS.ACK.S.c.1.x.3.4.5",
            "$JS.ACK.S.c.1.99999999999999999999.3.4.5",
            "$JS.ACK.S.c.1.-7.3.4.5",
        ] {
            assert_eq!(parse_meta(junk), None, "{junk}");
        }
    }

    #[test]
    fn numbers_of_every_length() {
        for value in [0, 7, 12_345_678, 123_456_789, 99_999_999, 10_000_000_000_000_000, i64::MAX] {
            assert_eq!(number(&value.to_string()), Some(value));
        }
        assert_eq!(number("00000000000000012"), Some(12));
        // One past the largest, and every wrong byte at every place.
        assert_eq!(number("9223372036854775808"), None);
        assert_eq!(number(""), None);
        for place in 0..17 {
            for wrong in (0u8..128).filter(|b| !b.is_ascii_digit()) {
                let mut text = *b"12345678123456789";
                text[place] = wrong;
                assert_eq!(std::str::from_utf8(&text).ok().and_then(number), None, "{wrong} at {place}");
            }
        }
    }

    #[test]
    fn rows_become_columns_and_the_builder_starts_anew() -> Result<()> {
        let mut headers = HeaderMap::new();
        headers.append("B", "1");
        headers.append("A", "2");
        headers.append("B", "3");
        let mut builder = Builder::new(Layout::new(Column::DEFAULT.to_vec(), true), true);
        for message in [message(None), message(Some(headers))] {
            let reply = message.reply.clone().unwrap_or_else(|| "".into());
            builder.push(&message, &parse_meta(&reply).ok_or_else(|| JetError::Internal(reply.to_string()))?)?;
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

    #[test]
    fn unknown_and_double_columns_are_refused() {
        assert!(Column::parse(&["seq".into(), "data".into()]).is_ok_and(|c| c == [Column::Seq, Column::Data]));
        assert!(Column::parse(&["sequence".into()]).is_err_and(|e| e.to_string().contains("consumer_seq")));
        assert!(Column::parse(&["seq".into(), "seq".into()]).is_err());
        assert!(Column::parse(&[]).is_err());
    }
}
