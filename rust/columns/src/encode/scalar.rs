//! Encoders of numbers, strings and bytes.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray};
use arrow_schema::{ArrowError, DataType};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::{Cells, EncodeFault, text, unexpected};

/// A column of type null.
pub struct Nothing;

impl Cells for Nothing {
    fn is_null(&self, _row: usize) -> bool {
        true
    }

    fn write(&self, _row: usize, out: &mut Vec<u8>) -> Result<(), EncodeFault> {
        out.extend_from_slice(b"null");
        Ok(())
    }
}

/// An array with a function that writes one cell of it.
pub struct By<A, F>(pub A, pub F);

impl<A, F> Cells for By<A, F>
where
    A: Array,
    F: Fn(&A, usize, &mut Vec<u8>) -> Result<(), EncodeFault> + Send + Sync,
{
    #[inline]
    fn is_null(&self, row: usize) -> bool {
        self.0.is_null(row)
    }

    #[inline]
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), EncodeFault> {
        (self.1)(&self.0, row, out)
    }
}

fn integers<T: ArrowPrimitiveType<Native: itoa::Integer>>(array: &ArrayRef) -> Box<dyn Cells> {
    Box::new(By(array.as_primitive::<T>().clone(), |array: &PrimitiveArray<T>, row, out: &mut Vec<u8>| {
        out.extend_from_slice(itoa::Buffer::new().format(array.value(row)).as_bytes());
        Ok(())
    }))
}

fn float(value: impl zmij::Float, finite: bool, out: &mut Vec<u8>) -> Result<(), EncodeFault> {
    if !finite {
        return Err(EncodeFault::new("NaN and infinities cannot be encoded as JSON"));
    }
    out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    Ok(())
}

macro_rules! floats {
    ($array:expr, $type:ty, $to:expr) => {
        Box::new(By($array.as_primitive::<$type>().clone(), |array: &PrimitiveArray<$type>, row, out: &mut Vec<u8>| {
            let value = $to(array.value(row));
            float(value, value.is_finite(), out)
        }))
    };
}

fn decimals<T: DecimalType>(array: &ArrayRef, scale: i8) -> Box<dyn Cells>
where
    T::Native: std::fmt::Display,
{
    Box::new(By(array.as_primitive::<T>().clone(), move |array: &PrimitiveArray<T>, row, out: &mut Vec<u8>| {
        decimal(array.value(row), scale, out);
        Ok(())
    }))
}

/// Writes an unscaled value with its decimal point.
fn decimal(value: impl std::fmt::Display, scale: i8, out: &mut Vec<u8>) {
    let start = out.len();
    // A write to a vector cannot fail.
    let _ = write!(out, "{value}");
    if scale <= 0 {
        if out[start..] != *b"0" {
            out.resize(out.len() + usize::from(scale.unsigned_abs()), b'0');
        }
        return;
    }
    let start = start + usize::from(out.get(start) == Some(&b'-'));
    let scale = usize::from(scale.unsigned_abs());
    let digits = out.len() - start;
    if digits <= scale {
        let zeros = scale + 1 - digits;
        out.splice(start..start, std::iter::repeat_n(b'0', zeros));
    }
    out.insert(out.len() - scale, b'.');
}

fn base64(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeFault> {
    out.push(b'"');
    let start = out.len();
    let length = base64::encoded_len(bytes.len(), true).ok_or_else(|| EncodeFault::new("too long for base64"))?;
    out.resize(start + length, 0);
    BASE64_STANDARD.encode_slice(bytes, &mut out[start..]).map_err(|err| EncodeFault::new(err.to_string()))?;
    out.push(b'"');
    Ok(())
}

macro_rules! texts {
    ($array:expr, $write:path) => {
        Box::new(By($array.clone(), |array: &_, row, out: &mut Vec<u8>| $write(array_value(array, row), out)))
    };
}

/// The bytes of a cell, for arrays with offsets of any width.
trait ByteCells {
    fn bytes(&self, row: usize) -> &[u8];
}

macro_rules! byte_cells {
    ($($array:ty),*) => {$(
        impl ByteCells for $array {
            #[inline]
            fn bytes(&self, row: usize) -> &[u8] {
                self.value(row).as_ref()
            }
        }
    )*};
}
byte_cells!(
    arrow_array::StringArray,
    arrow_array::LargeStringArray,
    arrow_array::StringViewArray,
    arrow_array::BinaryArray,
    arrow_array::LargeBinaryArray,
    arrow_array::BinaryViewArray,
    arrow_array::FixedSizeBinaryArray
);

#[inline]
fn array_value(array: &impl ByteCells, row: usize) -> &[u8] {
    array.bytes(row)
}

fn as_it_is(text: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeFault> {
    out.extend_from_slice(text);
    Ok(())
}

/// Returns the cells of a string column without quotes and escapes.
pub fn plain(array: &ArrayRef) -> Result<Box<dyn Cells>, ArrowError> {
    Ok(match array.data_type() {
        DataType::Utf8 => texts!(array.as_string::<i32>(), as_it_is),
        DataType::LargeUtf8 => texts!(array.as_string::<i64>(), as_it_is),
        DataType::Utf8View => texts!(array.as_string_view(), as_it_is),
        other => return Err(unexpected(other)),
    })
}

/// Returns the cells of a scalar column.
#[allow(clippy::too_many_lines)] // every type has its arm here
pub fn cells(array: &ArrayRef) -> Result<Box<dyn Cells>, ArrowError> {
    Ok(match array.data_type() {
        DataType::Boolean => {
            Box::new(By(array.as_boolean().clone(), |array: &BooleanArray, row, out: &mut Vec<u8>| {
                out.extend_from_slice(if array.value(row) { b"true" } else { b"false" });
                Ok(())
            }))
        }
        DataType::Int8 => integers::<Int8Type>(array),
        DataType::Int16 => integers::<Int16Type>(array),
        DataType::Int32 => integers::<Int32Type>(array),
        DataType::Int64 => integers::<Int64Type>(array),
        DataType::UInt8 => integers::<UInt8Type>(array),
        DataType::UInt16 => integers::<UInt16Type>(array),
        DataType::UInt32 => integers::<UInt32Type>(array),
        DataType::UInt64 => integers::<UInt64Type>(array),
        // A float16 is written as the equal float32.
        DataType::Float16 => {
            floats!(array, Float16Type, |half: <Float16Type as ArrowPrimitiveType>::Native| half.to_f32())
        }
        DataType::Float32 => floats!(array, Float32Type, |value: f32| value),
        DataType::Float64 => floats!(array, Float64Type, |value: f64| value),
        DataType::Decimal32(_, scale) => decimals::<Decimal32Type>(array, *scale),
        DataType::Decimal64(_, scale) => decimals::<Decimal64Type>(array, *scale),
        DataType::Decimal128(_, scale) => decimals::<Decimal128Type>(array, *scale),
        DataType::Decimal256(_, scale) => decimals::<Decimal256Type>(array, *scale),
        DataType::Utf8 => texts!(array.as_string::<i32>(), text::write),
        DataType::LargeUtf8 => texts!(array.as_string::<i64>(), text::write),
        DataType::Utf8View => texts!(array.as_string_view(), text::write),
        DataType::Binary => texts!(array.as_binary::<i32>(), base64),
        DataType::LargeBinary => texts!(array.as_binary::<i64>(), base64),
        DataType::BinaryView => texts!(array.as_binary_view(), base64),
        DataType::FixedSizeBinary(_) => texts!(array.as_fixed_size_binary(), base64),
        other => return Err(unexpected(other)),
    })
}
