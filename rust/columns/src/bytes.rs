//! Builder of binary and string columns.
//!
//! The builders of arrow copy a large column to grow it, so it is twice in memory. This builder reserves memory for the
//! expected size instead, see [`column_buffer`](crate::column_buffer).

use std::sync::Weak;

use arrow_array::{BinaryArray, StringArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;

use crate::column_buffer::{ColumnBuffer, SparePages};

/// Builder of one binary or string column.
pub struct BytesBuilder {
    /// Start of each value, and the end of the last.
    offsets: Vec<i32>,
    values: ColumnBuffer,
    nulls: NullBufferBuilder,
    /// Expected number of rows; 0 if unknown.
    wanted: usize,
    spare: Weak<SparePages>,
}

/// Upper limit of a reservation. Arrow's offsets have 31 bits, and a batch ends at half of that.
const MAX_COLUMN_BYTES: usize = 5 << 28;

impl Default for BytesBuilder {
    fn default() -> Self {
        let (offsets, nulls) = (vec![0], NullBufferBuilder::new(0));
        BytesBuilder { offsets, values: ColumnBuffer::default(), nulls, wanted: 0, spare: Weak::new() }
    }
}

impl BytesBuilder {
    /// Appends a value. The caller keeps the sum of all values below 2 GiB.
    pub fn append(&mut self, value: Option<&[u8]>) {
        let (value_bytes, rows, so_far) = (value.unwrap_or_default(), self.offsets.len(), self.values.len());
        let (wanted, more) = (self.wanted, value_bytes.len());
        // Bytes of all expected rows, if they have the mean size of the rows so far.
        let enough = || (so_far.saturating_add(more) / rows).saturating_mul(wanted).min(MAX_COLUMN_BYTES);
        self.values.extend(value_bytes, &self.spare, enough);
        self.offsets.push(self.values.len() as i32);
        self.nulls.append(value.is_some());
    }

    /// Reserves offsets for `rows` more rows.
    pub fn reserve_rows(&mut self, rows: usize) {
        self.offsets.reserve(rows);
    }

    /// Reserves memory for `bytes` bytes in about `wanted` rows. Has an effect only before the first value.
    pub fn reserve(&mut self, wanted: usize, bytes: usize, spare: Weak<SparePages>) {
        if self.values.is_empty() {
            self.values = ColumnBuffer::expecting(bytes, &spare);
        }
        (self.wanted, self.spare) = (wanted, spare);
    }

    /// Returns the bytes of all values.
    pub fn bytes(&self) -> usize {
        self.values.len()
    }

    /// Iterates over the values; a null yields an empty one.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let values = self.values.as_ref();
        self.offsets.windows(2).filter_map(|ends| values.get(ends[0] as usize..ends[1] as usize))
    }

    /// Returns the values as a binary array and empties the builder.
    pub fn finish_binary(&mut self) -> Result<BinaryArray, ArrowError> {
        let BytesBuilder { offsets, values, mut nulls, .. } = std::mem::take(self);
        BinaryArray::try_new(ends(offsets), values.finish(), nulls.finish())
    }

    /// Returns the values as a string array and empties the builder. Fails if they are not UTF-8.
    pub fn finish_texts(&mut self) -> Result<StringArray, ArrowError> {
        let BytesBuilder { offsets, values, mut nulls, .. } = std::mem::take(self);
        StringArray::try_new(ends(offsets), values.finish(), nulls.finish())
    }
}

fn ends(mut offsets: Vec<i32>) -> OffsetBuffer<i32> {
    offsets.shrink_to_fit();
    OffsetBuffer::new(ScalarBuffer::from(offsets))
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;

    use super::*;

    #[test]
    fn finish_returns_the_values_and_empties_the_builder() -> Result<(), ArrowError> {
        let mut builder = BytesBuilder::default();
        for value in [Some(&b"one"[..]), None, Some(b""), Some(b"two")] {
            builder.append(value);
        }
        assert_eq!(builder.iter().collect::<Vec<_>>(), [&b"one"[..], b"", b"", b"two"]);
        let texts = builder.finish_texts()?;
        assert_eq!(texts.iter().collect::<Vec<_>>(), [Some("one"), None, Some(""), Some("two")]);
        assert_eq!(builder.finish_texts()?.len(), 0);
        builder.append(Some(b"\xff"));
        assert!(builder.finish_texts().is_err());
        builder.append(Some(b"\xff"));
        assert_eq!(builder.finish_binary()?.value(0), b"\xff");
        Ok(())
    }
}
