//! Tests of time zones, numbers in timestamp columns, and tolerance.

use arrow_array::types::*;
use arrow_schema::TimeUnit;

use super::super::rules::{TimeNumbers, Zone};
use super::*;

fn utc(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, Some("UTC".into()))
}

/// Decodes one timestamp in microseconds; `None` if it is malformed.
fn micros(rules: &JsonRules, zoned: bool, value: &str) -> Option<i64> {
    let zone = zoned.then(|| "UTC".into());
    let schema = fields(vec![nullable("x", DataType::Timestamp(TimeUnit::Microsecond, zone))]);
    let mut decoder = Decoder::with_rules(&schema, OnMismatch::FailFast, rules).unwrap();
    let decoded = decoder.decode(&payloads(&[format!(r#"{{"x":{value}}}"#).as_bytes()])).ok()?;
    Some(decoded.value.column(0).as_primitive::<TimestampMicrosecondType>().value(0))
}

#[test]
fn texts_without_an_offset_are_in_the_zone() -> TestResult {
    let second = 1_000_000;
    let cases = [
        // Winter and summer, the hour that the clocks leave out, and the first of two equal hours.
        ("America/New_York", "2024-01-15T12:00:00", 1_705_338_000),
        ("America/New_York", "2024-07-15T12:00:00", 1_721_059_200),
        ("America/New_York", "2024-03-10T02:30:00", 1_710_055_800),
        ("America/New_York", "2024-11-03T01:30:00", 1_730_611_800),
        ("America/New_York", "2024-03-10", 1_710_046_800),
        // Rules continue after the last change that the database lists.
        ("Europe/Berlin", "2150-07-01T12:00:00", 5_695_956_000),
        ("+05:30", "1970-01-01T05:30:00", 0),
        ("-0100", "1970-01-01T00:00:00", 3_600),
        ("UTC", "1970-01-01T00:00:01", 1),
        // An offset in the text has precedence.
        ("Asia/Tokyo", "1970-01-01T00:00:01Z", 1),
    ];
    for (zone, text, expected) in cases {
        let rules = JsonRules { zone: zone.parse()?, ..Default::default() };
        assert_eq!(micros(&rules, true, &format!("{text:?}")), Some(expected * second), "{zone} {text}");
    }
    // A column without a zone has the local time.
    let rules = JsonRules { zone: "Asia/Tokyo".parse()?, ..Default::default() };
    assert_eq!(micros(&rules, false, "\"1970-01-01T00:00:01\""), Some(second));
    assert_eq!(micros(&rules, false, "\"1970-01-01T00:00:01Z\""), None);
    let unknown = "Mars/Base".parse::<Zone>().unwrap_err().to_string();
    assert!(unknown.contains("Mars/Base") && unknown.contains("Europe/Berlin"), "{unknown}");
    Ok(())
}

#[test]
fn numbers_are_counted_in_the_given_unit() -> TestResult {
    let read = |word: &str, zoned, value| -> Result<Option<i64>, JetError> {
        Ok(micros(&JsonRules { numbers: word.parse()?, ..Default::default() }, zoned, value))
    };
    assert_eq!(read("seconds", true, "1710037800")?, Some(1_710_037_800_000_000));
    assert_eq!(read("seconds", true, "-1.5")?, Some(-1_500_000));
    assert_eq!(read("seconds", true, "1710037800.1234569")?, Some(1_710_037_800_123_456));
    assert_eq!(read("millis", true, "1710037800123")?, Some(1_710_037_800_123_000));
    assert_eq!(read("micros", false, "7")?, Some(7));
    assert_eq!(read("nanos", true, "1999")?, Some(1));
    assert_eq!(read("nanos", true, "-1")?, Some(-1));
    assert_eq!(read("seconds", true, "9223372036855")?, None);
    assert_eq!(read("error", true, "1710037800")?, None);
    assert!("hours".parse::<TimeNumbers>().is_err());

    let rules = JsonRules { numbers: TimeNumbers::LikeSpark, ..Default::default() };
    assert_eq!(micros(&rules, true, "1710037800"), Some(1_710_037_800_000_000));
    assert_eq!(micros(&rules, false, "1710037800"), None);
    let array = column(utc(TimeUnit::Second), &["1.5", "-1.5"])?;
    assert_eq!(array.as_primitive::<TimestampSecondType>().values().as_ref(), [1, -2]);
    Ok(())
}

/// A decoder of `a bigint, s string, f double, n struct<x, y>, l list<bigint>` with the rules of Spark.
fn lenient(mode: OnMismatch) -> Result<Decoder, String> {
    let inner = fields(vec![nullable("x", DataType::Int64), nullable("y", DataType::Utf8)]);
    let items = Arc::new(nullable("item", DataType::Int64));
    let schema = fields(vec![
        nullable("a", DataType::Int64),
        nullable("s", DataType::Utf8),
        nullable("f", DataType::Float64),
        nullable("n", DataType::Struct(inner)),
        nullable("l", DataType::List(items)),
    ]);
    let leniency = Leniency { like_spark: true, non_finite: true };
    Decoder::with_rules(&schema, mode, &JsonRules { leniency, ..Default::default() })
}

#[test]
fn a_malformed_row_keeps_the_fields_that_fit() -> TestResult {
    let rows: [&[u8]; 6] = [
        br#"{"a":"x","s":"text","f":1.5,"n":{"x":true,"y":"kept"},"l":[1,2]}"#,
        br#"{"l":[1,"x"],"a":7}"#,
        br#"{"a":1,"n":{"x":{"deep":[1]},"y":"z"},"f":[2]}"#,
        br#"{"a":1,"s":"cut"#,
        b"  ",
        br#"{"a":"x","f":2,"a":3}"#,
    ];
    let decoded = lenient(OnMismatch::Permissive)?.decode(&payloads(&rows)).map_err(words)?;
    let value = &decoded.value;
    let (a, f) = (value.column(0).as_primitive::<Int64Type>(), value.column(2).as_primitive::<Float64Type>());
    assert_eq!(a.iter().collect::<Vec<_>>(), [None, Some(7), Some(1), None, None, Some(3)]);
    assert_eq!(f.iter().collect::<Vec<_>>(), [Some(1.5), None, None, None, None, Some(2.0)]);
    assert_eq!(value.column(1).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["text"]);
    let inner = value.column(3).as_struct();
    assert_eq!((0..6).map(|row| inner.is_null(row)).collect::<Vec<_>>(), [false, true, false, true, true, true]);
    assert!(inner.column(0).is_null(0) && inner.column(0).is_null(2));
    assert_eq!(inner.column(1).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["kept", "z"]);
    assert_eq!(
        (0..6).map(|row| value.column(4).is_null(row)).collect::<Vec<_>>(),
        [false, true, true, true, true, true]
    );
    // Not JSON, and an empty document: null as a whole. The empty one is not malformed.
    assert_eq!((0..6).map(|row| value.is_null(row)).collect::<Vec<_>>(), [false, false, false, true, true, false]);
    let (corrupt, errors) = (decoded.corrupt.unwrap(), decoded.errors.unwrap());
    assert_eq!((0..6).map(|row| corrupt.is_null(row)).collect::<Vec<_>>(), [false, false, false, false, true, false]);
    assert_eq!(errors.value(0), "a: expected an integer, found a string");
    assert_eq!(errors.value(1), "l[]: expected an integer, found a string");

    let decoded = lenient(OnMismatch::DropMalformed)?.decode(&payloads(&rows)).map_err(words)?;
    assert_eq!((decoded.value.len(), decoded.keep.unwrap().true_count()), (1, 1));
    assert!(lenient(OnMismatch::FailFast)?.decode(&payloads(&rows[..1])).is_err());
    Ok(())
}

#[test]
fn a_string_column_takes_any_value_as_its_text() -> TestResult {
    let values = [r#"1.50"#, "true", r#"{"k" : [1, " \\\" é"]}"#, "[ ]", "NaN", r#""\u0041""#, "null"];
    let rows: Vec<Vec<u8>> = values.iter().map(|value| format!(r#"{{"s":{value}}}"#).into_bytes()).collect();
    let decoded = lenient(OnMismatch::FailFast)?.decode(&BinaryArray::from_iter_values(&rows)).map_err(words)?;
    let texts: Vec<_> = decoded.value.column(1).as_string::<i32>().iter().collect();
    let expected =
        [Some("1.50"), Some("true"), Some(r#"{"k":[1," \\\" é"]}"#), Some("[]"), Some("NaN"), Some("A"), None];
    assert_eq!(texts, expected);
    Ok(())
}

#[test]
fn floats_may_be_infinite() -> TestResult {
    let values = ["NaN", "-Infinity", "\"+INF\"", "\"NaN\"", "-1.5"];
    let rows: Vec<Vec<u8>> =
        values.iter().map(|value| format!(r#"{{"f":{value},"other":-INF}}"#).into_bytes()).collect();
    let decoded = lenient(OnMismatch::FailFast)?.decode(&BinaryArray::from_iter_values(&rows)).map_err(words)?;
    let found = decoded.value.column(2).as_primitive::<Float64Type>().clone();
    assert!(found.value(0).is_nan() && found.value(3).is_nan());
    assert_eq!((found.value(1), found.value(2), found.value(4)), (f64::NEG_INFINITY, f64::INFINITY, -1.5));
    refuses(DataType::Float64, &["NaN", "\"NaN\"", "-Infinity"], "");
    assert!(lenient(OnMismatch::FailFast)?.decode(&payloads(&[br#"{"f":"Inf"}"#])).is_err());
    Ok(())
}
