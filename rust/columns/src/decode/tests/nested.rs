//! Tests of lists, structs, maps and member names.

use arrow_array::types::*;
use arrow_array::{Int64Array, ListArray, MapArray};

use super::*;

#[test]
fn lists_are_decoded() -> TestResult {
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
fn structs_and_their_nulls_are_decoded() -> TestResult {
    let inner = fields(vec![Field::new("must", DataType::Int64, false), nullable("may", DataType::Utf8)]);
    let outer = fields(vec![nullable("s", DataType::Struct(inner.clone())), nullable("n", DataType::Int64)]);
    let mut decoder = Decoder::new(&outer, OnMismatch::Permissive)?;
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

    let mut decoder = Decoder::new(&outer, OnMismatch::FailFast)?;
    for (text, problem) in [
        (r#"{"s":{"may":"b"}}"#, "0|s.must|missing, and the schema says not nullable"),
        (r#"{"s":{"must":null}}"#, "0|s.must|null, and the schema says not nullable"),
        (r#"{"s":{"must":"1"}}"#, "0|s.must|expected an integer, found a string"),
        (r#"{"s":[]}"#, "0|s|expected an object, found an array"),
        (r#"{"s":{"must":1e30}}"#, "0|s.must|1e30 does not fit Int64"),
    ] {
        assert_eq!(decoder.decode(&payloads(&[text.as_bytes()])).err().map(words).as_deref(), Some(problem));
    }
    // The decoder remains usable after an error, and decodes no rows and no fields.
    assert_eq!(decoder.decode(&payloads(&[b"{}"])).map_err(words)?.value.len(), 1);
    assert_eq!(decoder.decode(&payloads(&[])).map_err(words)?.value.len(), 0);
    let mut none = Decoder::new(&Fields::empty(), OnMismatch::Permissive)?;
    let decoded = none.decode(&payloads(&[b"{\"a\":1}", b"[]"])).map_err(words)?;
    assert_eq!((decoded.value.len(), decoded.value.is_null(0), decoded.value.is_null(1)), (2, false, true));
    Ok(())
}

fn entries(map: &MapArray, row: usize) -> Vec<(String, Option<i64>)> {
    let entries = map.value(row);
    let keys = entries.column(0).as_string::<i32>();
    let values = entries.column(1).as_primitive::<Int64Type>();
    keys.iter().zip(values.iter()).map(|(key, value)| (key.unwrap_or_default().to_owned(), value)).collect()
}

#[test]
fn maps_are_decoded() -> TestResult {
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
fn names_in_any_order_repeated_and_escaped_are_matched() -> TestResult {
    let names = ["a", "b", "q\"\\\u{1}é", ""];
    let schema = fields(names.iter().map(|name| nullable(name, DataType::Int64)).collect());
    let mut decoder = Decoder::new(&schema, OnMismatch::FailFast)?;
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
    // An earlier member of the same name has to be valid too.
    let wrong = decoder.decode(&payloads(&[br#"{"a":"x","a":1}"#]));
    assert_eq!(wrong.err().map(words).as_deref(), Some("0|a|expected an integer, found a string"));
    // More fields than the linear search covers. Repeated lists, strings and structs are replaced too.
    let item = Arc::new(nullable("item", DataType::Utf8));
    let mut wide: Vec<Field> = (0..40).map(|i| nullable(&format!("f{i}"), DataType::Int64)).collect();
    wide.push(nullable("l", DataType::List(item)));
    let mut decoder = Decoder::new(&fields(wide), OnMismatch::FailFast)?;
    let text = r#"{"l":["x","y"],"f39":39,"f0":1,"l":null,"none":0,"f0":0,"l":["z"]}"#;
    let value = decoder.decode(&payloads(&[text.as_bytes()])).map_err(words)?.value;
    assert_eq!(value.column(39).as_primitive::<Int64Type>().value(0), 39);
    assert_eq!(value.column(0).as_primitive::<Int64Type>().value(0), 0);
    assert_eq!(value.column(40).as_list::<i32>().value(0).as_string::<i32>().value(0), "z");
    assert_eq!(value.null_count() + value.column(0).null_count() + value.column(40).null_count(), 0);
    Ok(())
}
