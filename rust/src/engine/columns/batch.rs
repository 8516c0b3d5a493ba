//! Finished rows.

use arrow_array::cast::AsArray;
use arrow_array::{BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow_schema::ArrowError;
use arrow_select::filter::{filter, filter_record_batch};

/// Some finished rows, with what is needed to acknowledge them.
#[derive(Clone)]
pub struct Batch {
    pub record: RecordBatch,
    pub replies: Option<StringArray>,
    pub seqs: Int64Array,
    /// Payload, subject and header bytes.
    pub bytes: usize,
}

impl Batch {
    /// Some rows of it; nothing is copied.
    pub fn slice(&self, start: usize, count: usize) -> Batch {
        Batch {
            record: self.record.slice(start, count),
            replies: self.replies.as_ref().map(|replies| replies.slice(start, count)),
            seqs: self.seqs.slice(start, count),
            bytes: self.bytes,
        }
    }

    /// The rows where the mask is true.
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
