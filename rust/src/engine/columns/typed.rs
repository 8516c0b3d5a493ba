//! JSON payloads as a typed column: `data` gives way to `value`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{ArrowError, Fields, Schema, SchemaRef};
use arrow_select::filter::filter;

use crate::engine::columns::builder::Batch;
use crate::engine::columns::decode::{Decoder, Error, Mode};
use crate::error::{JetError, Result};

pub struct Typed {
    decoder: Decoder,
    /// Where `data` is.
    at: usize,
    pub schema: SchemaRef,
}

impl Typed {
    /// For batches of the schema `input`, whose `data` has the given fields.
    pub fn new(input: &Schema, fields: &Fields, mode: Mode) -> Result<Self> {
        let decoder = Decoder::new(fields, mode).map_err(|reason| JetError::Value(format!("schema: {reason}")))?;
        let at = input
            .index_of("data")
            .map_err(|_| JetError::Value("schema= decodes the column data, which columns= leaves out".into()))?;
        let mut output = Vec::with_capacity(input.fields().len() + 1);
        for (index, field) in input.fields().iter().enumerate() {
            if index == at {
                output.push(decoder.value_field());
                output.extend(decoder.corrupt_field().map(Arc::new));
            } else {
                output.push(field.clone());
            }
        }
        Ok(Typed { decoder, at, schema: Arc::new(Schema::new(output)) })
    }

    pub fn apply(&mut self, batch: Batch) -> Result<Batch> {
        let broken = |err: ArrowError| JetError::Internal(err.to_string());
        let decoded = self.decoder.decode(batch.record.column(self.at).as_binary()).map_err(|err| match err {
            Error::Malformed(bad) => {
                JetError::Decode { seq: batch.seqs.value(bad.row), column: bad.column, reason: bad.reason }
            }
            Error::Internal(text) => JetError::Internal(text),
        })?;
        let keep = decoded.keep.as_ref();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for (index, column) in batch.record.columns().iter().enumerate() {
            if index == self.at {
                columns.push(Arc::new(decoded.value.clone()));
                columns.extend(decoded.corrupt.clone().map(|corrupt| Arc::new(corrupt) as ArrayRef));
            } else {
                columns.push(kept(column, keep).map_err(broken)?);
            }
        }
        let seqs: ArrayRef = Arc::new(batch.seqs);
        let seqs = kept(&seqs, keep).map_err(broken)?;
        let replies = match batch.replies {
            Some(replies) => Some(kept(&(Arc::new(replies) as ArrayRef), keep).map_err(broken)?),
            None => None,
        };
        Ok(Batch {
            record: RecordBatch::try_new(self.schema.clone(), columns).map_err(broken)?,
            replies: replies.map(|replies| replies.as_string().clone()),
            seqs: seqs.as_primitive().clone(),
            bytes: batch.bytes,
        })
    }
}

fn kept(column: &ArrayRef, keep: Option<&BooleanArray>) -> Result<ArrayRef, ArrowError> {
    match keep {
        Some(keep) if keep.true_count() < column.len() => filter(column, keep),
        _ => Ok(column.clone()),
    }
}
