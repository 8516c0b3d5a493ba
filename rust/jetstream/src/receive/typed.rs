//! Payloads as a typed column: replaces `data` by `value`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StructArray};
use arrow_schema::{ArrowError, DataType, Fields, Schema, SchemaRef};
use arrow_select::nullif::nullif;

use base::error::{JetError, Result};
use columns::batch::Batch;
use columns::binary::BinarySchema;
use columns::decode::rules::JsonRules;
use columns::decode::{DecodeError, Decoder, OnMismatch};
use registry::{Format, Registry};

pub struct Typed {
    decoder: Decoder,
    registry: Option<(Arc<Registry>, Format)>,
    /// Index of `data`.
    at: usize,
    /// Its fields become columns of their own.
    flat: bool,
    pub schema: SchemaRef,
}

impl Typed {
    /// Creates a converter for batches of the schema `input`, whose `data` is JSON with the given fields. `flat` makes
    /// each a column of its own.
    pub fn new(input: &Schema, fields: &Fields, mode: OnMismatch, rules: &JsonRules, flat: bool) -> Result<Self> {
        Self::with_decoder(input, Decoder::with_rules(fields, mode, rules), flat)
    }

    /// As `new`, for payloads of a binary format. With a registry they name their schema by its id there.
    pub fn of_binary(
        input: &Schema,
        schema: &BinarySchema,
        registry: Option<Arc<Registry>>,
        mode: OnMismatch,
        flat: bool,
    ) -> Result<Self> {
        let mut typed = Self::with_decoder(input, Decoder::of_binary(schema, registry.is_some(), mode), flat)?;
        let format = match schema {
            BinarySchema::Avro(_) => Format::Avro,
            BinarySchema::Protobuf(_) => Format::Protobuf,
        };
        typed.registry = registry.map(|registry| (registry, format));
        Ok(typed)
    }

    fn with_decoder(input: &Schema, decoder: std::result::Result<Decoder, String>, flat: bool) -> Result<Self> {
        let decoder = decoder.map_err(|reason| JetError::Value(format!("schema: {reason}")))?;
        let value = decoder.value_field();
        let DataType::Struct(fields) = value.data_type() else {
            return Err(JetError::Internal("a value that is no struct".into()));
        };
        let at = input
            .index_of("data")
            .or_else(|_| input.index_of("value"))
            .map_err(|_| JetError::Value("schema= decodes the column data, which columns= leaves out".into()))?;
        let mut output = Vec::with_capacity(input.fields().len() + 1);
        for (index, field) in input.fields().iter().enumerate() {
            if index == at {
                match flat {
                    // The fields of a malformed row are null.
                    true => output.extend(fields.iter().map(|f| Arc::new(f.as_ref().clone().with_nullable(true)))),
                    false => output.push(decoder.value_field()),
                }
                output.extend(decoder.corrupt_field().map(Arc::new));
                output.extend(decoder.error_field().map(Arc::new));
            } else {
                output.push(field.clone());
            }
        }
        if flat {
            let mut names: Vec<_> = output.iter().map(|field| field.name().as_str()).collect();
            names.sort_unstable();
            if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                let name = twice[0];
                return Err(JetError::Value(format!(
                    "flatten=True: there would be two columns {name:?}; leave one out with columns="
                )));
            }
        }
        Ok(Typed { decoder, registry: None, at, flat, schema: Arc::new(Schema::new(output)) })
    }

    /// True if `prepare` has something to fetch.
    pub fn needs_schemas(&self, batch: &Batch) -> bool {
        !self.decoder.unknown_schemas(batch.record.column(self.at).as_binary()).is_empty()
    }

    /// Fetches the schemas of a batch that are not known yet. It precedes `apply`.
    pub async fn prepare(&mut self, batch: &Batch) -> Result<()> {
        let Some((registry, format)) = &self.registry else { return Ok(()) };
        for id in self.decoder.unknown_schemas(batch.record.column(self.at).as_binary()) {
            let schema = registry.writer(id, *format).await?;
            self.decoder.add_schema(id, &schema);
        }
        Ok(())
    }

    pub fn apply(&mut self, mut batch: Batch) -> Result<Batch> {
        let broken = |err: ArrowError| JetError::Internal(err.to_string());
        let data = batch.record.remove_column(self.at);
        let decoded = self.decoder.decode(data.as_binary()).map_err(|err| match err {
            DecodeError::Malformed(bad) => {
                JetError::Decode { seq: batch.seqs.value(bad.row), column: bad.column, reason: bad.reason }
            }
            DecodeError::Internal(text) => JetError::Internal(text),
        })?;
        if let Some(keep) = decoded.keep {
            batch = batch.filter(&keep).map_err(broken)?;
        }
        let mut columns = batch.record.columns().to_vec();
        let mut new = match self.flat {
            true => flattened(decoded.value).map_err(broken)?,
            false => vec![Arc::new(decoded.value) as ArrayRef],
        };
        new.extend([decoded.corrupt, decoded.errors].into_iter().flatten().map(|texts| Arc::new(texts) as ArrayRef));
        columns.splice(self.at..self.at, new);
        batch.record = RecordBatch::try_new(self.schema.clone(), columns).map_err(broken)?;
        Ok(batch)
    }
}

/// Returns the fields as columns, null if the struct is null.
fn flattened(value: StructArray) -> Result<Vec<ArrayRef>, ArrowError> {
    let (_, columns, nulls) = value.into_parts();
    let Some(nulls) = nulls else { return Ok(columns) };
    let malformed = BooleanArray::new(!nulls.inner(), None);
    columns.iter().map(|column| nullif(column, &malformed)).collect()
}
