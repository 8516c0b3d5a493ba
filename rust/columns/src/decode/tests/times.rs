//! Tests of dates and timestamps.

use arrow_array::types::*;
use arrow_schema::TimeUnit;

use super::*;

#[test]
fn dates_are_decoded() -> TestResult {
    let texts = [
        "\"1970-01-01\"",
        "\"1969-12-31\"",
        "\"2000-02-29\"",
        "\"0001-01-01\"",
        "\"9999-12-31\"",
        "\"2024-03-01\"",
        "null",
    ];
    let array = column(DataType::Date32, &texts)?;
    let expected = [0, -1, 11_016, -719_162, 2_932_896, 19_783].map(Some).into_iter().chain([None]);
    assert_eq!(array.as_primitive::<Date32Type>().iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    let wrong = [
        "1900-02-29",
        "2023-02-30",
        "2023-13-01",
        "2023-00-01",
        "2023-01-00",
        "2023-04-31",
        "2023-1-1",
        "",
        "2023-01-01T00:00:00",
        "20230101",
    ];
    refuses(
        DataType::Date32,
        &wrong.map(|text| format!("{text:?}")).each_ref().map(String::as_str),
        "does not fit Date32",
    );
    refuses(DataType::Date32, &["19783"], "expected a string, found a number");
    Ok(())
}

// The function is long because it is one table of cases.
#[test]
fn timestamps_are_decoded() -> TestResult {
    let utc = |unit| DataType::Timestamp(unit, Some("UTC".into()));
    let second = 1_709_294_400; // 2024-03-01T12:00:00Z
    let texts = [
        "2024-03-01T12:00:00Z",
        "2024-03-01t12:00:00z",
        "2024-03-01 12:00:00",
        "2024-03-01T12:00",
        "2024-03-01T14:00:00+02:00",
        "2024-03-01T06:30:00-0530",
        "2024-03-01T13:00+01",
        "2024-03-02T11:59:00.000000000+23:59",
    ];
    let quoted = texts.map(|text| format!("{text:?}"));
    let array = column(utc(TimeUnit::Second), &quoted.each_ref().map(String::as_str))?;
    assert_eq!(array.as_primitive::<TimestampSecondType>().values().as_ref(), [second; 8]);

    let fractions =
        ["\"2024-03-01T12:00:00.123456789Z\"", "\"1969-12-31T23:59:59.9999999Z\"", "1709294400", "1.5e3", "-1", "null"];
    let array = column(utc(TimeUnit::Nanosecond), &fractions)?;
    let expected = [second * 1_000_000_000 + 123_456_789, -100, second, 1500, -1];
    assert_eq!(array.as_primitive::<TimestampNanosecondType>().values()[..5], expected);
    assert!(array.is_null(5));
    let array = column(utc(TimeUnit::Microsecond), &fractions)?;
    let expected = [second * 1_000_000 + 123_456, -1, second, 1500, -1];
    assert_eq!(array.as_primitive::<TimestampMicrosecondType>().values()[..5], expected);
    let array = column(utc(TimeUnit::Millisecond), &fractions)?;
    assert_eq!(array.as_primitive::<TimestampMillisecondType>().values()[..2], [second * 1000 + 123, -1]);
    let array =
        column(DataType::Timestamp(TimeUnit::Second, Some("Europe/Berlin".into())), &["\"2024-03-01T12:00:00\""])?;
    assert_eq!(array.as_primitive::<TimestampSecondType>().value(0), second);

    // The first and the last timestamp of nanoseconds in 64 bits.
    let ends = ["\"1677-09-21T00:12:43.145224192Z\"", "\"2262-04-11T23:47:16.854775807Z\""];
    let array = column(utc(TimeUnit::Nanosecond), &ends)?;
    assert_eq!(array.as_primitive::<TimestampNanosecondType>().values().as_ref(), [i64::MIN, i64::MAX]);
    Ok(())
}

#[test]
fn malformed_timestamps_are_refused() -> TestResult {
    let utc = |unit| DataType::Timestamp(unit, Some("UTC".into()));
    let second = 1_709_294_400; // 2024-03-01T12:00:00Z
    let naive = DataType::Timestamp(TimeUnit::Second, None);
    let array = column(naive.clone(), &["\"2024-03-01T12:00:00\"", "\"2024-03-01\"", "7"])?;
    assert_eq!(array.as_primitive::<TimestampSecondType>().values().as_ref(), [second, second - 43_200, 7]);
    refuses(naive.clone(), &["\"2024-03-01T12:00:00Z\"", "\"2024-03-01T12:00:00+00:00\""], "does not fit Timestamp(s)");
    let wrong = [
        "",
        "now",
        "2024-03-01T",
        "2024-03-01T12",
        "2024-03-01T24:00",
        "2024-03-01T12:60",
        "2024-03-01T12:00:60",
        "2024-03-01T12:00:00.",
        "2024-03-01T12:00:00.1234567890",
        "2024-03-01T12:00:00+",
        "2024-03-01T12:00:00+2:00",
        "2024-03-01T12:00:00+24:00",
        "2024-03-01T12:00:00 Z",
        "2024-03-01T12:00:0",
        "2024-02-30T00:00:00",
        "2024-03-01x12:00",
        "2024-03-01T12:00.5",
        "2024-03-01é12:00",
    ];
    let quoted = wrong.map(|text| format!("{text:?}"));
    refuses(utc(TimeUnit::Second), &quoted.each_ref().map(String::as_str), "does not fit Timestamp");
    refuses(utc(TimeUnit::Second), &["9223372036854775808"], "does not fit Timestamp");
    refuses(utc(TimeUnit::Second), &["true"], "expected a timestamp");
    refuses(
        utc(TimeUnit::Nanosecond),
        &["\"1677-09-21T00:12:43.145224191Z\"", "\"2262-04-11T23:47:16.854775808Z\""],
        "does not fit",
    );
    Ok(())
}
