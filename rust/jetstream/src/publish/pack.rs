//! Rows of a table as Arrow IPC messages: rows of one subject share a message, up to the size limit.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{LargeBinaryBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray, UInt32Array};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, Fields, Schema, SchemaRef};
use arrow_select::take::take_record_batch;

use crate::publish::content_ids::ContentIds;
use crate::publish::row_numbers::SharedRowNumbers;
use crate::publish::subject_template::Template;
use crate::publish::table::{self, position};
use base::error::{JetError, Result};
use columns::encode;

/// Number of messages whose rows are grouped by subject together.
const MESSAGES_PER_GROUPING: usize = 16;
/// Fastest level of zstd. Higher levels compress a table by a tenth more in twice the time.
const ZSTD_LEVEL: i32 = 1;

pub struct Pack {
    columns: Vec<usize>,
    schema: SchemaRef,
    subject: Template,
    content_ids: Option<ContentIds>,
    options: IpcWriteOptions,
    /// Maximum rows and bytes of a message.
    rows: usize,
    most_bytes: usize,
    /// Number of rows of the last messages.
    fits: usize,
    /// The rows of each message.
    pub numbers: SharedRowNumbers,
}

/// Messages of some rows, as columns.
#[derive(Default)]
struct PackedMessages {
    payloads: LargeBinaryBuilder,
    subjects: StringBuilder,
    ids: StringBuilder,
    reasons: StringBuilder,
}

impl PackedMessages {
    fn refuse(&mut self, reason: &str) {
        self.payloads.append_null();
        self.subjects.append_null();
        self.ids.append_null();
        self.reasons.append_value(reason);
    }
}

impl Pack {
    /// Creates a packer. `compression` is `zstd`, `lz4` or none; `msg_id` is `content` or none.
    pub fn new(
        fields: &Fields,
        columns: Option<&[String]>,
        subject: Option<&str>,
        msg_id: Option<&str>,
        compression: Option<&str>,
        rows: usize,
        most_bytes: usize,
    ) -> Result<Pack> {
        let columns = table::positions(fields, columns)?;
        let schema = Schema::new(columns.iter().map(|column| fields[*column].clone()).collect::<Fields>());
        let subject = table::subject(fields, subject)?;
        for column in subject.columns() {
            encode::check_text(&fields[column]).map_err(JetError::Type)?;
        }
        let content_ids = match msg_id {
            None => None,
            Some("content") => Some(ContentIds::new(b"")),
            Some(name) => {
                position(fields, "msg_id", name)?;
                return Err(JetError::Value("msg_id: a message has many rows, so it is \"content\" or None".into()));
            }
        };
        let wrong = |err: ArrowError| JetError::Value(format!("compression: {err}"));
        let options = IpcWriteOptions::default();
        let options = match compression {
            None => options,
            Some("lz4") => options.try_with_compression(Some(CompressionType::LZ4_FRAME)).map_err(wrong)?,
            Some("zstd") => options
                .try_with_compression(Some(CompressionType::ZSTD))
                .and_then(|options| options.try_with_compression_level(Some(ZSTD_LEVEL)))
                .map_err(wrong)?,
            Some(other) => {
                return Err(JetError::Value(format!("compression must be 'zstd', 'lz4' or None, not {other:?}")));
            }
        };
        if rows == 0 {
            return Err(JetError::Value("rows_per_message must be 1 or more".into()));
        }
        let schema = Arc::new(schema);
        // Types that cannot be written raise an error before the first message.
        let empty = RecordBatch::new_empty(schema.clone());
        let pack = Pack {
            columns,
            schema,
            subject,
            content_ids,
            options,
            rows,
            most_bytes,
            fits: rows,
            numbers: SharedRowNumbers::default(),
        };
        pack.packed(&empty).map_err(|err| JetError::Type(format!("a column cannot be in an Arrow message: {err}")))?;
        Ok(pack)
    }

    /// Returns the number of rows to pass at once.
    pub fn window(&self) -> usize {
        if self.subject.columns().next().is_none() {
            self.rows
        } else {
            self.rows.saturating_mul(MESSAGES_PER_GROUPING)
        }
    }

    /// Packs rows into messages. The first row is row `at` of the table.
    pub fn messages(&mut self, table: &StructArray, at: usize) -> std::result::Result<StructArray, ArrowError> {
        let columns = self.columns.iter().map(|column| table.column(*column).clone()).collect();
        let rows = RecordBatch::try_new(self.schema.clone(), columns)?;
        let mut messages = PackedMessages::default();
        if self.subject.columns().next().is_none() {
            let one = self.subject.fill(&table.slice(0, table.len().min(1)), &mut Vec::new())?;
            if !one.is_empty() {
                self.append(&rows, one.value(0), &|row| at + row, &mut messages)?;
            }
        } else {
            let mut faults = Vec::new();
            let subjects = self.subject.fill(table, &mut faults)?;
            for (row, fault) in faults {
                self.numbers.add([(at + row) as u64]);
                messages.refuse(&fault.to_string());
            }
            // In the order of the first row of each subject.
            let (mut groups, mut of_subject): (Vec<(&str, Vec<u32>)>, _) = (Vec::new(), HashMap::new());
            for (row, subject) in subjects.iter().enumerate() {
                let Some(subject) = subject else { continue };
                let group = *of_subject.entry(subject).or_insert_with(|| {
                    groups.push((subject, Vec::new()));
                    groups.len() - 1
                });
                groups[group].1.push(row as u32);
            }
            for (subject, wanted) in groups {
                let wanted = UInt32Array::from(wanted);
                let rows =
                    if wanted.len() == rows.num_rows() { rows.clone() } else { take_record_batch(&rows, &wanted)? };
                self.append(&rows, subject, &|row| at + wanted.value(row) as usize, &mut messages)?;
            }
        }
        let PackedMessages { mut payloads, mut subjects, mut ids, mut reasons } = messages;
        let columns: [ArrayRef; 4] = [
            Arc::new(payloads.finish()),
            Arc::new(subjects.finish()),
            Arc::new(ids.finish()),
            Arc::new(reasons.finish()),
        ];
        StructArray::try_new(table::message_fields(), columns.to_vec(), None)
    }

    /// Appends rows of one subject, in as few messages as possible.
    fn append(
        &mut self,
        rows: &RecordBatch,
        subject: &str,
        number: &dyn Fn(usize) -> usize,
        messages: &mut PackedMessages,
    ) -> std::result::Result<(), ArrowError> {
        let mut start = 0;
        while start < rows.num_rows() {
            let count = self.rows.min(self.fits).min(rows.num_rows() - start);
            let payload = self.packed(&rows.slice(start, count))?;
            if payload.len() > self.most_bytes {
                if count > 1 {
                    self.fits = count / 2;
                    continue;
                }
                let (size, most) = (payload.len(), self.most_bytes);
                self.numbers.add([number(start) as u64]);
                messages.refuse(&format!("{size} bytes as an Arrow message, which may have {most}"));
            } else {
                let id = self.content_ids.as_mut().map(|content| {
                    let mut id = String::new();
                    content.write(subject, &mut Vec::new(), &payload, &mut id);
                    id
                });
                self.numbers.add((start..start + count).map(|row| number(row) as u64));
                messages.payloads.append_value(&payload);
                messages.subjects.append_value(subject);
                messages.ids.append_option(id);
                messages.reasons.append_null();
                // Grows again if a message of twice the rows would fit.
                if count == self.fits && payload.len() < self.most_bytes / 3 {
                    self.fits = (self.fits * 2).min(self.rows);
                }
            }
            start += count;
        }
        Ok(())
    }

    fn packed(&self, rows: &RecordBatch) -> std::result::Result<Vec<u8>, ArrowError> {
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &self.schema, self.options.clone())?;
        writer.write(rows)?;
        writer.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::{Int64Array, StringArray};
    use arrow_schema::{DataType, Field};

    use super::*;

    fn table(rows: i64) -> StructArray {
        let fields = vec![Field::new("region", DataType::Utf8, true), Field::new("id", DataType::Int64, true)];
        let regions: StringArray =
            (0..rows).map(|id| (id % 4 < 3).then(|| ["eu", "us", "eu"][id as usize % 4])).collect();
        let ids = Int64Array::from_iter_values(0..rows);
        StructArray::new(fields.into(), vec![Arc::new(regions), Arc::new(ids)], None)
    }

    fn pack(subject: &str, rows: usize, most: usize) -> Pack {
        Pack::new(table(0).fields(), None, Some(subject), Some("content"), Some("zstd"), rows, most).unwrap()
    }

    #[test]
    fn rows_of_one_subject_share_a_message() {
        let mut pack = pack("a.{region}", 10, 1 << 20);
        let messages = pack.messages(&table(40), 100).unwrap();
        let subjects: Vec<_> = messages.column(1).as_string::<i32>().iter().flatten().collect();
        assert_eq!(subjects, ["a.eu", "a.eu", "a.us"]);
        let reasons: Vec<_> = messages.column(3).as_string::<i32>().iter().flatten().collect();
        assert_eq!(reasons.len(), 10);
        assert!(reasons[0].contains("\"region\""), "{reasons:?}");
        // The ten rows without a subject come first.
        assert_eq!((pack.numbers.of(0), pack.numbers.of(9)), (vec![103], vec![139]));
        assert_eq!(pack.numbers.of(10), [100, 102, 104, 106, 108, 110, 112, 114, 116, 118]);
        assert_eq!(pack.numbers.of(12), (101..140).step_by(4).collect::<Vec<_>>());
    }

    #[test]
    fn messages_stay_below_the_size_limit() {
        let messages = pack("a", 10_000, 4000).messages(&table(10_000), 0).unwrap();
        let payloads = messages.column(0).as_binary::<i64>();
        assert!(payloads.iter().flatten().all(|payload| payload.len() <= 4000));
        assert!((4..200).contains(&payloads.len()), "{}", payloads.len());
        let none = pack("a", 10, 50).messages(&table(3), 0).unwrap();
        assert_eq!((none.len(), none.column(0).null_count()), (3, 3));
    }
}
