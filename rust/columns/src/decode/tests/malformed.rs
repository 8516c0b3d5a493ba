//! Tests of malformed rows in every mode, of excessive nesting and of unsupported types.

use arrow_schema::IntervalUnit;

use super::*;

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
fn malformed_row_is_handled_by_every_mode() -> TestResult {
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
        let mut decoder = Decoder::new(&schema, OnMismatch::FailFast)?;
        assert_eq!(decoder.decode(&batch).err(), Some(DecodeError::Malformed(bad)));
        assert_eq!(
            decoder.decode(&payloads(&[good])).map_err(words)?.value.column(2).as_list::<i32>().value_length(0),
            2
        );
        // The same rows in a slice.
        assert_eq!(decoder.decode(&batch.slice(0, 1)).map_err(words)?.value.len(), 1);
        let Err(DecodeError::Malformed(Bad { row: 0, .. })) = decoder.decode(&batch.slice(1, 2)) else {
            return Err("a slice".into());
        };
        rows.extend([text, good]);
    }
    let batch = payloads(&rows);
    let whole = Decoder::new(&schema, OnMismatch::FailFast)?.decode(&payloads(&[good; 26])).map_err(words)?.value;

    let mut decoder = Decoder::new(&schema, OnMismatch::Permissive)?;
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

    let mut decoder = Decoder::new(&schema, OnMismatch::DropMalformed)?;
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
fn character_split_between_rows_makes_both_malformed() -> TestResult {
    let rows: [&[u8]; 4] = [b"{\"s\":\"\xc3", b"\xa9\"}", "{\"s\":\"é\"}".as_bytes(), b"{}"];
    let mut decoder = Decoder::new(&fields(vec![nullable("s", DataType::Utf8)]), OnMismatch::DropMalformed)?;
    let decoded = decoder.decode(&payloads(&rows)).map_err(words)?;
    assert_eq!(decoded.keep, Some(BooleanArray::from(vec![false, false, true, true])));
    assert_eq!(decoded.value.column(0).as_string::<i32>().value(0), "é");
    Ok(())
}

#[test]
fn excessive_nesting_is_malformed() -> TestResult {
    let mut decoder = Decoder::new(&fields(vec![nullable("a", DataType::Int64)]), OnMismatch::FailFast)?;
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
    let mut decoder = Decoder::new(&schema(deep.clone()), OnMismatch::FailFast)?;
    let text = format!("{{\"a\":{}1{}}}", "[".repeat(60), "]".repeat(60));
    assert!(decoder.decode(&payloads(&[text.as_bytes()])).is_ok());
    for _ in 0..10 {
        deep = DataType::List(Arc::new(nullable("item", deep)));
    }
    assert!(Decoder::new(&schema(deep), OnMismatch::FailFast).is_err_and(|text| text.contains("nested deeper")));
    Ok(())
}

#[test]
fn unsupported_types_are_named() {
    let refuse = |data_type: DataType, path: &str| {
        let schema = fields(vec![nullable("s", DataType::Struct(fields(vec![nullable("x", data_type)])))]);
        let text = Decoder::new(&schema, OnMismatch::Permissive).err().unwrap_or_default();
        assert!(
            text.starts_with(&format!("column {path:?} is ")) && text.contains("decimal") && text.contains("map"),
            "{text}"
        );
    };
    let interval = DataType::Interval(IntervalUnit::DayTime);
    refuse(interval.clone(), "s.x");
    refuse(DataType::FixedSizeBinary(0), "s.x");
    refuse(DataType::Dictionary(Box::new(DataType::Int8), Box::new(interval.clone())), "s.x");
    refuse(DataType::List(Arc::new(nullable("item", interval.clone()))), "s.x[]");
    refuse(map_of(interval), "s.x.*");
    refuse(DataType::Decimal128(39, 0), "s.x");
    refuse(DataType::Decimal32(0, 0), "s.x");
    let twice = fields(vec![nullable("a", DataType::Int8), nullable("a", DataType::Int8)]);
    assert!(Decoder::new(&twice, OnMismatch::Permissive).is_err_and(|text| text.contains("\"a\" twice")));
}
