//! Batches of finished rows.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::{Array as _, BooleanArray, Int64Array, MapArray, RecordBatch, StringArray};
use arrow_schema::ArrowError;
use arrow_select::filter::{filter, filter_record_batch};

/// Values by header name.
type HeaderValues = BTreeMap<String, Vec<String>>;

/// A batch of finished rows, with the reply subjects for their acks.
#[derive(Clone)]
pub struct Batch {
    pub record: RecordBatch,
    pub replies: Option<StringArray>,
    pub seqs: Int64Array,
    /// Bytes of payloads, subjects and headers.
    pub bytes: usize,
}

impl Batch {
    /// Returns a range of rows without a copy.
    pub fn slice(&self, start: usize, count: usize) -> Batch {
        Batch {
            record: self.record.slice(start, count),
            replies: self.replies.as_ref().map(|replies| replies.slice(start, count)),
            seqs: self.seqs.slice(start, count),
            bytes: self.bytes,
        }
    }

    /// Returns subject, payload and headers of a row; `None` if one of these columns is absent.
    pub fn whole_message(&self, row: usize) -> Option<(&str, &[u8], HeaderValues)> {
        let column = |name| self.record.column_by_name(name);
        let subject = column("subject")?.as_string_opt::<i32>()?.value(row);
        let data = column("data")?.as_binary_opt::<i32>()?.value(row);
        Some((subject, data, headers(column("headers")?.as_map_opt()?, row)))
    }

    /// Returns the rows for which the mask is true.
    pub fn filter(&self, mask: &BooleanArray) -> Result<Batch, ArrowError> {
        let replies = self.replies.as_ref().map(|replies| filter(replies, mask)).transpose()?;
        Ok(Batch {
            record: filter_record_batch(&self.record, mask)?,
            replies: replies.map(|replies| replies.as_string().clone()),
            seqs: filter(&self.seqs, mask)?.as_primitive().clone(),
            bytes: self.bytes,
        })
    }
}

/// Returns the values of a row by header name; empty if it has no headers.
pub fn headers(column: &MapArray, row: usize) -> HeaderValues {
    let mut headers = HeaderValues::new();
    if column.is_valid(row) {
        let entries = column.value(row);
        let (names, values) = (entries.column(0).as_string::<i32>(), entries.column(1).as_list::<i32>());
        for i in 0..entries.len() {
            let values = values.value(i);
            let texts = values.as_string::<i32>().iter().flatten().map(str::to_owned);
            headers.entry(names.value(i).to_owned()).or_default().extend(texts);
        }
    }
    headers
}
