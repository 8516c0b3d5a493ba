//! Tests of null, booleans, strings and binary.

use super::*;

#[test]
fn null_and_bool_are_decoded() -> TestResult {
    assert_eq!(column(DataType::Null, &["null", "null"])?.len(), 2);
    refuses(DataType::Null, &["0", "false", "\"\""], "expected null");
    let array = column(DataType::Boolean, &["true", "null", "false"])?;
    assert_eq!(array.as_boolean().iter().collect::<Vec<_>>(), [Some(true), None, Some(false)]);
    refuses(DataType::Boolean, &["0", "1", "\"true\""], "expected a boolean");
    refuses(DataType::Boolean, &["tru", "True", "falsy"], "not JSON");
    Ok(())
}

#[test]
fn strings_are_decoded() -> TestResult {
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
    // Every position of the byte that ends a run of plain text.
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
fn base64_is_decoded() -> TestResult {
    let values = [r#""""#, r#""aGk=""#, r#""aGk""#, r#""\u0061G\u006b=""#, r#""+/+/""#, "null"];
    let expected: [Option<&[u8]>; 6] = [Some(b""), Some(b"hi"), Some(b"hi"), Some(b"hi"), Some(b"\xfb\xff\xbf"), None];
    assert_eq!(column(DataType::Binary, &values)?.as_binary::<i32>().iter().collect::<Vec<_>>(), expected);
    assert_eq!(column(DataType::LargeBinary, &values)?.as_binary::<i64>().iter().collect::<Vec<_>>(), expected);
    assert_eq!(column(DataType::BinaryView, &values)?.as_binary_view().iter().collect::<Vec<_>>(), expected);
    refuses(DataType::Binary, &[r#""a""#, r#""-_-_""#, r#""aG k""#, r#""aGl=""#, r#""aGk==""#], "not standard base64");
    refuses(DataType::Binary, &["1", "[1,2]"], "expected a string");
    Ok(())
}
