//! Decoder of payloads that are Arrow IPC streams. Each message yields as many rows as it holds.
//!
//! Payloads are untrusted. Their lengths are checked before anything is decoded, so a few bytes cannot allocate
//! gigabytes. A panic in arrow's reader is a malformed message.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, UInt32Array, new_null_array};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};
use arrow_select::concat::concat;
use arrow_select::take::take;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

mod check;

use check::check;

use super::batch::Batch;
use super::decode::OnMismatch;
use base::error::{JetError, Result};
use base::panics::untrusted;

/// Bytes of rows at which a batch is complete.
const BATCH_BYTES: usize = 64 << 20;

/// Decoder of the messages of a read.
pub struct Unpack {
    /// The columns of the table, as in the batches.
    fields: Fields,
    mode: OnMismatch,
    batch_rows: usize,
    /// Position of the column `data`.
    at: usize,
    pub schema: SchemaRef,
    /// The batch of messages that is being decoded, and the index of the next message.
    messages: Option<(Batch, usize)>,
    done: VecDeque<Batch>,
}

/// The rows of one message.
struct UnpackedRows {
    message: u32,
    rows: usize,
    columns: Vec<ArrayRef>,
    /// Payload and reason, if the message is malformed.
    corrupt: Option<(String, String)>,
}

impl Unpack {
    /// Creates a decoder for messages of the schema `input`, whose column `data` is replaced by these columns.
    pub fn new(input: &Schema, fields: &Fields, mode: OnMismatch, batch_rows: usize) -> Result<Self> {
        let at = input
            .index_of("data")
            .map_err(|_| JetError::Value("format=\"arrow\" unpacks the column data, which is not there".into()))?;
        let permissive = mode == OnMismatch::Permissive;
        let fields: Fields = match permissive {
            // The columns of a malformed message are null.
            true => fields.iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true))).collect(),
            false => fields.clone(),
        };
        let mut output: Vec<_> = input.fields().iter().cloned().collect();
        let texts = ["_corrupt_record", "_error"].map(|name| Arc::new(Field::new(name, DataType::Utf8, true)));
        let own = fields.iter().cloned().chain(texts.into_iter().filter(|_| permissive));
        output.splice(at..=at, own);
        let mut names: Vec<_> = output.iter().map(|field| field.name().as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(JetError::Value(format!(
                "format=\"arrow\": there would be two columns {:?}; leave one out with columns= or schema=",
                twice[0]
            )));
        }
        let schema = Arc::new(Schema::new(output));
        Ok(Unpack { fields, mode, batch_rows, at, schema, messages: None, done: VecDeque::new() })
    }

    /// Adds messages. `rows` returns their rows.
    pub fn add_messages(&mut self, messages: Batch) {
        self.messages = Some((messages, 0));
    }

    /// Returns some rows; `None` at the end.
    pub fn rows(&mut self) -> Result<Option<Batch>> {
        while self.done.is_empty() {
            let Some((messages, start)) = self.messages.take() else { return Ok(None) };
            let (mut parts, mut rows, mut bytes, mut at) = (Vec::new(), 0, 0, start);
            let data = messages.record.column(self.at).as_binary::<i32>();
            while at < data.len() && rows < self.batch_rows && bytes < BATCH_BYTES {
                if let Some(part) = self.part(&messages, data.value(at), at)? {
                    rows += part.rows;
                    bytes += part.columns.iter().map(|column| column.get_buffer_memory_size()).sum::<usize>();
                    parts.push(part);
                }
                at += 1;
            }
            match self.joined(&messages, &parts) {
                Ok(batch) => self.done.extend(batch),
                // The columns cannot be concatenated, for example because of dictionaries with too many values.
                Err(_) => {
                    for part in parts.chunks(1) {
                        let batch = self.joined(&messages, part);
                        self.done.extend(batch.map_err(|err| JetError::Internal(err.to_string()))?);
                    }
                }
            }
            if at < messages.record.num_rows() {
                self.messages = Some((messages, at));
            }
        }
        Ok(self.done.pop_front())
    }

    /// Decodes one message; `None` if it is dropped.
    fn part(&self, messages: &Batch, payload: &[u8], at: usize) -> Result<Option<UnpackedRows>> {
        let reason = match decoded(payload, &self.fields) {
            Ok((columns, rows)) => return Ok(Some(UnpackedRows { message: at as u32, rows, columns, corrupt: None })),
            Err(reason) => reason,
        };
        match self.mode {
            OnMismatch::DropMalformed => Ok(None),
            OnMismatch::FailFast => {
                Err(JetError::Decode { seq: messages.seqs.value(at), column: String::new(), reason })
            }
            OnMismatch::Permissive => {
                let columns = self.fields.iter().map(|field| new_null_array(field.data_type(), 1)).collect();
                let text = std::str::from_utf8(payload).map_or_else(|_| BASE64_STANDARD.encode(payload), str::to_owned);
                Ok(Some(UnpackedRows { message: at as u32, rows: 1, columns, corrupt: Some((text, reason)) }))
            }
        }
    }

    fn joined(&self, messages: &Batch, parts: &[UnpackedRows]) -> std::result::Result<Option<Batch>, ArrowError> {
        let rows: usize = parts.iter().map(|part| part.rows).sum();
        if rows == 0 {
            return Ok(None);
        }
        let of_message: UInt32Array =
            parts.iter().flat_map(|part| std::iter::repeat_n(part.message, part.rows)).collect::<Vec<_>>().into();
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for (index, column) in messages.record.columns().iter().enumerate() {
            if index != self.at {
                columns.push(take(column, &of_message, None)?);
                continue;
            }
            for field in 0..self.fields.len() {
                let pieces: Vec<&dyn Array> = parts.iter().map(|part| part.columns[field].as_ref()).collect();
                columns.push(match pieces[..] {
                    [_] => parts[0].columns[field].clone(),
                    _ => concat(&pieces)?,
                });
            }
            if self.mode == OnMismatch::Permissive {
                columns.push(texts(parts, rows, |(payload, _)| payload));
                columns.push(texts(parts, rows, |(_, reason)| reason));
            }
        }
        let record = RecordBatch::try_new(self.schema.clone(), columns)?;
        let seqs = take(&messages.seqs, &of_message, None)?.as_primitive().clone();
        Ok(Some(Batch { bytes: record.get_array_memory_size(), record, replies: None, seqs }))
    }
}

/// Returns a column of texts of malformed messages, null in all other rows.
fn texts(parts: &[UnpackedRows], rows: usize, which: impl Fn(&(String, String)) -> &String) -> ArrayRef {
    if parts.iter().all(|part| part.corrupt.is_none()) {
        return Arc::new(StringArray::new_null(rows));
    }
    let texts = parts.iter().flat_map(|part| {
        let text = part.corrupt.as_ref().map(&which).map(String::as_str);
        std::iter::repeat_n(text, part.rows)
    });
    Arc::new(texts.collect::<StringArray>())
}

/// Returns the schema of a payload, or the reason why it has none.
pub fn schema_of(payload: &[u8]) -> std::result::Result<Schema, String> {
    check(payload)?;
    untrusted(|| {
        let mut decoder = StreamDecoder::new();
        decoder.decode(&mut Buffer::from(payload)).map_err(|err| err.to_string())?;
        decoder.schema().map(|schema| schema.as_ref().clone()).ok_or_else(|| "not an Arrow stream: no schema".into())
    })
    .unwrap_or_else(|| Err("not an Arrow stream".into()))
}

/// Returns the columns of these fields, by name, and the number of rows; or the reason of a malformed payload.
fn decoded(payload: &[u8], fields: &Fields) -> std::result::Result<(Vec<ArrayRef>, usize), String> {
    check(payload)?;
    let batches = untrusted(|| read(payload)).unwrap_or_else(|| Err("not an Arrow stream".into()))?;
    let Some(first) = batches.first() else { return Ok((fields.iter().map(empty).collect(), 0)) };
    let schema = first.schema();
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let (index, found) =
            schema.column_with_name(field.name()).ok_or_else(|| format!("no column {:?}", field.name()))?;
        if found.data_type() != field.data_type() {
            let (expected, found) = (field.data_type(), found.data_type());
            return Err(format!("column {:?} is of type {found}, not {expected}", field.name()));
        }
        let pieces: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(index).as_ref()).collect();
        let column = match pieces[..] {
            [_] => first.column(index).clone(),
            _ => concat(&pieces).map_err(|err| err.to_string())?,
        };
        if !field.is_nullable() && column.null_count() > 0 {
            return Err(format!("column {:?} has nulls, and the schema says not nullable", field.name()));
        }
        columns.push(column);
    }
    Ok((columns, batches.iter().map(RecordBatch::num_rows).sum()))
}

fn empty(field: &Arc<Field>) -> ArrayRef {
    arrow_array::new_empty_array(field.data_type())
}

fn read(payload: &[u8]) -> std::result::Result<Vec<RecordBatch>, String> {
    let mut decoder = StreamDecoder::new();
    let mut rest = Buffer::from(payload);
    let mut batches = Vec::new();
    while !rest.is_empty() {
        batches.extend(decoder.decode(&mut rest).map_err(|err| err.to_string())?);
    }
    decoder.finish().map_err(|err| err.to_string())?;
    if decoder.schema().is_none() {
        return Err("not an Arrow stream: no schema".into());
    }
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use arrow_array::{BinaryArray, Int64Array};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};

    use super::*;

    fn table(rows: i64) -> RecordBatch {
        let schema =
            Schema::new(vec![Field::new("id", DataType::Int64, true), Field::new("name", DataType::Utf8, true)]);
        let names: StringArray = (0..rows).map(|id| (id % 3 > 0).then(|| format!("name {id}"))).collect();
        let ids = Int64Array::from_iter_values(0..rows);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(names)]).unwrap()
    }

    fn packed(batch: &RecordBatch, codec: Option<CompressionType>) -> Vec<u8> {
        let options = IpcWriteOptions::default().try_with_compression(codec).unwrap();
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(batch).unwrap();
        writer.into_inner().unwrap()
    }

    fn messages(payloads: &[Vec<u8>]) -> Batch {
        let schema =
            Schema::new(vec![Field::new("seq", DataType::Int64, false), Field::new("data", DataType::Binary, false)]);
        let seqs = Int64Array::from_iter_values(1..=payloads.len() as i64);
        let data = BinaryArray::from_iter_values(payloads);
        let record = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(seqs.clone()), Arc::new(data)]).unwrap();
        Batch { record, replies: None, seqs, bytes: 0 }
    }

    fn unpacked(payloads: &[Vec<u8>], mode: OnMismatch, batch_rows: usize) -> Result<Vec<Batch>> {
        let input = messages(payloads);
        let mut unpack = Unpack::new(input.record.schema_ref(), table(0).schema().fields(), mode, batch_rows)?;
        unpack.add_messages(input);
        std::iter::from_fn(|| unpack.rows().transpose()).collect()
    }

    #[test]
    fn rows_have_the_columns_of_their_messages() {
        for codec in [None, Some(CompressionType::ZSTD), Some(CompressionType::LZ4_FRAME)] {
            let payloads = [packed(&table(5), codec), packed(&table(0), codec), packed(&table(2000), codec)];
            let batches = unpacked(&payloads, OnMismatch::FailFast, 3).unwrap();
            let rows: Vec<_> = batches.iter().map(|batch| batch.record.num_rows()).collect();
            assert_eq!(rows, [5, 2000]);
            assert_eq!(batches[1].record.project(&[1, 2]).unwrap(), table(2000));
            assert!(batches[1].seqs.iter().all(|seq| seq == Some(3)));
            let whole = unpacked(&payloads, OnMismatch::FailFast, 65536).unwrap();
            assert_eq!(whole.len(), 1);
            assert_eq!(whole[0].record.num_rows(), 2005);
        }
    }

    #[test]
    fn malformed_message_is_handled_by_every_mode() {
        let good = packed(&table(2), None);
        let other = packed(&table(2).project(&[1]).unwrap(), None);
        let payloads = [good.clone(), b"{}".to_vec(), other, good[..good.len() - 20].to_vec(), vec![]];
        let batches = unpacked(&payloads, OnMismatch::Permissive, 65536).unwrap();
        let record = &batches[0].record;
        assert_eq!(record.num_rows(), 6);
        let reasons: Vec<_> = record.column_by_name("_error").unwrap().as_string::<i32>().iter().flatten().collect();
        assert_eq!(reasons[..2], ["not an Arrow stream", "no column \"id\""]);
        assert_eq!(record.column_by_name("_corrupt_record").unwrap().as_string::<i32>().value(2), "{}");
        assert_eq!(unpacked(&payloads, OnMismatch::DropMalformed, 65536).unwrap()[0].record.num_rows(), 2);
        assert!(matches!(unpacked(&payloads, OnMismatch::FailFast, 9), Err(JetError::Decode { seq: 2, .. })));
    }

    #[test]
    fn decompression_bomb_is_malformed() {
        let zeros = Int64Array::from(vec![0; 200_000]);
        let schema = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(zeros)]).unwrap();
        for codec in [CompressionType::ZSTD, CompressionType::LZ4_FRAME] {
            let mut payload = packed(&batch, Some(codec));
            let said = 1_600_000_i64.to_le_bytes();
            let at = payload.windows(8).position(|bytes| bytes == said).unwrap();
            assert!(check(&payload).is_ok());
            payload[at..at + 8].copy_from_slice(&(1_i64 << 40).to_le_bytes());
            assert!(check(&payload).is_err());
            payload[at..at + 8].copy_from_slice(&100_i64.to_le_bytes());
            assert!(decoded(&payload, batch.schema().fields()).is_err());
        }
    }

    #[test]
    fn changed_bytes_of_a_payload_do_not_panic() {
        for codec in [None, Some(CompressionType::ZSTD), Some(CompressionType::LZ4_FRAME)] {
            let payload = packed(&table(50), codec);
            let mut state = 1_u32;
            for round in 0..800 {
                let mut broken = payload.clone();
                for _ in 0..=round % 3 {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let at = (state >> 8) as usize % broken.len();
                    broken[at] = [0, 0xff, 0x7f, 0x80, state as u8][(state >> 4) as usize % 5];
                }
                let _either = decoded(&broken, table(0).schema().fields());
                let _either = schema_of(&broken);
            }
        }
    }
}
