//! Dictionary columns: the values of a batch once each, and a code per row.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{ArrayRef, DictionaryArray, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};

use super::column::ColumnDecoder;
use super::json::{Json, Parsed, Reason};

#[derive(Debug)]
pub struct DictionaryDecoder {
    pub codes: Vec<usize>,
    values: Box<ColumnDecoder>,
    /// Code of a value by its JSON. A value that is written in two ways has two codes.
    known: HashMap<Vec<u8>, usize>,
    /// Number of values that the type of the keys can number.
    capacity: usize,
}

impl DictionaryDecoder {
    /// Creates the decoder of a dictionary with these keys.
    pub fn new(keys: &DataType, values: ColumnDecoder) -> DictionaryDecoder {
        let capacity = match keys {
            DataType::Int8 => 1 << 7,
            DataType::UInt8 => 1 << 8,
            DataType::Int16 => 1 << 15,
            DataType::UInt16 => 1 << 16,
            _ => usize::MAX,
        };
        DictionaryDecoder { codes: Vec::new(), values: Box::new(values), known: HashMap::new(), capacity }
    }

    pub fn parse(&mut self, json: &mut Json<'_>) -> Parsed<()> {
        let (start, length) = (json.at, self.values.len());
        if let Err(stop) = self.values.parse(json) {
            self.values.truncate(length);
            return Err(stop);
        }
        let text = json.since(start);
        if let Some(code) = self.known.get(text) {
            self.values.truncate(length);
            self.codes.push(*code);
            return Ok(());
        }
        if length == self.capacity {
            self.values.truncate(length);
            return json.fail(Reason::Full(length), start);
        }
        self.known.insert(text.to_vec(), length);
        self.codes.push(length);
        Ok(())
    }

    pub fn finish(&mut self, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        self.known.clear();
        let (codes, values) = (std::mem::take(&mut self.codes), self.values.finish()?);
        let DataType::Dictionary(keys, _) = data_type else { return Err(super::finish::mismatch(data_type)) };
        Ok(match keys.as_ref() {
            DataType::Int8 => dictionary::<Int8Type>(codes, nulls, values)?,
            DataType::Int16 => dictionary::<Int16Type>(codes, nulls, values)?,
            DataType::Int32 => dictionary::<Int32Type>(codes, nulls, values)?,
            DataType::UInt8 => dictionary::<UInt8Type>(codes, nulls, values)?,
            DataType::UInt16 => dictionary::<UInt16Type>(codes, nulls, values)?,
            DataType::UInt32 => dictionary::<UInt32Type>(codes, nulls, values)?,
            DataType::UInt64 => dictionary::<UInt64Type>(codes, nulls, values)?,
            _ => dictionary::<Int64Type>(codes, nulls, values)?,
        })
    }
}

pub fn dictionary<K: ArrowDictionaryKeyType>(
    codes: Vec<usize>,
    nulls: Option<NullBuffer>,
    values: ArrayRef,
) -> Result<ArrayRef, ArrowError> {
    // A code is below the capacity of its type.
    let codes: Vec<K::Native> = codes.into_iter().map(K::Native::usize_as).collect();
    let keys = PrimitiveArray::<K>::try_new(ScalarBuffer::from(codes), nulls)?;
    Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
}
