//! Conversion of filled columns into Arrow arrays.

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray,
    GenericListArray, LargeBinaryArray, LargeStringArray, MapArray, NullArray, OffsetSizeTrait, PrimitiveArray,
    StringArray, StringViewArray, StructArray,
};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, TimeUnit};

use super::column::{Bytes, ColumnDecoder, Values};
use super::dictionary;
use super::object::Members;

impl ColumnDecoder {
    /// Returns the rows as an array and empties the column.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let length = self.len();
        let nulls = self.nulls.finish();
        let data_type = self.field.data_type();
        Ok(match &mut self.values {
            Values::Null => Arc::new(NullArray::new(length)),
            Values::Bool(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Int(values, ..) => integers(std::mem::take(values), nulls, data_type)?,
            Values::Date(values) => {
                let values = std::mem::take(values);
                match data_type {
                    DataType::Date64 => numbers::<Date64Type, _>(values, nulls, data_type, |v| v * 86_400_000)?,
                    _ => numbers::<Date32Type, _>(values, nulls, data_type, |v| v as i32)?,
                }
            }
            Values::Clock(values, _) => integers(std::mem::take(values), nulls, data_type)?,
            Values::Time(values, format) => {
                let values = std::mem::take(values);
                match format.second {
                    1 => numbers::<TimestampSecondType, _>(values, nulls, data_type, |v| v)?,
                    1_000 => numbers::<TimestampMillisecondType, _>(values, nulls, data_type, |v| v)?,
                    1_000_000 => numbers::<TimestampMicrosecondType, _>(values, nulls, data_type, |v| v)?,
                    _ => numbers::<TimestampNanosecondType, _>(values, nulls, data_type, |v| v)?,
                }
            }
            Values::Single(values) => {
                let values = std::mem::take(values);
                match data_type {
                    DataType::Float32 => numbers::<Float32Type, _>(values, nulls, data_type, |v| v)?,
                    _ => numbers::<Float16Type, _>(values, nulls, data_type, HalfFloat::from_f32)?,
                }
            }
            Values::Double(values) => numbers::<Float64Type, _>(std::mem::take(values), nulls, data_type, |v| v)?,
            Values::Decimal(values, ..) => {
                let values = std::mem::take(values);
                match data_type {
                    DataType::Decimal32(..) => numbers::<Decimal32Type, _>(values, nulls, data_type, |v| v as i32)?,
                    DataType::Decimal64(..) => numbers::<Decimal64Type, _>(values, nulls, data_type, |v| v as i64)?,
                    _ => numbers::<Decimal128Type, _>(values, nulls, data_type, |v| v)?,
                }
            }
            Values::Wide(values, ..) => numbers::<Decimal256Type, _>(std::mem::take(values), nulls, data_type, |v| v)?,
            Values::Text(values) => strings(values, nulls, data_type)?,
            Values::Binary(values) => {
                let (offsets, data) = values.finish();
                match data_type {
                    DataType::LargeBinary => Arc::new(LargeBinaryArray::try_new(large(offsets), data, nulls)?),
                    DataType::FixedSizeBinary(length) => fixed_binary(*length, &offsets, data, nulls)?,
                    DataType::BinaryView => {
                        Arc::new(BinaryViewArray::from(&BinaryArray::try_new(offsets, data, nulls)?))
                    }
                    _ => Arc::new(BinaryArray::try_new(offsets, data, nulls)?),
                }
            }
            Values::List(ends, items) => match data_type {
                DataType::LargeList(_) => list(large(offsets(ends)), items, nulls)?,
                DataType::FixedSizeList(_, size) => {
                    *ends = vec![0];
                    Arc::new(FixedSizeListArray::try_new(items.field.clone(), *size, items.finish()?, nulls)?)
                }
                _ => list(offsets(ends), items, nulls)?,
            },
            Values::Struct(members) => Arc::new(members.finish(length, nulls)?),
            Values::Map(ends, keys, items) => {
                let DataType::Map(entries, sorted) = data_type else { return Err(mismatch(data_type)) };
                let DataType::Struct(pair) = entries.data_type() else { return Err(mismatch(data_type)) };
                let columns = vec![strings(keys, None, pair[0].data_type())?, items.finish()?];
                let values = StructArray::try_new(pair.clone(), columns, None)?;
                Arc::new(MapArray::try_new(entries.clone(), offsets(ends), values, nulls, *sorted)?)
            }
            Values::Dictionary(dictionary) => dictionary.finish(nulls, data_type)?,
            Values::Symbols(codes, symbols) => {
                dictionary::dictionary::<Int32Type>(std::mem::take(codes), nulls, symbols.clone())?
            }
            Values::Entries(ends, keys, items) => {
                let DataType::Map(entries, sorted) = data_type else { return Err(mismatch(data_type)) };
                let DataType::Struct(pair) = entries.data_type() else { return Err(mismatch(data_type)) };
                let values = StructArray::try_new(pair.clone(), vec![keys.finish()?, items.finish()?], None)?;
                Arc::new(MapArray::try_new(entries.clone(), offsets(ends), values, nulls, *sorted)?)
            }
            Values::Spans(values) => {
                numbers::<IntervalMonthDayNanoType, _>(std::mem::take(values), nulls, data_type, |v| v)?
            }
        })
    }
}

impl Members {
    pub fn finish(&mut self, length: usize, nulls: Option<NullBuffer>) -> Result<StructArray, ArrowError> {
        let arrays = self.columns.iter_mut().map(ColumnDecoder::finish).collect::<Result<Vec<_>, _>>()?;
        StructArray::try_new_with_length(self.fields.clone(), arrays, nulls, length)
    }
}

impl Bytes {
    fn finish(&mut self) -> (OffsetBuffer<i32>, Buffer) {
        (offsets(&mut self.ends), std::mem::take(&mut self.data).into())
    }
}

fn offsets(ends: &mut Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(std::mem::replace(ends, vec![0]).into())
}

fn large(offsets: OffsetBuffer<i32>) -> OffsetBuffer<i64> {
    OffsetBuffer::new(offsets.iter().map(|offset| i64::from(*offset)).collect())
}

type HalfFloat = <Float16Type as ArrowPrimitiveType>::Native;

pub fn mismatch(data_type: &DataType) -> ArrowError {
    ArrowError::SchemaError(format!("a builder of another type than {data_type}"))
}

fn numbers<T: ArrowPrimitiveType, V: ArrowNativeType>(
    values: Vec<V>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
    narrow: impl Fn(V) -> T::Native,
) -> Result<ArrayRef, ArrowError> {
    // Keeps the allocation if the types have the same size.
    let values: Vec<T::Native> = values.into_iter().map(narrow).collect();
    let array = PrimitiveArray::<T>::try_new(ScalarBuffer::from(values), nulls)?;
    if !PrimitiveArray::<T>::is_compatible(data_type) {
        return Err(mismatch(data_type));
    }
    Ok(Arc::new(array.with_data_type(data_type.clone())))
}

fn integers(values: Vec<i64>, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    match data_type {
        DataType::Int8 => numbers::<Int8Type, _>(values, nulls, data_type, |v| v as i8),
        DataType::Int16 => numbers::<Int16Type, _>(values, nulls, data_type, |v| v as i16),
        DataType::Int32 => numbers::<Int32Type, _>(values, nulls, data_type, |v| v as i32),
        DataType::UInt8 => numbers::<UInt8Type, _>(values, nulls, data_type, |v| v as u8),
        DataType::UInt16 => numbers::<UInt16Type, _>(values, nulls, data_type, |v| v as u16),
        DataType::UInt32 => numbers::<UInt32Type, _>(values, nulls, data_type, |v| v as u32),
        DataType::UInt64 => numbers::<UInt64Type, _>(values, nulls, data_type, |v| v as u64),
        DataType::Time32(Second) => numbers::<Time32SecondType, _>(values, nulls, data_type, |v| v as i32),
        DataType::Time32(_) => numbers::<Time32MillisecondType, _>(values, nulls, data_type, |v| v as i32),
        DataType::Time64(Microsecond) => numbers::<Time64MicrosecondType, _>(values, nulls, data_type, |v| v),
        DataType::Time64(_) => numbers::<Time64NanosecondType, _>(values, nulls, data_type, |v| v),
        DataType::Duration(Second) => numbers::<DurationSecondType, _>(values, nulls, data_type, |v| v),
        DataType::Duration(Millisecond) => numbers::<DurationMillisecondType, _>(values, nulls, data_type, |v| v),
        DataType::Duration(Microsecond) => numbers::<DurationMicrosecondType, _>(values, nulls, data_type, |v| v),
        DataType::Duration(Nanosecond) => numbers::<DurationNanosecondType, _>(values, nulls, data_type, |v| v),
        _ => numbers::<Int64Type, _>(values, nulls, data_type, |v| v),
    }
}

fn strings(values: &mut Bytes, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let (offsets, data) = values.finish();
    Ok(match data_type {
        DataType::LargeUtf8 => Arc::new(LargeStringArray::try_new(large(offsets), data, nulls)?),
        DataType::Utf8View => Arc::new(StringViewArray::from(&StringArray::try_new(offsets, data, nulls)?)),
        _ => Arc::new(StringArray::try_new(offsets, data, nulls)?),
    })
}

/// Returns values of the same length; nulls, which have no bytes yet, get as many zeros.
fn fixed_binary(
    length: i32,
    offsets: &OffsetBuffer<i32>,
    data: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let data = match &nulls {
        None => data,
        Some(nulls) => {
            let mut whole = vec![0; nulls.len() * length.unsigned_abs() as usize];
            for (row, place) in whole.chunks_exact_mut(length.unsigned_abs() as usize).enumerate() {
                if nulls.is_valid(row) {
                    place.copy_from_slice(&data[offsets[row] as usize..offsets[row + 1] as usize]);
                }
            }
            whole.into()
        }
    };
    Ok(Arc::new(FixedSizeBinaryArray::try_new(length, data, nulls)?))
}

fn list<O: OffsetSizeTrait>(
    offsets: OffsetBuffer<O>,
    items: &mut ColumnDecoder,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let values = items.finish()?;
    Ok(Arc::new(GenericListArray::<O>::try_new(items.field.clone(), offsets, values, nulls)?))
}
