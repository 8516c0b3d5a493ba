//! Fuzzes the JSON decoder with any schema. Documents of serde_json are decoded unchanged, and a text that serde_json
//! rejects as JSON is malformed.
#![no_main]

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt8Type};
use arrow_array::{Array, BinaryArray};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

use columns::decode::rules::{JsonRules, Leniency};
use columns::decode::{DecodeError, Decoder, OnMismatch};

fn field(name: &str, data_type: DataType, nullable: bool) -> Field {
    Field::new(name, data_type, nullable)
}

fn struct_of(u: &mut Unstructured<'_>, depth: usize) -> Result<Fields> {
    let count = u.int_in_range(0..=4)?;
    (0..count).map(|at| Ok(field(&format!("f{at}"), data_type(u, depth)?, u.ratio(3, 4)?))).collect()
}

fn data_type(u: &mut Unstructured<'_>, depth: usize) -> Result<DataType> {
    let last = if depth > 2 { 8 } else { 11 };
    Ok(match u.int_in_range(0..=last)? {
        0 => DataType::Int64,
        1 => DataType::Int32,
        2 => DataType::UInt8,
        3 => DataType::Float64,
        4 | 5 => DataType::Utf8,
        6 => DataType::Boolean,
        // There is no oracle for these three types: they must not panic.
        7 => DataType::Decimal128(20, 5),
        8 => DataType::Timestamp(TimeUnit::Nanosecond, None),
        9 => DataType::List(Arc::new(field("item", data_type(u, depth + 1)?, true))),
        10 => DataType::Struct(struct_of(u, depth + 1)?),
        _ => {
            let pair = vec![field("key", DataType::Utf8, false), field("value", data_type(u, depth + 1)?, true)];
            DataType::Map(Arc::new(field("entries", DataType::Struct(pair.into()), false)), false)
        }
    })
}

/// Returns a value that fits the type, in its decoded form; null if there is no oracle.
fn value(u: &mut Unstructured<'_>, data_type: &DataType, nullable: bool) -> Result<Value> {
    if nullable && u.ratio(1, 6)? {
        return Ok(Value::Null);
    }
    Ok(match data_type {
        DataType::Int64 => u.arbitrary::<i64>()?.into(),
        DataType::Int32 => u.arbitrary::<i32>()?.into(),
        DataType::UInt8 => u.arbitrary::<u8>()?.into(),
        DataType::Float64 => Some(u.arbitrary::<f64>()?).filter(|float| float.is_finite()).unwrap_or(0.5).into(),
        DataType::Utf8 => u.arbitrary::<String>()?.into(),
        DataType::Boolean => u.arbitrary::<bool>()?.into(),
        DataType::List(item) => {
            let count = u.int_in_range(0..=4)?;
            (0..count).map(|_| value(u, item.data_type(), true)).collect::<Result<Vec<_>>>()?.into()
        }
        DataType::Struct(fields) => {
            let members = fields.iter().map(|f| Ok((f.name().clone(), value(u, f.data_type(), f.is_nullable())?)));
            Value::Object(members.collect::<Result<Map<_, _>>>()?)
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else { unreachable!() };
            let count = u.int_in_range(0..=3)?;
            let members = (0..count).map(|_| Ok((u.arbitrary::<String>()?, value(u, pair[1].data_type(), true)?)));
            Value::Object(members.collect::<Result<Map<_, _>>>()?)
        }
        DataType::Decimal128(..) => u.int_in_range(-1_000_000..=1_000_000i64)?.into(),
        _ => u.arbitrary::<i64>()?.into(),
    })
}

fn same(array: &dyn Array, row: usize, want: &Value) -> bool {
    if want.is_null() || array.is_null(row) {
        return want.is_null() && array.is_null(row);
    }
    match array.data_type() {
        DataType::Int64 => want.as_i64() == Some(array.as_primitive::<Int64Type>().value(row)),
        DataType::Int32 => want.as_i64() == Some(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::UInt8 => want.as_i64() == Some(array.as_primitive::<UInt8Type>().value(row).into()),
        // serde_json writes the shortest text of a double, which has one nearest value.
        DataType::Float64 => want.as_f64() == Some(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => want.as_str() == Some(array.as_string::<i32>().value(row)),
        DataType::Boolean => want.as_bool() == Some(array.as_boolean().value(row)),
        DataType::List(_) => {
            let (items, want) = (array.as_list::<i32>().value(row), want.as_array().map_or(&[][..], Vec::as_slice));
            items.len() == want.len() && want.iter().enumerate().all(|(at, want)| same(&items, at, want))
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            fields.iter().zip(columns).all(|(f, column)| same(column, row, &want[f.name()]))
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let keys = entries.column(0).as_string::<i32>();
            let member = |at: usize| want.get(keys.value(at)).is_some_and(|want| same(entries.column(1), at, want));
            want.as_object().is_some_and(|want| want.len() == entries.len()) && (0..entries.len()).all(member)
        }
        _ => true,
    }
}

/// True if serde_json accepts the text as JSON.
fn is_json(bytes: &[u8]) -> bool {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(value) => value.is_object(),
        // The decoder checks only the form of a number in an ignored member.
        Err(error) => error.to_string().contains("number out of range"),
    }
}

fn check(bytes: &[u8]) -> Result<()> {
    let u = &mut Unstructured::new(bytes);
    let fields = struct_of(u, 0)?;
    let mode = *u.choose(&[OnMismatch::Permissive, OnMismatch::DropMalformed, OnMismatch::FailFast])?;
    let lenient: bool = u.arbitrary()?;
    let leniency = Leniency { like_spark: lenient, non_finite: lenient };
    let rules = JsonRules { leniency, ..Default::default() };
    let Ok(mut decoder) = Decoder::with_rules(&fields, mode, &rules) else { return Ok(()) };
    let root = DataType::Struct(fields);
    let mut rows: Vec<(Vec<u8>, Option<Value>)> = Vec::new();
    for _ in 0..u.int_in_range(0..=4)? {
        let want = value(u, &root, false)?;
        let mut text = serde_json::to_vec(&want).unwrap_or_default();
        // A valid document with a changed byte reaches more code than noise.
        if u.ratio(1, 2)? && !text.is_empty() {
            let place = u.choose_index(text.len())?;
            match u.int_in_range(0..=2)? {
                0 => text[place] = u.arbitrary()?,
                1 => text.truncate(place),
                _ => text.insert(place, u.arbitrary()?),
            }
            rows.push((text, None));
        } else {
            rows.push((text, Some(want)));
        }
    }
    let rest = u.len();
    rows.push((u.bytes(rest)?.to_vec(), None));
    let good = decoder.decode(&BinaryArray::from_iter_values(rows.iter().map(|(text, _)| text)));
    match good {
        Ok(decoded) => {
            let kept = |row: usize| decoded.keep.as_ref().is_none_or(|keep| keep.value(row));
            let mut at = 0;
            for (row, (text, want)) in rows.iter().enumerate().filter(|(row, _)| kept(*row)) {
                let valid = decoded.value.is_valid(at);
                if let Some(want) = want {
                    assert!(same(&decoded.value, at, want), "{want} is {:?}", decoded.value.slice(at, 1));
                }
                // The lenient rules have floats and rows that this check does not know.
                if lenient {
                    at += 1;
                    continue;
                }
                assert!(!valid || is_json(text), "not JSON: {:?}", String::from_utf8_lossy(text));
                let corrupt = decoded.corrupt.as_ref().map(|corrupt| corrupt.is_valid(row));
                assert!(corrupt.is_none_or(|corrupt| corrupt != valid));
                at += 1;
            }
            assert_eq!(at, decoded.value.len());
            // Dropped rows are not those that serde_json wrote.
            assert!(rows.iter().enumerate().all(|(row, (_, want))| want.is_none() || kept(row)));
        }
        Err(DecodeError::Malformed(bad)) => {
            assert!(mode == OnMismatch::FailFast && rows[bad.row].1.is_none(), "{} {}", bad.column, bad.reason);
        }
        Err(DecodeError::Internal(text)) => panic!("{text}"),
    }
    // The decoder is empty after every block.
    let empty: [&[u8]; 0] = [];
    assert!(decoder.decode(&BinaryArray::from_iter_values(empty)).is_ok_and(|decoded| decoded.value.is_empty()));
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let _too_short = check(bytes);
});
