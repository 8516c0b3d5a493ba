//! JSON payloads as a typed column: `data` gives way to `value`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Fields, Schema, SchemaRef};

use crate::engine::columns::batch::Batch;
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
            .or_else(|_| input.index_of("value"))
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

    pub fn apply(&mut self, mut batch: Batch) -> Result<Batch> {
        let broken = |err: ArrowError| JetError::Internal(err.to_string());
        let data = batch.record.remove_column(self.at);
        let decoded = self.decoder.decode(data.as_binary()).map_err(|err| match err {
            Error::Malformed(bad) => {
                JetError::Decode { seq: batch.seqs.value(bad.row), column: bad.column, reason: bad.reason }
            }
            Error::Internal(text) => JetError::Internal(text),
        })?;
        if let Some(keep) = decoded.keep {
            batch = batch.filter(&keep).map_err(broken)?;
        }
        let mut columns = batch.record.columns().to_vec();
        let value: ArrayRef = Arc::new(decoded.value);
        let corrupt = decoded.corrupt.map(|corrupt| Arc::new(corrupt) as ArrayRef);
        columns.splice(self.at..self.at, [value].into_iter().chain(corrupt));
        batch.record = RecordBatch::try_new(self.schema.clone(), columns).map_err(broken)?;
        Ok(batch)
    }
}
