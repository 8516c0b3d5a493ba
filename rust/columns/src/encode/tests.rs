//! Tests that encoded rows are parsed to equal rows, by `decode` and by serde_json.

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer, i256};
use arrow_schema::{Field, Fields};

use super::*;
use crate::decode::{Decoder, OnMismatch};

fn table(columns: Vec<(&str, ArrayRef)>) -> StructArray {
    let fields: Fields =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    StructArray::new(fields, columns.into_iter().map(|(_, array)| array).collect(), None)
}

fn texts(table: &StructArray, nulls: bool) -> Vec<Option<String>> {
    check(table.fields()).unwrap();
    let encoded = encode(table, nulls).unwrap();
    encoded.payloads.iter().map(|row| row.map(|row| String::from_utf8(row.to_vec()).unwrap())).collect()
}

/// Asserts that each payload is JSON, and that decoding returns an equal table.
#[track_caller]
fn round_trip(table: &StructArray) {
    for nulls in [false, true] {
        let texts = texts(table, nulls);
        for text in texts.iter().flatten() {
            serde_json::from_str::<serde_json::Value>(text).unwrap_or_else(|err| panic!("{text}: {err}"));
        }
        let payloads: BinaryArray = texts.iter().map(|text| text.as_ref().map(String::as_bytes)).collect();
        let mut decoder = Decoder::new(table.fields(), OnMismatch::FailFast).unwrap();
        let decoded = decoder.decode(&payloads).unwrap_or_else(|err| panic!("{err:?}\n{texts:?}"));
        assert_eq!(decoded.value.columns(), table.columns(), "{texts:?}");
    }
}

#[test]
fn numbers_round_trip() {
    round_trip(&table(vec![
        ("b", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
        ("i8", Arc::new(Int8Array::from(vec![Some(i8::MIN), Some(i8::MAX), None]))),
        ("i64", Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(i64::MAX), None]))),
        ("u64", Arc::new(UInt64Array::from(vec![Some(0), Some(u64::MAX), None]))),
        ("f32", Arc::new(Float32Array::from(vec![Some(f32::MIN_POSITIVE), Some(f32::MAX), None]))),
        ("f64", Arc::new(Float64Array::from(vec![Some(5e-324), Some(f64::MIN), Some(-0.0)]))),
        (
            "d",
            Arc::new(
                Decimal128Array::from(vec![Some(-5), Some(12_345), None]).with_precision_and_scale(10, 3).unwrap(),
            ),
        ),
        ("e", Arc::new(Decimal128Array::from(vec![Some(0), Some(-12), None]).with_precision_and_scale(5, -2).unwrap())),
        (
            "w",
            Arc::new(
                Decimal256Array::from(vec![Some(i256::from_i128(i128::MIN)), Some(i256::ONE), None])
                    .with_precision_and_scale(76, 40)
                    .unwrap(),
            ),
        ),
    ]));
}

#[test]
fn float_bit_patterns_round_trip() {
    let mut bits = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        bits
    };
    let doubles: Vec<f64> = (0..20_000).map(|_| f64::from_bits(next())).filter(|value| value.is_finite()).collect();
    let singles: Vec<f32> =
        (0..20_000).map(|_| f32::from_bits(next() as u32)).filter(|value| value.is_finite()).collect();
    assert!(doubles.len() > 19_000 && singles.len() > 19_000);
    round_trip(&table(vec![("x", Arc::new(Float64Array::from(doubles)))]));
    round_trip(&table(vec![("x", Arc::new(Float32Array::from(singles)))]));
}

#[test]
fn texts_and_bytes_round_trip() {
    let strange = "\"\\/\u{8}\u{c}\n\r\t\0\u{1f}\u{7f}é😀\u{2028}";
    round_trip(&table(vec![
        ("s", Arc::new(StringArray::from(vec![Some(strange), Some(""), None]))),
        ("v", Arc::new(StringViewArray::from(vec![Some(strange), Some(""), None]))),
        ("a \"name\"\n", Arc::new(LargeStringArray::from(vec![Some("x"), None, None]))),
        ("x", Arc::new(BinaryArray::from_opt_vec(vec![Some(&[0, 255, 254][..]), Some(b""), None]))),
    ]));
}

#[test]
fn dates_and_timestamps_round_trip() {
    let seconds = [
        i64::MIN,
        -62_167_219_201,
        -62_167_219_200,
        -1,
        0,
        951_782_399,
        951_782_400,
        253_402_300_799,
        253_402_300_800,
        i64::MAX,
    ];
    round_trip(&table(vec![
        ("s", Arc::new(TimestampSecondArray::from(seconds.to_vec()).with_timezone("UTC"))),
        ("p", Arc::new(TimestampSecondArray::from(seconds.to_vec()))),
        ("n", Arc::new(TimestampNanosecondArray::from(seconds.to_vec()).with_timezone("+02:00"))),
        ("m", Arc::new(TimestampMicrosecondArray::from(seconds.map(|value| value / 7).to_vec()))),
    ]));
    let days: Vec<i32> = (-719_528..2_932_897).step_by(97).chain([2_932_896, -1, 0, 11_016]).collect();
    round_trip(&table(vec![("d", Arc::new(Date32Array::from(days)))]));
}

#[test]
fn nested_columns_round_trip() {
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    let item = Arc::new(Field::new_list_field(numbers.data_type().clone(), true));
    let offsets = OffsetBuffer::new(vec![0, 2, 2, 3, 3].into());
    let valid = NullBuffer::from(vec![true, true, true, false]);
    let lists: ArrayRef = Arc::new(ListArray::new(item, offsets, numbers, Some(valid.clone())));
    let inner: ArrayRef = Arc::new(StructArray::new(
        Fields::from(vec![Field::new("a", DataType::Int64, true), Field::new("l", lists.data_type().clone(), true)]),
        vec![Arc::new(Int64Array::from(vec![Some(1), None, Some(3), None])), lists.clone()],
        Some(NullBuffer::from(vec![true, true, false, true])),
    ));
    // A null struct is decoded with null members, whatever its members were.
    let members = Fields::from(vec![Field::new("a", DataType::Int64, true)]);
    let plain: ArrayRef = Arc::new(StructArray::new(
        members,
        vec![Arc::new(Int64Array::from(vec![Some(1), None, None, None]))],
        Some(NullBuffer::from(vec![true, true, false, true])),
    ));
    round_trip(&table(vec![("l", lists), ("s", plain)]));
    let whole = table(vec![("inner", inner)]);
    assert_eq!(
        texts(&whole, false),
        [r#"{"inner":{"a":1,"l":[1,null]}}"#, r#"{"inner":{"l":[]}}"#, "{}", r#"{"inner":{}}"#]
            .map(|text| Some(text.to_owned()))
    );
    assert_eq!(
        texts(&whole.slice(1, 2), true),
        [r#"{"inner":{"a":null,"l":[]}}"#, r#"{"inner":null}"#].map(|text| Some(text.to_owned()))
    );
}

#[test]
fn maps_and_dictionaries_are_encoded_as_their_values() {
    let mut maps = builder::MapBuilder::new(None, builder::StringBuilder::new(), builder::Int32Builder::new());
    for (keys, valid) in [(&["a", "\"b\""][..], true), (&[], true), (&[], false)] {
        for (at, key) in keys.iter().enumerate() {
            maps.keys().append_value(key);
            maps.values().append_option((at == 0).then_some(7));
        }
        maps.append(valid).unwrap();
    }
    let dictionary: DictionaryArray<Int8Type> = vec![Some("x"), None, Some("x")].into_iter().collect();
    let fixed = FixedSizeBinaryArray::try_from_iter([[1u8, 2], [3, 4], [5, 6]].into_iter()).unwrap();
    let table = table(vec![("m", Arc::new(maps.finish())), ("d", Arc::new(dictionary)), ("f", Arc::new(fixed))]);
    assert_eq!(
        texts(&table, false),
        [r#"{"m":{"a":7,"\"b\"":null},"d":"x","f":"AQI="}"#, r#"{"m":{},"f":"AwQ="}"#, r#"{"d":"x","f":"BQY="}"#]
            .map(|text| Some(text.to_owned()))
    );
}

#[test]
fn times_and_durations_are_encoded() {
    let table = table(vec![
        ("t", Arc::new(Time64MicrosecondArray::from(vec![Some(86_399_999_999), Some(0), Some(86_400_000_000)]))),
        ("d", Arc::new(DurationMillisecondArray::from(vec![Some(-5), None, None]))),
        ("date", Arc::new(Date64Array::from(vec![Some(-86_400_000), None, None]))),
    ]);
    assert_eq!(
        texts(&table, false),
        [
            Some(r#"{"t":"23:59:59.999999","d":-5,"date":"1969-12-31"}"#.to_owned()),
            Some(r#"{"t":"00:00:00"}"#.to_owned()),
            None
        ]
    );
}

#[test]
fn fault_affects_one_row_and_names_the_column() {
    let inner = table(vec![("x", Arc::new(Float64Array::from(vec![1.0, f64::NAN, f64::INFINITY, 2.0])))]);
    let whole = table(vec![("inner", Arc::new(inner)), ("d", Arc::new(Date32Array::from(vec![0, 0, 0, i32::MAX])))]);
    let encoded = encode(&whole, false).unwrap();
    let faults: Vec<_> = encoded.faults.iter().map(|(row, fault)| (*row, fault.column.as_str())).collect();
    assert_eq!(faults, [(1, "inner.x"), (2, "inner.x"), (3, "d")]);
    assert_eq!(encoded.payloads.null_count(), 3);
    assert_eq!(encoded.payloads.value(0), br#"{"inner":{"x":1.0},"d":"1970-01-01"}"#);
}

#[test]
fn unsupported_type_is_rejected_with_the_column_name() {
    let fields = Fields::from(vec![Field::new("gap", DataType::Interval(arrow_schema::IntervalUnit::DayTime), true)]);
    assert!(check(&fields).is_err_and(|text| text.contains("\"gap\"") && text.contains("Interval")));
}
