//! Tests of resolution, defaults and fingerprints. Random data are compared with fastavro in tests/test_avro.py.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};

use super::*;

fn schema(text: &str) -> Arc<AvroSchema> {
    AvroSchema::parse(text).unwrap()
}

fn record(fields: &str) -> Arc<AvroSchema> {
    schema(&format!(r#"{{"type":"record","name":"R","fields":[{fields}]}}"#))
}

/// Reads payloads of one schema as rows of another; `None` for a malformed one.
fn resolved(writer: &AvroSchema, reader: &AvroSchema, payloads: &[&[u8]]) -> Result<Vec<Option<ArrayRef>>, String> {
    let plan = AvroReader::new(writer, reader)?;
    let read = |payload: &&[u8]| {
        let mut row = rows(reader).unwrap();
        plan.read(payload, &mut row).ok().map(|()| row.finish().unwrap())
    };
    Ok(payloads.iter().map(read).collect())
}

fn one(writer: &AvroSchema, reader: &AvroSchema, payload: &[u8]) -> ArrayRef {
    resolved(writer, reader, &[payload]).unwrap()[0].clone().unwrap()
}

#[test]
fn fields_are_found_by_name_skipped_and_have_defaults() {
    let writer = record(
        r#"{"name":"gone","type":{"type":"map","values":{"type":"array","items":["null","string"]}}},
           {"name":"a","type":"int"},{"name":"old","type":"string"}"#,
    );
    let reader = record(
        r#"{"name":"new","type":{"type":"array","items":"long"},"default":[1,-2]},
           {"name":"b","type":"bytes","aliases":["old"]},
           {"name":"a","type":["null","double"]},
           {"name":"text","type":["string","null"],"default":"é"},
           {"name":"none","type":["null","int"],"default":null}"#,
    );
    // {"k": [null, "x"]}, 7, "hi"
    let payload = [2, 2, b'k', 4, 0, 2, 2, b'x', 0, 0, 14, 4, b'h', b'i'];
    let row = one(&writer, &reader, &payload);
    let row = row.as_struct();
    assert_eq!(row.column(0).as_list::<i32>().value(0).as_primitive::<Int64Type>().values(), &[1, -2]);
    assert_eq!(row.column(1).as_binary::<i32>().value(0), b"hi");
    assert_eq!(row.column(2).as_primitive::<Float64Type>().value(0), 7.0);
    assert_eq!(row.column(3).as_string::<i32>().value(0), "é");
    assert!(row.column(4).is_null(0));
    for cut in 0..payload.len() {
        assert!(resolved(&writer, &reader, &[&payload[..cut]]).unwrap()[0].is_none());
    }
}

#[test]
fn blocks_with_a_size_and_several_blocks_are_read() {
    let list = record(r#"{"name":"a","type":{"type":"array","items":"int"}}"#);
    let row = one(&list, &list, &[1, 2, 2, 4, 4, 6, 0]);
    assert_eq!(row.as_struct().column(0).as_list::<i32>().value(0).as_primitive::<Int32Type>().values(), &[1, 2, 3]);
    let map = record(r#"{"name":"a","type":{"type":"map","values":"int"}}"#);
    assert!(resolved(&map, &map, &[&[2, 2, b'k', 2, 2, 2, b'k', 4, 0]]).unwrap()[0].is_none());
}

#[test]
fn branches_and_symbols_that_do_not_fit_are_malformed_in_their_row_only() {
    let writer = record(r#"{"name":"a","type":["string","int","null"]}"#);
    let reader = record(r#"{"name":"a","type":["null","long"]}"#);
    let found = resolved(&writer, &reader, &[&[2, 6], &[0, 2, b'x'], &[4], &[6]]).unwrap();
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true, false]);
    let symbols = |symbols: &str, default: &str| {
        record(&format!(r#"{{"name":"e","type":{{"type":"enum","name":"E","symbols":[{symbols}]{default}}}}}"#))
    };
    let writer = symbols(r#""A","B","C""#, "");
    let reader = symbols(r#""C","A""#, "");
    let found = resolved(&writer, &reader, &[&[0], &[2], &[4]]).unwrap();
    let text = |row: &Option<ArrayRef>| {
        row.as_ref().map(|row| {
            let column = row.as_struct().column(0).as_dictionary::<Int32Type>();
            column.values().as_string::<i32>().value(column.key(0).unwrap()).to_owned()
        })
    };
    assert_eq!(found.iter().map(text).collect::<Vec<_>>(), [Some("A".into()), None, Some("C".into())]);
    let with_default = symbols(r#""C","A""#, r#","default":"C""#);
    assert_eq!(text(&Some(one(&writer, &with_default, &[2]))), Some("C".into()));
}

#[test]
fn schemas_that_do_not_fit_are_refused_by_name() {
    let of = |kind: &str| record(&format!(r#"{{"name":"a","type":{kind}}}"#));
    let refused = |writer: &str, reader: &str| AvroReader::new(&of(writer), &of(reader)).err().unwrap_or_default();
    assert_eq!(refused(r#""long""#, r#""int""#), r#"column "a" is long in the data, and int in the schema"#);
    assert!(refused(r#"["null","int"]"#, r#""string""#).contains("is union in the data, and string"));
    let fixed = |name: &str, size: usize| format!(r#"{{"type":"fixed","name":"{name}","size":{size}}}"#);
    assert!(refused(&fixed("F", 4), &fixed("F", 5)).contains("is F in the data"));
    assert!(refused(&fixed("F", 4), &fixed("G", 4)).contains("and G in the schema"));
    let time = |unit: &str| format!(r#"{{"type":"long","logicalType":"timestamp-{unit}"}}"#);
    assert!(refused(&time("millis"), &time("micros")).contains("column \"a\" is Timestamp"));
    let reader = record(r#"{"name":"a","type":"int"},{"name":"b","type":"int"}"#);
    let missing = AvroReader::new(&of(r#""int""#), &reader).err();
    assert_eq!(missing.as_deref(), Some(r#"column "b" is not in the data, and has no default"#));
    let wrong = record(r#"{"name":"b","type":"int","default":"x"}"#);
    let wrong = AvroReader::new(&record(""), &wrong).err().unwrap_or_default();
    assert_eq!(wrong, r#"default of column "b": "x" is not int"#);
}

#[test]
fn names_have_namespaces_and_aliases() {
    let nested = schema(
        r#"{"type":"record","name":"a.b.R","fields":[
            {"name":"x","type":{"type":"fixed","name":"F","size":2}},{"name":"y","type":"F"},{"name":"z","type":"a.b.F"}]}"#,
    );
    assert_eq!(fields(&nested).unwrap().len(), 3);
    let other = schema(
        r#"{"type":"record","name":"S","aliases":["a.b.R"],"fields":[{"name":"y","type":
        {"type":"fixed","name":"F","size":2}}]}"#,
    );
    assert_eq!(one(&nested, &other, b"aabbcc").as_struct().column(0).as_fixed_size_binary().value(0), b"bb");
}

#[test]
fn fingerprints_are_those_of_the_specification() {
    // Published in the test data of Avro.
    assert_eq!(fingerprint::fingerprint(&schema(r#""null""#)), 0x63dd_24e7_cc25_8f8a);
    assert_eq!(fingerprint::fingerprint(&schema(r#"{"type":"int","logicalType":"date"}"#)), 0x7275_d51a_3f39_5c8f);
    assert_eq!(fingerprint::fingerprint(&schema(r#""string""#)), 0x8f01_4872_6345_03c7);
}

#[test]
fn a_failed_row_leaves_no_trace() {
    let wide = record(
        r#"{"name":"a","type":{"type":"array","items":{"type":"record","name":"I","fields":[
            {"name":"s","type":"string"},{"name":"m","type":{"type":"map","values":"long"}}]}}},
           {"name":"b","type":["null","string"]}"#,
    );
    let good: &[u8] = &[2, 2, b'x', 2, 2, b'k', 6, 0, 0, 2, 2, b'y'];
    let reader = AvroReader::new(&wide, &wide).unwrap();
    let mut row = rows(&wide).unwrap();
    reader.read(good, &mut row).unwrap();
    for cut in 0..good.len() {
        assert!(reader.read(&good[..cut], &mut row).is_err());
        row.truncate(1);
    }
    reader.read(good, &mut row).unwrap();
    let found = row.finish().unwrap();
    assert_eq!(found.slice(0, 1).as_ref(), found.slice(1, 1).as_ref());
}
