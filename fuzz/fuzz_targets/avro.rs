//! Fuzzes the Avro decoder with schemas and data of any bytes. Rows that it accepts are encoded and decoded unchanged, and
//! a malformed row never changes another.
#![no_main]

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use arrow_array::{Array, BinaryArray, StructArray};
use libfuzzer_sys::fuzz_target;

use columns::avro::{self, AvroSchema};
use columns::binary::BinarySchema;
use columns::decode::{Decoder, OnMismatch};

const SCHEMAS: [&str; 3] = [
    r#"{"type":"record","name":"A","fields":[{"name":"a","type":"long"},{"name":"b","type":["null","string"]},
        {"name":"c","type":{"type":"array","items":{"type":"map","values":["int","null"]}}}]}"#,
    r#"{"type":"record","name":"B","fields":[{"name":"a","type":{"type":"bytes","logicalType":"decimal","precision":40,"scale":2}},
        {"name":"b","type":{"type":"fixed","name":"F","size":12,"logicalType":"duration"}},
        {"name":"c","type":{"type":"enum","name":"E","symbols":["X","Y"]}},
        {"name":"d","type":{"type":"array","items":"null"}},
        {"name":"e","type":{"type":"record","name":"C","fields":[{"name":"x","type":"boolean"},{"name":"y","type":"double"}]}}]}"#,
    r#"{"type":"record","name":"D","fields":[{"name":"a","type":{"type":"int","logicalType":"time-millis"}},
        {"name":"b","type":{"type":"fixed","name":"G","size":20,"logicalType":"decimal","precision":30}},
        {"name":"c","type":["null",{"type":"array","items":["null","bytes"]}]},{"name":"d","type":"float"}]}"#,
];

fn decoded(schema: &Arc<AvroSchema>, rows: &[Vec<u8>]) -> Option<(StructArray, usize)> {
    let schema = BinarySchema::Avro(schema.clone());
    let mut decoder = Decoder::of_binary(&schema, false, OnMismatch::DropMalformed).ok()?;
    let decoded = decoder.decode(&BinaryArray::from_iter_values(rows));
    let decoded = decoded.unwrap_or_else(|error| panic!("{error:?}"));
    Some((decoded.value, decoded.keep.map_or(rows.len(), |keep| keep.true_count())))
}

fn check(bytes: &[u8]) -> Result<()> {
    let u = &mut Unstructured::new(bytes);
    let text = if u.ratio(1, 8)? { u.arbitrary::<String>()? } else { (*u.choose(&SCHEMAS)?).to_owned() };
    let Ok(schema) = AvroSchema::parse(&text) else { return Ok(()) };
    let mut rows = Vec::new();
    for _ in 0..u.int_in_range(1..=4)? {
        rows.push(u.arbitrary::<Vec<u8>>()?);
    }
    let rest = u.len();
    rows.push(u.bytes(rest)?.to_vec());
    let Some((value, kept)) = decoded(&schema, &rows) else { return Ok(()) };
    assert_eq!(value.len(), kept);
    let encoded = avro::encode(&value, &schema, &[]).unwrap_or_else(|error| panic!("{error}"));
    assert!(encoded.faults.is_empty(), "{:?}", encoded.faults);
    let again: Vec<Vec<u8>> = encoded.payloads.iter().map(|payload| payload.unwrap_or_default().to_vec()).collect();
    let Some((same, _)) = decoded(&schema, &again) else { return Ok(()) };
    // NaN differs from itself, so the data are compared too.
    let data = avro::encode(&same, &schema, &[]).unwrap_or_else(|error| panic!("{error}")).payloads;
    assert_eq!(data, encoded.payloads);
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let _too_short = check(bytes);
});
