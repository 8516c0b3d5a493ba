use arrow_array::types::*;
use arrow_array::{ArrayRef, Float64Array, Int64Array, ListArray, MapArray};
use arrow_buffer::i256;
use arrow_schema::TimeUnit;
use serde_json::{Map, Value};

use super::*;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn payloads(rows: &[&[u8]]) -> BinaryArray {
    BinaryArray::from_iter_values(rows)
}

fn fields(fields: Vec<Field>) -> Fields {
    Fields::from(fields)
}

fn nullable(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn words(error: Error) -> String {
    match error {
        Error::Malformed(Bad { row, column, reason }) => format!("{row}|{column}|{reason}"),
        Error::Internal(text) => format!("internal: {text}"),
    }
}

/// The column `x` of these values, each the member `x` of a document of its own.
fn column(data_type: DataType, values: &[&str]) -> Result<ArrayRef, String> {
    let mut decoder = Decoder::new(&fields(vec![nullable("x", data_type.clone())]), Mode::FailFast)?;
    let rows: Vec<Vec<u8>> = values.iter().map(|value| format!(r#"{{"x":{value}}}"#).into_bytes()).collect();
    let decoded = decoder.decode(&BinaryArray::from_iter_values(&rows)).map_err(words)?;
    assert!(decoded.corrupt.is_none() && decoded.keep.is_none());
    let array = decoded.value.column(0).clone();
    assert_eq!(*array.data_type(), data_type);
    assert_eq!(array.len(), values.len());
    Ok(array)
}

/// Each of these values alone is malformed, with a reason that holds `reason`.
fn refuses(data_type: DataType, values: &[&str], reason: &str) {
    for value in values {
        match column(data_type.clone(), &[value]) {
            Err(text) => assert!(text.starts_with("0|") && text.contains(reason), "{data_type} {value}: {text}"),
            Ok(array) => panic!("{data_type} took {value}: {array:?}"),
        }
    }
}

macro_rules! integers {
    ($($name:ident: $arrow:ident $native:ident $below:expr, $above:expr;)*) => {$(
        #[test]
        fn $name() -> Outcome {
            let (min, max) = ($native::MIN.to_string(), $native::MAX.to_string());
            let array = column($arrow::DATA_TYPE, &[&min, &max, "0", "-0", "null", "1.0", "1e1", "120e-1", "-0.0", "0e999999999999999999"])?;
            let expected: Vec<Option<$native>> =
                [$native::MIN, $native::MAX, 0, 0].map(Some).into_iter().chain([None]).chain([1, 10, 12, 0, 0].map(Some)).collect();
            assert_eq!(array.as_primitive::<$arrow>().iter().collect::<Vec<_>>(), expected);
            let unfit = [$below, $above, "1.5", "1e-1", "1e400", "-1e30", "99999999999999999999999", "1.00000000000000000000001"];
            refuses($arrow::DATA_TYPE, &unfit, "does not fit ");
            refuses($arrow::DATA_TYPE, &["\"1\"", "true", "[]", "{}"], "expected an integer, found");
            Ok(())
        }
    )*};
}

integers! {
    int8: Int8Type i8 "-129", "128";
    int16: Int16Type i16 "-32769", "32768";
    int32: Int32Type i32 "-2147483649", "2147483648";
    int64: Int64Type i64 "-9223372036854775809", "9223372036854775808";
    uint8: UInt8Type u8 "-1", "256";
    uint16: UInt16Type u16 "-1", "65536";
    uint32: UInt32Type u32 "-1", "4294967296";
    uint64: UInt64Type u64 "-1", "18446744073709551616";
}

#[test]
fn null_and_bool() -> Outcome {
    assert_eq!(column(DataType::Null, &["null", "null"])?.len(), 2);
    refuses(DataType::Null, &["0", "false", "\"\""], "expected null");
    let array = column(DataType::Boolean, &["true", "null", "false"])?;
    assert_eq!(array.as_boolean().iter().collect::<Vec<_>>(), [Some(true), None, Some(false)]);
    refuses(DataType::Boolean, &["0", "1", "\"true\""], "expected a boolean");
    refuses(DataType::Boolean, &["tru", "True", "falsy"], "not JSON");
    Ok(())
}

#[test]
fn floats() -> Outcome {
    let texts =
        ["-0.0", "5e-324", "1.7976931348623157e308", "0.1", "1", "1e-400", "123456789012345678901234567890", "null"];
    let array = column(DataType::Float64, &texts)?;
    let values = array.as_primitive::<Float64Type>();
    for (row, text) in texts[..7].iter().enumerate() {
        assert_eq!(values.value(row).to_bits(), text.parse::<f64>()?.to_bits(), "{text}");
    }
    assert!(values.is_null(7) && values.value(0).is_sign_negative());
    refuses(DataType::Float64, &["1e400", "-1e309"], "does not fit Float64");
    refuses(
        DataType::Float64,
        &["NaN", "Infinity", "-Infinity", "+1", ".5", "1.", "01", "1e", "1e+", "-", "0x1", "1_0"],
        "not JSON",
    );
    refuses(DataType::Float64, &["\"NaN\"", "\"1\"", "true"], "expected a number, found");

    let array = column(DataType::Float32, &["0.1", "3.4028235e38", "16777217", "-0", "1.17549435e-38"])?;
    let expected = [0.1, f32::MAX, 16_777_216.0, -0.0, f32::MIN_POSITIVE];
    assert_eq!(array.as_primitive::<Float32Type>().values().as_ref(), expected);
    refuses(DataType::Float32, &["3.5e38", "1e39"], "does not fit Float32");

    let array = column(DataType::Float16, &["1.5", "-65504", "65519", "0.1"])?;
    let halves: Vec<f32> = array.as_primitive::<Float16Type>().values().iter().map(|half| half.to_f32()).collect();
    assert_eq!(halves[..3], [1.5, -65504.0, 65504.0]);
    refuses(DataType::Float16, &["65520", "-1e10"], "does not fit Float16");
    Ok(())
}

#[test]
fn decimals() -> Outcome {
    let texts = [
        "1.005",
        "-1.005",
        "1.004999999999999999999999",
        "12345678.99",
        "\"12.3\"",
        "1e2",
        "0.001",
        "0",
        "\"-0.005\"",
        "null",
    ];
    let array = column(DataType::Decimal128(10, 2), &texts)?;
    let expected = [101, -101, 100, 1_234_567_899, 1230, 10_000, 0, 0, -1].map(Some).into_iter().chain([None]);
    assert_eq!(array.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    let unfit = ["100000000", "99999999.995", "1e9", "1e400", "\"\"", "\" 1\"", "\"1 \"", "\"x\"", "\"NaN\""];
    refuses(DataType::Decimal128(10, 2), &unfit, "does not fit Decimal128(10, 2)");
    refuses(DataType::Decimal128(10, 2), &["true", "{}"], "expected a number");

    let nines = "9".repeat(38);
    let array = column(DataType::Decimal128(38, 0), &[&nines, &format!("-{nines}"), &format!("0.{nines}"), "1e37"])?;
    let most = 10i128.pow(38) - 1;
    assert_eq!(array.as_primitive::<Decimal128Type>().values().as_ref(), [most, -most, 1, 10i128.pow(37)]);
    refuses(
        DataType::Decimal128(38, 0),
        &[&format!("{nines}.5"), "1e38", "100000000000000000000000000000000000000"],
        "does not fit",
    );
    let array =
        column(DataType::Decimal128(38, 38), &["0.00000000000000000000000000000000000001", "1e-39", "5e-39", "4e-40"])?;
    assert_eq!(array.as_primitive::<Decimal128Type>().values().as_ref(), [1, 0, 1, 0]);
    let array = column(DataType::Decimal128(3, -2), &["12345", "99949", "49", "50"])?;
    assert_eq!(array.as_primitive::<Decimal128Type>().values().as_ref(), [123, 999, 0, 1]);
    refuses(DataType::Decimal128(3, -2), &["99950"], "does not fit");

    let array = column(DataType::Decimal32(9, 3), &["-999999.999"])?;
    assert_eq!(array.as_primitive::<Decimal32Type>().value(0), -999_999_999);
    let array = column(DataType::Decimal64(18, 0), &["999999999999999999"])?;
    assert_eq!(array.as_primitive::<Decimal64Type>().value(0), 999_999_999_999_999_999);
    let nines = "9".repeat(76);
    let array = column(
        DataType::Decimal256(76, 0),
        &[&nines, &format!("-{nines}"), "1.5", "123456789012345678901234567890123456789.5"],
    )?;
    let parse = |text: &str| i256::from_string(text).ok_or("no i256");
    let expected =
        [parse(&nines)?, parse(&format!("-{nines}"))?, parse("2")?, parse("123456789012345678901234567890123456790")?];
    assert_eq!(array.as_primitive::<Decimal256Type>().values().as_ref(), expected);
    refuses(DataType::Decimal256(76, 0), &[&format!("{nines}.5"), "1e76"], "does not fit");
    Ok(())
}

#[test]
fn strings() -> Outcome {
    let values = [
        r#""""#,
        r#""plain""#,
        r#""a\"b\\c\/d\b\f\n\r\t""#,
        r#""\u0041\u00e9\u20ac\ud83d\ude00\u0000""#,
        "\"é€😀 and some more text after it\"",
        "null",
        r#""12345678\n12345678\n""#,
    ];
    let expected = [
        Some(""),
        Some("plain"),
        Some("a\"b\\c/d\u{8}\u{c}\n\r\t"),
        Some("Aé€😀\0"),
        Some("é€😀 and some more text after it"),
        None,
        Some("12345678\n12345678\n"),
    ];
    assert_eq!(column(DataType::Utf8, &values)?.as_string::<i32>().iter().collect::<Vec<_>>(), expected);
    assert_eq!(column(DataType::LargeUtf8, &values)?.as_string::<i64>().iter().collect::<Vec<_>>(), expected);
    assert_eq!(column(DataType::Utf8View, &values)?.as_string_view().iter().collect::<Vec<_>>(), expected);
    refuses(DataType::Utf8, &["1", "true", "[]", "{}"], "expected a string, found");
    refuses(
        DataType::Utf8,
        &[r#""\ud83d""#, r#""\ude00""#, r#""\ud83d\ud83d""#, r#""\ud83dx""#, r#""\ud83d\u0041""#, r#""\ud83d\uffff""#],
        "surrogate",
    );
    refuses(DataType::Utf8, &["\"a\nb\"", "\"\0\"", "\"1234567\u{1f}9\""], "control character");
    refuses(
        DataType::Utf8,
        &[r#""\x""#, r#""\u12"#, r#""\u12g4""#, r#""\u+123""#, "\"abc", "\"abc\\", "'a'"],
        "not JSON",
    );
    // Every place of the byte that ends a run of plain text.
    for length in 0..40 {
        let text = "x".repeat(length);
        let values = [format!("\"{text}\""), format!("\"{text}\\n{text}\"")];
        let array = column(DataType::Utf8, &[&values[0], &values[1]])?;
        assert_eq!(array.as_string::<i32>().value(0), text);
        assert_eq!(array.as_string::<i32>().value(1), format!("{text}\n{text}"));
    }
    Ok(())
}

#[test]
fn binary() -> Outcome {
    let values = [r#""""#, r#""aGk=""#, r#""aGk""#, r#""\u0061G\u006b=""#, r#""+/+/""#, "null"];
    let expected: [Option<&[u8]>; 6] = [Some(b""), Some(b"hi"), Some(b"hi"), Some(b"hi"), Some(b"\xfb\xff\xbf"), None];
    assert_eq!(column(DataType::Binary, &values)?.as_binary::<i32>().iter().collect::<Vec<_>>(), expected);
    assert_eq!(column(DataType::LargeBinary, &values)?.as_binary::<i64>().iter().collect::<Vec<_>>(), expected);
    assert_eq!(column(DataType::BinaryView, &values)?.as_binary_view().iter().collect::<Vec<_>>(), expected);
    refuses(DataType::Binary, &[r#""a""#, r#""-_-_""#, r#""aG k""#, r#""aGl=""#, r#""aGk==""#], "not standard base64");
    refuses(DataType::Binary, &["1", "[1,2]"], "expected a string");
    Ok(())
}

#[test]
fn dates() -> Outcome {
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

#[test]
fn timestamps() -> Outcome {
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
    refuses(utc(TimeUnit::Second), &["1.5", "9223372036854775808"], "does not fit Timestamp");
    refuses(utc(TimeUnit::Second), &["true"], "expected a timestamp");

    // What nanoseconds in 64 bits reach, to the last one.
    let ends = ["\"1677-09-21T00:12:43.145224192Z\"", "\"2262-04-11T23:47:16.854775807Z\""];
    let array = column(utc(TimeUnit::Nanosecond), &ends)?;
    assert_eq!(array.as_primitive::<TimestampNanosecondType>().values().as_ref(), [i64::MIN, i64::MAX]);
    refuses(
        utc(TimeUnit::Nanosecond),
        &["\"1677-09-21T00:12:43.145224191Z\"", "\"2262-04-11T23:47:16.854775808Z\""],
        "does not fit",
    );
    Ok(())
}

#[test]
fn lists() -> Outcome {
    let list = |nullable| DataType::List(Arc::new(Field::new("item", DataType::Int64, nullable)));
    let array = column(list(true), &["[1, null ,3]", "[]", "null", "[ ]", "[4]"])?;
    let expected = ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(1), None, Some(3)]),
        Some(vec![]),
        None,
        Some(vec![]),
        Some(vec![Some(4)]),
    ]);
    assert_eq!(*array.as_list::<i32>(), expected);
    let inner = Arc::new(Field::new("item", list(true), true));
    let array = column(DataType::LargeList(inner), &["[[1],null,[]]"])?;
    assert_eq!(
        array.as_list::<i64>().value(0).as_list::<i32>().iter().map(|l| l.map(|l| l.len())).collect::<Vec<_>>(),
        [Some(1), None, Some(0)]
    );
    refuses(list(true), &["[1,]", "[,1]", "[1 2]", "[1", "[1}"], "not JSON");
    let problem = column(list(false), &["[1]", "[1,null]"]);
    assert_eq!(problem.err().as_deref(), Some("1|x[]|null, and the schema says not nullable"));
    Ok(())
}

#[test]
fn structs_and_their_nulls() -> Outcome {
    let inner = fields(vec![Field::new("must", DataType::Int64, false), nullable("may", DataType::Utf8)]);
    let outer = fields(vec![nullable("s", DataType::Struct(inner.clone())), nullable("n", DataType::Int64)]);
    let mut decoder = Decoder::new(&outer, Mode::Permissive)?;
    let decoded = decoder
        .decode(&payloads(&[
            br#"{"s":{"must":1,"may":"a"},"n":1}"#,
            br#"{"s":null}"#,
            br#"{}"#,
            br#"{"n":2,"s":{"must":2}}"#,
            br#"{"s":{"may":"b"}}"#,
            br#"{"s":{"must":null}}"#,
            br#"{"n":3,"s":{"must":3,"may":null,"more":[{"x":[1,2,{}]}]},"extra":{"a":[true,false,null,"x\n",-1.5e3]}}"#,
        ]))
        .map_err(words)?;
    let value = decoded.value;
    assert_eq!(
        (0..7).map(|row| value.is_null(row)).collect::<Vec<_>>(),
        [false, false, false, false, true, true, false]
    );
    let s = value.column(0).as_struct();
    assert_eq!((0..7).map(|row| s.is_valid(row)).collect::<Vec<_>>(), [true, false, false, true, false, false, true]);
    assert_eq!(s.column(0).as_primitive::<Int64Type>().value(6), 3);
    assert_eq!(
        value.column(1).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(),
        [Some(1), None, None, Some(2), None, None, Some(3)]
    );

    let mut decoder = Decoder::new(&outer, Mode::FailFast)?;
    for (text, problem) in [
        (r#"{"s":{"may":"b"}}"#, "0|s.must|missing, and the schema says not nullable"),
        (r#"{"s":{"must":null}}"#, "0|s.must|null, and the schema says not nullable"),
        (r#"{"s":{"must":"1"}}"#, "0|s.must|expected an integer, found a string"),
        (r#"{"s":[]}"#, "0|s|expected an object, found an array"),
        (r#"{"s":{"must":1e30}}"#, "0|s.must|1e30 does not fit Int64"),
    ] {
        assert_eq!(decoder.decode(&payloads(&[text.as_bytes()])).err().map(words).as_deref(), Some(problem));
    }
    // The decoder works on after an error, and for no rows and no fields.
    assert_eq!(decoder.decode(&payloads(&[b"{}"])).map_err(words)?.value.len(), 1);
    assert_eq!(decoder.decode(&payloads(&[])).map_err(words)?.value.len(), 0);
    let mut none = Decoder::new(&Fields::empty(), Mode::Permissive)?;
    let decoded = none.decode(&payloads(&[b"{\"a\":1}", b"[]"])).map_err(words)?;
    assert_eq!((decoded.value.len(), decoded.value.is_null(0), decoded.value.is_null(1)), (2, false, true));
    Ok(())
}

fn map_of(value: DataType) -> DataType {
    let pair = fields(vec![Field::new("key", DataType::Utf8, false), nullable("value", value)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair), false)), false)
}

fn entries(map: &MapArray, row: usize) -> Vec<(String, Option<i64>)> {
    let entries = map.value(row);
    let keys = entries.column(0).as_string::<i32>();
    let values = entries.column(1).as_primitive::<Int64Type>();
    keys.iter().zip(values.iter()).map(|(key, value)| (key.unwrap_or_default().to_owned(), value)).collect()
}

#[test]
fn maps() -> Outcome {
    let texts = [r#"{"a":1,"b\n":null}"#, "{}", "null", r#"{ "a" : 1 , "b" : 2 , "\u0061" : 3 }"#];
    let array = column(map_of(DataType::Int64), &texts)?;
    let map = array.as_map();
    assert_eq!(entries(map, 0), [("a".into(), Some(1)), ("b\n".into(), None)]);
    assert_eq!(entries(map, 1), []);
    assert!(map.is_null(2));
    assert_eq!(entries(map, 3), [("a".into(), Some(3)), ("b".into(), Some(2))]);
    refuses(map_of(DataType::Int64), &["[]", "1"], "expected an object");
    let problem = column(map_of(DataType::Int64), &[r#"{"a":1,"k":"v"}"#]);
    assert_eq!(problem.err().as_deref(), Some("0|x.k|expected an integer, found a string"));

    // Many keys, each twice, in nested maps.
    let many: Vec<String> = (0..200).map(|i| format!(r#""k{}":{{"n":{i},"n":{}}}"#, i % 100, i + 1)).collect();
    let array = column(map_of(map_of(DataType::Int64)), &[&format!("{{{}}}", many.join(",")), r#"{"z":{}}"#])?;
    assert_eq!((array.as_map().value_length(0), array.as_map().value_length(1)), (100, 1));
    let first = array.as_map().value(0);
    assert_eq!(entries(first.column(1).as_map(), 0), [("n".into(), Some(101))]);
    Ok(())
}

#[test]
fn names_in_any_order_twice_and_escaped() -> Outcome {
    let names = ["a", "b", "q\"\\\u{1}é", ""];
    let schema = fields(names.iter().map(|name| nullable(name, DataType::Int64)).collect());
    let mut decoder = Decoder::new(&schema, Mode::FailFast)?;
    let rows: [&[u8]; 7] = [
        r#"{"a":1,"b":2,"q\"\\\u0001é":3,"":4}"#.as_bytes(),
        r#"{"":4,"q\"\\\u0001\u00e9":3,"b":2,"a":1}"#.as_bytes(),
        r#"{"\u0061":1,"A":9,"b":2,"q\"\\\u0001é":3,"":4,"x":null}"#.as_bytes(),
        r#"{"a":7,"a":8,"b":null,"b":2,"q\"\\\u0001é":3,"":4,"a":1}"#.as_bytes(),
        b" \t\r\n{ \"a\" : 1 , \"b\" : 2 , \"q\\\"\\\\\\u0001\\u00e9\" : 3 , \"\" : 4 } \n",
        r#"{"x":{"a":5},"a":1,"y":[{"b":6}],"b":2,"q\"\\\u0001é":3,"":4}"#.as_bytes(),
        r#"{"a":1,"b":2,"q\"\\\u0001é":3,"":4}"#.as_bytes(),
    ];
    let value = decoder.decode(&payloads(&rows)).map_err(words)?.value;
    for (index, expected) in [1, 2, 3, 4].into_iter().enumerate() {
        assert_eq!(*value.column(index).as_primitive::<Int64Type>(), Int64Array::from(vec![expected; 7]));
    }
    // An earlier one of the same name has to be right as well.
    let wrong = decoder.decode(&payloads(&[br#"{"a":"x","a":1}"#]));
    assert_eq!(wrong.err().map(words).as_deref(), Some("0|a|expected an integer, found a string"));
    // More fields than are compared one by one; lists, strings and structs are replaced as well.
    let item = Arc::new(nullable("item", DataType::Utf8));
    let mut wide: Vec<Field> = (0..40).map(|i| nullable(&format!("f{i}"), DataType::Int64)).collect();
    wide.push(nullable("l", DataType::List(item)));
    let mut decoder = Decoder::new(&fields(wide), Mode::FailFast)?;
    let text = r#"{"l":["x","y"],"f39":39,"f0":1,"l":null,"none":0,"f0":0,"l":["z"]}"#;
    let value = decoder.decode(&payloads(&[text.as_bytes()])).map_err(words)?.value;
    assert_eq!(value.column(39).as_primitive::<Int64Type>().value(0), 39);
    assert_eq!(value.column(0).as_primitive::<Int64Type>().value(0), 0);
    assert_eq!(value.column(40).as_list::<i32>().value(0).as_string::<i32>().value(0), "z");
    assert_eq!(value.null_count() + value.column(0).null_count() + value.column(40).null_count(), 0);
    Ok(())
}

const MALFORMED: [(&[u8], &str, &str); 25] = [
    (b"", "", "not JSON: the text is empty, at byte 0"),
    (b"  ", "", "not JSON: not a value, at byte 2"),
    (b"[]", "", "expected an object, found an array"),
    (b"7", "", "expected an object, found a number"),
    (b"\"x\"", "", "expected an object, found a string"),
    (b" null", "", "expected an object, found null"),
    (b"nul", "", "not JSON: not a value, at byte 0"),
    (b"{\"a\":1", "", "not JSON: expected a comma or the end of the object or array, at byte 6"),
    (b"{\"a\":1}x", "", "not JSON: text after the end of the document, at byte 7"),
    (b"{\"a\":1}{\"a\":2}", "", "not JSON: text after the end of the document, at byte 7"),
    (b"{\"a\":1,}", "", "not JSON: expected a name in quotes, at byte 7"),
    (b"{a:1}", "", "not JSON: expected a name in quotes, at byte 1"),
    (b"{\"a\" 1}", "", "not JSON: expected a colon, at byte 5"),
    (b"{\"a\":}", "a", "not JSON: not a value, at byte 5"),
    (b"{\"a\":\"1\"}", "a", "expected an integer, found a string"),
    (b"{\"a\":1.5}", "a", "1.5 does not fit Int8"),
    (b"{\"a\":128}", "a", "128 does not fit Int8"),
    (b"{\"a\":01}", "", "not JSON: expected a comma or the end of the object or array, at byte 6"),
    (b"{\"a\":1,\"s\":5}", "s", "expected a string, found a number"),
    (b"{\"s\":\"\xff\"}", "", "not UTF-8"),
    (b"{\"a\":NaN}", "a", "not JSON: not a value, at byte 5"),
    (b"{\"x\":[1,2}", "", "not JSON: expected a comma or the end of the object or array, at byte 9"),
    (b"{\"x\":\"\\ud800\"}", "", "not JSON: half of a surrogate pair, at byte 12"),
    (b"{\"x\":-}", "", "not JSON: a minus without digits, at byte 6"),
    (b"\xef\xbb\xbf{}", "", "not JSON: not a value, at byte 0"),
];

#[test]
fn every_malformation_by_every_mode() -> Outcome {
    let schema = fields(vec![
        nullable("a", DataType::Int8),
        nullable("s", DataType::Utf8),
        nullable("l", DataType::List(Arc::new(nullable("item", DataType::Int8)))),
    ]);
    let good: &[u8] = br#"{"a":1,"s":"x","l":[1,2]}"#;
    let mut rows = vec![good];
    for (text, column, reason) in MALFORMED {
        let batch = payloads(&[good, text, good]);
        let bad = Bad { row: 1, column: column.into(), reason: reason.into() };
        let mut decoder = Decoder::new(&schema, Mode::FailFast)?;
        assert_eq!(decoder.decode(&batch).err(), Some(Error::Malformed(bad)));
        assert_eq!(
            decoder.decode(&payloads(&[good])).map_err(words)?.value.column(2).as_list::<i32>().value_length(0),
            2
        );
        // The same, seen through a slice.
        assert_eq!(decoder.decode(&batch.slice(0, 1)).map_err(words)?.value.len(), 1);
        let Err(Error::Malformed(Bad { row: 0, .. })) = decoder.decode(&batch.slice(1, 2)) else {
            return Err("a slice".into());
        };
        rows.extend([text, good]);
    }
    let batch = payloads(&rows);
    let whole = Decoder::new(&schema, Mode::FailFast)?.decode(&payloads(&[good; 26])).map_err(words)?.value;

    let mut decoder = Decoder::new(&schema, Mode::Permissive)?;
    assert_eq!(decoder.corrupt_field().map(|field| field.name().clone()).as_deref(), Some("_corrupt_record"));
    let value = decoder.value_field();
    assert!(value.name() == "value" && value.is_nullable() && *value.data_type() == DataType::Struct(schema.clone()));
    for _ in 0..2 {
        let decoded = decoder.decode(&batch).map_err(words)?;
        let corrupt = decoded.corrupt.ok_or("no corrupt column")?;
        assert_eq!((decoded.value.len(), decoded.value.null_count(), corrupt.null_count()), (51, 25, 26));
        for (index, (text, ..)) in MALFORMED.iter().enumerate() {
            let row = 2 * index + 1;
            assert!(decoded.value.is_null(row) && decoded.value.is_valid(row + 1));
            let expected = std::str::from_utf8(text).map_or_else(|_| BASE64_STANDARD.encode(text), str::to_owned);
            assert_eq!(corrupt.value(row), expected);
            assert_eq!(decoded.value.slice(row + 1, 1), whole.slice(0, 1));
        }
    }

    let mut decoder = Decoder::new(&schema, Mode::DropMalformed)?;
    for _ in 0..2 {
        let decoded = decoder.decode(&batch).map_err(words)?;
        assert_eq!(decoded.value, whole);
        let keep = decoded.keep.ok_or("nothing dropped")?;
        assert!((0..51).all(|row| keep.value(row) == (row % 2 == 0)));
        assert!(decoder.decode(&payloads(&[good])).map_err(words)?.keep.is_none());
    }
    Ok(())
}

#[test]
fn characters_cut_between_rows_are_malformed_in_both() -> Outcome {
    let rows: [&[u8]; 4] = [b"{\"s\":\"\xc3", b"\xa9\"}", "{\"s\":\"é\"}".as_bytes(), b"{}"];
    let mut decoder = Decoder::new(&fields(vec![nullable("s", DataType::Utf8)]), Mode::DropMalformed)?;
    let decoded = decoder.decode(&payloads(&rows)).map_err(words)?;
    assert_eq!(decoded.keep, Some(BooleanArray::from(vec![false, false, true, true])));
    assert_eq!(decoded.value.column(0).as_string::<i32>().value(0), "é");
    Ok(())
}

#[test]
fn depth_is_limited() -> Outcome {
    let mut decoder = Decoder::new(&fields(vec![nullable("a", DataType::Int64)]), Mode::FailFast)?;
    for (open, close) in [("[", "]"), ("{\"x\":", "}")] {
        let nested = |depth: usize| format!("{{\"x\":{}1{}}}", open.repeat(depth), close.repeat(depth)).into_bytes();
        assert!(decoder.decode(&payloads(&[&nested(127)])).is_ok());
        for depth in [128, 1_000_000] {
            let problem = decoder.decode(&payloads(&[&nested(depth)])).err().map(words).unwrap_or_default();
            assert!(problem.contains("deeper than 128"), "{problem}");
        }
        let cut = open.repeat(1_000_000);
        assert!(decoder.decode(&payloads(&[format!("{{\"x\":{cut}").as_bytes()])).is_err());
    }
    let mut deep = DataType::Int64;
    for _ in 0..60 {
        deep = DataType::List(Arc::new(nullable("item", deep)));
    }
    let schema = |data_type| fields(vec![nullable("a", data_type)]);
    let mut decoder = Decoder::new(&schema(deep.clone()), Mode::FailFast)?;
    let text = format!("{{\"a\":{}1{}}}", "[".repeat(60), "]".repeat(60));
    assert!(decoder.decode(&payloads(&[text.as_bytes()])).is_ok());
    for _ in 0..10 {
        deep = DataType::List(Arc::new(nullable("item", deep)));
    }
    assert!(Decoder::new(&schema(deep), Mode::FailFast).is_err_and(|text| text.contains("nested deeper")));
    Ok(())
}

#[test]
fn unsupported_types_are_named() {
    let refuse = |data_type: DataType, path: &str| {
        let schema = fields(vec![nullable("s", DataType::Struct(fields(vec![nullable("x", data_type)])))]);
        let text = Decoder::new(&schema, Mode::Permissive).err().unwrap_or_default();
        assert!(
            text.starts_with(&format!("column {path:?} is ")) && text.contains("decimal") && text.contains("map"),
            "{text}"
        );
    };
    refuse(DataType::Date64, "s.x");
    refuse(DataType::Time64(TimeUnit::Nanosecond), "s.x");
    refuse(DataType::Duration(TimeUnit::Second), "s.x");
    refuse(DataType::FixedSizeBinary(4), "s.x");
    refuse(DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), "s.x");
    refuse(DataType::List(Arc::new(nullable("item", DataType::Date64))), "s.x[]");
    refuse(map_of(DataType::Date64), "s.x.*");
    refuse(DataType::Decimal128(39, 0), "s.x");
    refuse(DataType::Decimal32(0, 0), "s.x");
    let twice = fields(vec![nullable("a", DataType::Int8), nullable("a", DataType::Int8)]);
    assert!(Decoder::new(&twice, Mode::Permissive).is_err_and(|text| text.contains("\"a\" twice")));
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    fn pick<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.roll(texts.len())]
    }

    fn number(&mut self) -> String {
        match self.roll(6) {
            0 => self
                .pick(&[
                    "0",
                    "-0",
                    "-0.0",
                    "1e400",
                    "5e-324",
                    "9223372036854775807",
                    "-9223372036854775808",
                    "18446744073709551615",
                    "1e22",
                    "1e23",
                ])
                .into(),
            1 => format!("{}", self.roll(1000) as i64 - 500),
            2 => format!("{}.{}", self.roll(100), self.roll(1_000_000)),
            3 => format!("-{}.{}e{}", self.roll(10), self.roll(usize::MAX >> 12), self.roll(600) as i64 - 300),
            4 => format!("{}{}", 1 + self.roll(usize::MAX >> 12), self.roll(usize::MAX >> 12)),
            _ => format!("{:e}", f64::from_bits((self.roll(1 << 32) << 31) as u64 & !(1 << 62))),
        }
    }

    fn string(&mut self) -> String {
        let pieces = [
            "a",
            "bcdefgh",
            "é",
            "😀",
            "\\n",
            "\\\"",
            "\\\\",
            "\\u0041",
            "\\ud83d\\ude00",
            "\\/",
            " ",
            "longer text",
            "\u{7f}",
        ];
        let text: String = (0..self.roll(6)).map(|_| self.pick(&pieces)).collect();
        let wrong =
            if self.roll(60) == 0 { self.pick(&["\\ud800", "\\x", "\n", "\\u00", "\"", "\\ude00x"]) } else { "" };
        format!("\"{text}{wrong}\"")
    }

    fn value(&mut self, depth: usize) -> String {
        let space = self.pick(&["", "", "", " ", "\n\t"]);
        match self.roll(if depth > 3 { 6 } else { 9 }) {
            0 | 1 => self.number(),
            2 | 3 => self.string(),
            4 => self.pick(&["true", "false", "null"]).into(),
            5 => {
                if self.roll(20) == 0 {
                    self.pick(&["tru", "nan", "", "[1,]", "{,}", "01", "1.", "--1", "'a'"]).into()
                } else {
                    self.number()
                }
            }
            6 => self.object(depth + 1),
            _ => {
                let items: Vec<String> = (0..self.roll(4)).map(|_| self.value(depth + 1)).collect();
                format!("[{space}{}{space}]", items.join(&format!("{space},")))
            }
        }
    }

    /// Names of the schema and others, values mostly of the right type.
    fn object(&mut self, depth: usize) -> String {
        let mut members = Vec::new();
        for _ in 0..self.roll(7) {
            let name = self.pick(&["i", "f", "s", "b", "l", "o", "m", "x", "\\u0069"]);
            let right = self.roll(8) > 0;
            let value = match name {
                "i" if right => (self.roll(1 << 20) as i64 - 1000).to_string(),
                "f" if right => self.number(),
                "s" if right => self.string(),
                "b" if right => self.pick(&["true", "false", "null"]).into(),
                "l" if right => {
                    format!("[{}]", (0..self.roll(4)).map(|_| self.number()).collect::<Vec<_>>().join(", "))
                }
                "o" if right && depth < 4 => self.object(depth + 1),
                "m" if right => {
                    let pairs: Vec<_> =
                        (0..self.roll(4)).map(|_| format!("\"{}\":{}", self.roll(3), self.string())).collect();
                    format!("{{{}}}", pairs.join(","))
                }
                _ => self.value(depth),
            };
            let space = self.pick(&["", "", " "]);
            members.push(format!("{space}\"{name}\"{space}:{space}{value}{space}"));
        }
        format!("{{{}}}", members.join(","))
    }
}

fn random_schema() -> Fields {
    let leaves = vec![nullable("i", DataType::Int64), nullable("s", DataType::Utf8), nullable("f", DataType::Float64)];
    let mut all = leaves.clone();
    all.push(nullable("b", DataType::Boolean));
    all.push(nullable("l", DataType::List(Arc::new(nullable("item", DataType::Float64)))));
    all.push(nullable("o", DataType::Struct(fields(leaves))));
    all.push(nullable("m", map_of(DataType::Utf8)));
    fields(all)
}

/// What serde_json makes of the value, as the Arrow type sees it; None: the type does not fit.
fn expected(data_type: &DataType, value: Option<&Value>) -> Option<Value> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Some(Value::Null) };
    Some(match data_type {
        DataType::Int64 => match value.as_i64() {
            Some(int) => int.into(),
            // 1e3 is an integer, and so is -0.0.
            None => value
                .as_f64()
                .filter(|v| v.fract() == 0.0 && v.abs() < 9e18 && value.is_f64())
                .map(|v| v as i64)?
                .into(),
        },
        DataType::Float64 => value.as_f64()?.into(),
        DataType::Utf8 => value.as_str()?.into(),
        DataType::Boolean => value.as_bool()?.into(),
        DataType::List(item) => value
            .as_array()?
            .iter()
            .map(|value| expected(item.data_type(), Some(value)))
            .collect::<Option<Vec<_>>>()?
            .into(),
        DataType::Struct(fields) => {
            let object = value.as_object()?;
            let members =
                fields.iter().map(|f| Some((f.name().clone(), expected(f.data_type(), object.get(f.name()))?)));
            Value::Object(members.collect::<Option<Map<_, _>>>()?)
        }
        _ => {
            let strings = value.as_object()?.iter();
            Value::Object(
                strings
                    .map(|(k, v)| Some((k.clone(), expected(&DataType::Utf8, Some(v))?)))
                    .collect::<Option<Map<_, _>>>()?,
            )
        }
    })
}

fn actual(array: &dyn Array, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|i| actual(&items, i)).collect::<Vec<_>>().into()
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            fields
                .iter()
                .zip(columns)
                .map(|(f, column)| (f.name().clone(), actual(column, row)))
                .collect::<Map<_, _>>()
                .into()
        }
        _ => {
            let entries = array.as_map().value(row);
            let keys = entries.column(0).as_string::<i32>();
            (0..entries.len())
                .map(|i| (keys.value(i).to_owned(), actual(entries.column(1), i)))
                .collect::<Map<_, _>>()
                .into()
        }
    }
}

/// The same but for the last bit of a double, which serde_json does not promise.
fn same(got: &Value, want: &Value) -> bool {
    match (got, want) {
        (Value::Number(got), Value::Number(want)) if got.is_f64() && want.is_f64() => {
            let (got, want) = (got.as_f64().unwrap_or(f64::NAN), want.as_f64().unwrap_or(f64::NAN));
            (got - want).abs() <= 4.0 * f64::EPSILON * want.abs().max(f64::MIN_POSITIVE)
        }
        (Value::Array(got), Value::Array(want)) => {
            got.len() == want.len() && got.iter().zip(want).all(|(got, want)| same(got, want))
        }
        (Value::Object(got), Value::Object(want)) => {
            got.len() == want.len() && got.iter().all(|(name, got)| want.get(name).is_some_and(|want| same(got, want)))
        }
        _ => got == want,
    }
}

/// An earlier member of the same name that is wrong makes the row malformed here, while serde_json's tree forgets it.
fn repeats_a_name(text: &str) -> bool {
    let text = text.replace("\\u0069", "i");
    let names = ["i", "f", "s", "b", "l", "o", "m", "x"];
    names.iter().any(|name| text.matches(&format!("\"{name}\"")).count() > 1)
}

/// Has a number that a double cannot hold exactly, and that may stand for an integer.
fn beyond_doubles(text: &str) -> bool {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | 'e' | '-'));
    numbers.any(|number| number.contains(['.', 'e']) && number.len() > 16)
}

#[test]
fn agrees_with_serde_json() -> Outcome {
    let schema = random_schema();
    let root = DataType::Struct(schema.clone());
    let mut decoder = Decoder::new(&schema, Mode::Permissive)?;
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let (mut good, mut malformed, mut unclear) = (0, 0, 0);
    for _ in 0..300 {
        let texts: Vec<String> =
            (0..100).map(|_| if dice.roll(30) == 0 { dice.value(0) } else { dice.object(0) }).collect();
        let batch = BinaryArray::from_iter_values(texts.iter().map(String::as_bytes));
        let decoded = decoder.decode(&batch).map_err(words)?;
        for (row, text) in texts.iter().enumerate() {
            let tree = serde_json::from_str::<Value>(text);
            // serde_json refuses a number beyond a double even where nobody asks for it.
            let beyond = tree.as_ref().is_err_and(|e| e.to_string().contains("number out of range"));
            let tree = tree.ok().filter(Value::is_object);
            let want = tree.and_then(|tree| expected(&root, Some(&tree))).unwrap_or_default();
            let got = actual(&decoded.value, row);
            match (got.is_null(), same(&got, &want)) {
                (true, true) => malformed += 1,
                (false, true) => good += 1,
                (refused, _) => {
                    assert!(
                        beyond || beyond_doubles(text) || refused && repeats_a_name(text),
                        "{text}\n got {got}\nwant {want}"
                    );
                    unclear += 1;
                }
            }
        }
    }
    assert!(good > 8_000 && malformed > 8_000 && unclear < 3_000, "{good} {malformed} {unclear}");
    Ok(())
}

#[test]
fn bytes_of_any_kind_neither_panic_nor_hang() -> Outcome {
    let mut all = random_schema().iter().map(|field| field.as_ref().clone()).collect::<Vec<_>>();
    all.push(nullable("d", DataType::Decimal128(20, 5)));
    all.push(nullable("w", DataType::Decimal256(70, -5)));
    all.push(nullable("y", DataType::Binary));
    all.push(nullable("t", DataType::Timestamp(TimeUnit::Nanosecond, None)));
    let schema = fields(all);
    let alphabet = b"{}[]\":,\\ untrfalse0123456789.eE+-isfblomdwytx\xc3\xa9\x00\n=TZ/";
    let mut dice = Dice(42);
    for mode in [Mode::Permissive, Mode::DropMalformed, Mode::FailFast] {
        let mut decoder = Decoder::new(&schema, mode)?;
        for round in 0..3_000 {
            let rows: Vec<Vec<u8>> = (0..8)
                .map(|_| {
                    let mut text = match round % 3 {
                        0 => (0..dice.roll(60)).map(|_| alphabet[dice.roll(alphabet.len())]).collect(),
                        1 => (0..dice.roll(60)).map(|_| dice.roll(256) as u8).collect(),
                        _ => dice.object(0).into_bytes(),
                    };
                    // A good document with a few bytes changed, cut or doubled reaches further than noise.
                    for _ in 0..dice.roll(3) {
                        let place = dice.roll(text.len() + 1);
                        match dice.roll(3) {
                            0 if place < text.len() => text[place] = alphabet[dice.roll(alphabet.len())],
                            1 => text.truncate(place),
                            _ => text.insert(place, alphabet[dice.roll(alphabet.len())]),
                        }
                    }
                    text
                })
                .collect();
            let batch = BinaryArray::from_iter_values(&rows);
            match decoder.decode(&batch) {
                Ok(decoded) => {
                    let kept = decoded.keep.as_ref().map_or(rows.len(), BooleanArray::true_count);
                    assert_eq!(decoded.value.len(), kept);
                    if let Some(corrupt) = decoded.corrupt {
                        assert!((0..kept).all(|row| decoded.value.is_valid(row) != corrupt.is_valid(row)));
                    }
                }
                Err(Error::Malformed(bad)) => assert!(mode == Mode::FailFast && bad.row < rows.len()),
                Err(Error::Internal(text)) => return Err(text.into()),
            }
        }
    }
    Ok(())
}

#[test]
fn doubles_are_the_nearest() -> Outcome {
    let mut dice = Dice(7);
    let texts: Vec<String> =
        (0..20_000).map(|_| dice.number()).filter(|text| text.parse().is_ok_and(f64::is_finite)).collect();
    let array = column(DataType::Float64, &texts.iter().map(String::as_str).collect::<Vec<_>>())?;
    let expected: Vec<f64> = texts.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    assert_eq!(*array.as_primitive::<Float64Type>(), Float64Array::from(expected));
    let small: Vec<&String> = texts.iter().filter(|text| text.parse().is_ok_and(f32::is_finite)).collect();
    let array = column(DataType::Float32, &small.iter().map(|text| text.as_str()).collect::<Vec<_>>())?;
    for (row, text) in small.iter().enumerate() {
        assert_eq!(array.as_primitive::<Float32Type>().value(row).to_bits(), text.parse::<f32>()?.to_bits(), "{text}");
    }
    Ok(())
}
