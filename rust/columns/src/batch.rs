//! Batches of finished rows.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array as _, BooleanArray, Int64Array, MapArray, RecordBatch, StringArray, UInt32Array};
use arrow_schema::ArrowError;
use arrow_select::filter::{filter, filter_record_batch};
use arrow_select::take::{take, take_record_batch};

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

    /// Splits the batch by the first token of the subjects, which is removed from them. The parts come in the order of
    /// their first rows; a subject of one token keeps it and belongs to the part "".
    pub fn by_first_token(&self) -> Result<Vec<(String, Batch)>, ArrowError> {
        let column = self.record.column_by_name("subject").and_then(|column| column.as_string_opt::<i32>());
        let subjects = column.ok_or_else(|| ArrowError::SchemaError("the batch has no column subject".into()))?;
        let mut parts: Vec<(&str, Vec<u32>)> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (row, subject) in (0..).zip(subjects.iter()) {
            let token = subject.and_then(|subject| subject.split_once('.')).map_or("", |(token, _)| token);
            let place = *places.entry(token).or_insert(parts.len());
            if place == parts.len() {
                parts.push((token, Vec::new()));
            }
            if let Some((_, rows)) = parts.get_mut(place) {
                rows.push(row);
            }
        }
        let whole = parts.len() == 1;
        parts.into_iter().map(|(token, rows)| Ok((token.to_owned(), self.part(token, rows, whole)?))).collect()
    }

    /// Returns some rows, without the first token of their subjects.
    fn part(&self, token: &str, rows: Vec<u32>, whole: bool) -> Result<Batch, ArrowError> {
        let bytes = self.bytes * rows.len() / self.seqs.len().max(1);
        let rows = UInt32Array::from(rows);
        let Batch { record, replies, seqs, .. } = match whole {
            true => self.clone(),
            false => Batch {
                record: take_record_batch(&self.record, &rows)?,
                replies: self
                    .replies
                    .as_ref()
                    .map(|all| take(all, &rows, None))
                    .transpose()?
                    .map(|own| own.as_string().clone()),
                seqs: take(&self.seqs, &rows, None)?.as_primitive().clone(),
                bytes,
            },
        };
        let schema = record.schema();
        let (index, _) = schema.column_with_name("subject").unwrap_or((0, schema.field(0)));
        let skip = if token.is_empty() { 0 } else { token.len() + 1 };
        let mut columns = record.columns().to_vec();
        if let Some(column) = columns.get_mut(index) {
            let subjects =
                column.as_string::<i32>().iter().map(|subject| subject.and_then(|subject| subject.get(skip..)));
            *column = Arc::new(subjects.collect::<StringArray>());
        }
        Ok(Batch { record: RecordBatch::try_new(schema, columns)?, replies, seqs, bytes })
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

#[cfg(test)]
mod tests {
    use arrow_array::ArrayRef;

    use super::*;

    fn batch(subjects: &[&str]) -> Batch {
        let subject: ArrayRef = Arc::new(StringArray::from(subjects.to_vec()));
        let seqs = Int64Array::from_iter_values(1..=subjects.len() as i64);
        let replies = StringArray::from_iter_values((1..=subjects.len()).map(|seq| format!("r{seq}")));
        let record = RecordBatch::try_from_iter([("subject", subject)]).unwrap();
        Batch { record, replies: Some(replies), seqs, bytes: 100 }
    }

    fn rows(batch: &Batch) -> Vec<(String, i64, String)> {
        let subjects = batch.record.column(0).as_string::<i32>();
        let replies = batch.replies.as_ref().unwrap();
        (0..batch.seqs.len())
            .map(|row| (subjects.value(row).into(), batch.seqs.value(row), replies.value(row).into()))
            .collect()
    }

    #[test]
    fn rows_are_split_by_the_first_token_and_keep_their_replies() {
        let row = |subject: &str, seq: i64| (subject.to_owned(), seq, format!("r{seq}"));
        let parts = batch(&["2.a.b", "0.a", "2.c", "alone", "0.d.e"]).by_first_token().unwrap();
        let found: Vec<_> = parts.iter().map(|(token, part)| (token.as_str(), rows(part))).collect();
        assert_eq!(
            found,
            [
                ("2", vec![row("a.b", 1), row("c", 3)]),
                ("0", vec![row("a", 2), row("d.e", 5)]),
                ("", vec![row("alone", 4)]),
            ]
        );
        assert_eq!(parts.iter().map(|(_, part)| part.bytes).collect::<Vec<_>>(), [40, 40, 20]);
        let one = batch(&["1.x", "1.y"]).slice(1, 1).by_first_token().unwrap();
        assert_eq!(rows(&one[0].1), [row("y", 2)]);
        assert!(batch(&[]).by_first_token().unwrap().is_empty());
    }
}
