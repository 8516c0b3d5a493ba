//! Helpers of the decoder's tests.

mod fixed;
mod malformed;
mod nested;
mod numbers;
mod random;
mod random_document;
mod rules;
mod text;
mod times;

use arrow_array::ArrayRef;

use super::*;

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn payloads(rows: &[&[u8]]) -> BinaryArray {
    BinaryArray::from_iter_values(rows)
}

fn fields(fields: Vec<Field>) -> Fields {
    Fields::from(fields)
}

fn nullable(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn words(error: DecodeError) -> String {
    match error {
        DecodeError::Malformed(Bad { row, column, reason }) => format!("{row}|{column}|{reason}"),
        DecodeError::Internal(text) => format!("internal: {text}"),
    }
}

/// Decodes the column `x` from these values, each the member `x` of its own document.
fn column(data_type: DataType, values: &[&str]) -> Result<ArrayRef, String> {
    let mut decoder = Decoder::new(&fields(vec![nullable("x", data_type.clone())]), OnMismatch::FailFast)?;
    let rows: Vec<Vec<u8>> = values.iter().map(|value| format!(r#"{{"x":{value}}}"#).into_bytes()).collect();
    let decoded = decoder.decode(&BinaryArray::from_iter_values(&rows)).map_err(words)?;
    assert!(decoded.corrupt.is_none() && decoded.keep.is_none());
    let array = decoded.value.column(0).clone();
    assert_eq!(*array.data_type(), data_type);
    assert_eq!(array.len(), values.len());
    Ok(array)
}

/// Asserts that each value alone is malformed, with a reason that contains `reason`.
fn refuses(data_type: DataType, values: &[&str], reason: &str) {
    for value in values {
        match column(data_type.clone(), &[value]) {
            Err(text) => assert!(text.starts_with("0|") && text.contains(reason), "{data_type} {value}: {text}"),
            Ok(array) => panic!("{data_type} took {value}: {array:?}"),
        }
    }
}

fn map_of(value: DataType) -> DataType {
    let pair = fields(vec![Field::new("key", DataType::Utf8, false), nullable("value", value)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair), false)), false)
}
