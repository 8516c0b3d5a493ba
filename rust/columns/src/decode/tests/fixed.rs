//! Tests of times of day, durations, values of a fixed size, and dictionaries.

use arrow_array::ArrowPrimitiveType;
use arrow_array::types::*;
use arrow_schema::TimeUnit;

use super::*;

fn numbers<T: ArrowPrimitiveType<Native = i64>>(array: &ArrayRef) -> Vec<Option<i64>> {
    array.as_primitive::<T>().iter().collect()
}

#[test]
fn times_of_day_are_decoded_and_cut_to_the_unit() -> TestResult {
    let values = [r#""23:59:59.999999999""#, r#""00:00""#, "null", r#""12:34:56.5""#];
    let nanos = column(DataType::Time64(TimeUnit::Nanosecond), &values)?;
    assert_eq!(
        numbers::<Time64NanosecondType>(&nanos),
        [Some(86_399_999_999_999), Some(0), None, Some(45_296_500_000_000)]
    );
    let seconds = column(DataType::Time32(TimeUnit::Second), &values)?;
    assert_eq!(
        seconds.as_primitive::<Time32SecondType>().iter().collect::<Vec<_>>(),
        [Some(86_399), Some(0), None, Some(45_296)]
    );
    let wrong =
        [r#""24:00:00""#, r#""12:60""#, r#""12:00:60""#, r#""12:00:00Z""#, r#""1:00""#, r#""""#, r#""12:00:00.""#];
    refuses(DataType::Time64(TimeUnit::Microsecond), &wrong, "does not fit");
    refuses(DataType::Time32(TimeUnit::Millisecond), &["5"], "expected a string");
    Ok(())
}

#[test]
fn durations_and_dates_are_decoded() -> TestResult {
    let spans = column(DataType::Duration(TimeUnit::Millisecond), &["-5", "9223372036854775807", "null"])?;
    assert_eq!(numbers::<DurationMillisecondType>(&spans), [Some(-5), Some(i64::MAX), None]);
    refuses(DataType::Duration(TimeUnit::Second), &["1.5", "9223372036854775808"], "does not fit");
    let dates = column(DataType::Date64, &[r#""1969-12-31""#, "null"])?;
    assert_eq!(numbers::<Date64Type>(&dates), [Some(-86_400_000), None]);
    Ok(())
}

#[test]
fn values_of_a_fixed_size_are_decoded() -> TestResult {
    let bytes = column(DataType::FixedSizeBinary(2), &[r#""AQI=""#, "null", r#""AwQ""#])?;
    let bytes: Vec<_> = bytes.as_fixed_size_binary().iter().collect();
    assert_eq!(bytes, [Some(&[1, 2][..]), None, Some(&[3, 4])]);
    refuses(DataType::FixedSizeBinary(2), &[r#""AQ==""#, r#""AQID""#], "not standard base64 of 2 bytes");
    let pair = DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Int64, false)), 2);
    let lists = column(pair.clone(), &["[1,2]", "null", "[3,4]"])?;
    let lists: Vec<_> =
        lists.as_fixed_size_list().iter().map(|list| list.map(|list| numbers::<Int64Type>(&list))).collect();
    assert_eq!(lists, [Some(vec![Some(1), Some(2)]), None, Some(vec![Some(3), Some(4)])]);
    refuses(pair, &["[1]", "[1,2,3]", "[]"], "does not fit");
    Ok(())
}

#[test]
fn dictionaries_have_each_value_once() -> TestResult {
    let kind = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let array = column(kind.clone(), &[r#""a""#, r#""b""#, "null", r#""a""#])?;
    let dictionary = array.as_dictionary::<Int8Type>();
    assert_eq!(dictionary.values().as_string::<i32>().iter().collect::<Vec<_>>(), [Some("a"), Some("b")]);
    assert_eq!(dictionary.keys().iter().collect::<Vec<_>>(), [Some(0), Some(1), None, Some(0)]);
    refuses(kind.clone(), &["1"], "expected a string");
    // A value beyond the range of the keys is malformed; known values are not.
    let rows: Vec<_> = (0..130).map(|row| format!(r#"{{"x":"{}"}}"#, row % 129)).collect();
    let mut decoder = Decoder::new(&fields(vec![nullable("x", kind)]), OnMismatch::Permissive)?;
    let decoded = decoder.decode(&BinaryArray::from_iter_values(&rows)).map_err(words)?;
    let bad: Vec<_> = (0..130).filter(|row| decoded.value.is_null(*row)).collect();
    assert_eq!(bad, [128]);
    assert!(decoded.errors.is_some_and(|errors| errors.value(128).contains("more than 128 values")));
    Ok(())
}

#[test]
fn malformed_rows_leave_no_trace_in_columns_of_every_kind() -> TestResult {
    let kinds = [
        (DataType::Time64(TimeUnit::Microsecond), r#""01:02""#),
        (DataType::FixedSizeBinary(1), r#""AQ==""#),
        (DataType::FixedSizeList(Arc::new(nullable("item", DataType::Int8)), 2), "[1,null]"),
        (DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Int64)), "7"),
    ];
    for (kind, value) in kinds {
        let all = fields(vec![nullable("x", kind.clone()), Field::new("must", DataType::Int8, false)]);
        let rows = [
            format!(r#"{{"x":{value},"must":1}}"#),
            format!(r#"{{"x":{value}}}"#),
            r#"{"x":true,"must":1}"#.to_owned(),
            format!(r#"{{"must":2,"x":{value}}}"#),
        ];
        let mut decoder = Decoder::new(&all, OnMismatch::DropMalformed)?;
        let decoded = decoder.decode(&BinaryArray::from_iter_values(&rows)).map_err(words)?;
        let alone = column(kind, &[value, value])?;
        assert_eq!(decoded.value.column(0), &alone);
    }
    Ok(())
}
