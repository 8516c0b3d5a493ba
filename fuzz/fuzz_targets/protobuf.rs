//! Fuzzes the Protobuf decoder with descriptors and messages of any bytes. Rows that it accepts are encoded and decoded
//! unchanged, and a malformed row never changes another.
#![no_main]

use arbitrary::{Result, Unstructured};
use arrow_array::{Array, BinaryArray, StructArray};
use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};

use columns::binary::BinarySchema;
use columns::decode::{Decoder, OnMismatch};
use columns::protobuf::{self, Message};

fn message(u: &mut Unstructured<'_>, name: &str, path: &str, depth: usize) -> Result<DescriptorProto> {
    let mut made = DescriptorProto { name: Some(name.into()), ..Default::default() };
    let full = format!("{path}.{name}");
    for place in 0..u.int_in_range(1..=5)? {
        let kinds = if depth > 2 { 15 } else { 16 };
        let kind = u.int_in_range(1..=kinds)?;
        let mut field = FieldDescriptorProto {
            name: Some(format!("f{place}")),
            number: Some(*u.choose(&[place + 1, place + 100, 1 << 20 | place])?),
            label: Some(*u.choose(&[Label::Optional as i32, Label::Repeated as i32])?),
            ..Default::default()
        };
        // Groups and enums are left out; 16 is a message.
        if kind == 16 || kind == Type::Message as i32 {
            let inner = format!("M{place}");
            made.nested_type.push(message(u, &inner, &full, depth + 1)?);
            (field.r#type, field.type_name) = (Some(Type::Message as i32), Some(format!("{full}.{inner}")));
        } else {
            let kind = if matches!(kind, 10 | 14) { Type::Int64 as i32 } else { kind };
            field.r#type = Some(kind);
        }
        made.field.push(field);
    }
    Ok(made)
}

fn decoded(message: &std::sync::Arc<Message>, rows: &[Vec<u8>]) -> Option<(StructArray, usize)> {
    let schema = BinarySchema::Protobuf(message.clone());
    let mut decoder = Decoder::of_binary(&schema, false, OnMismatch::DropMalformed).ok()?;
    let decoded = decoder.decode(&BinaryArray::from_iter_values(rows));
    let decoded = decoded.unwrap_or_else(|error| panic!("{error:?}"));
    Some((decoded.value, decoded.keep.map_or(rows.len(), |keep| keep.true_count())))
}

fn check(bytes: &[u8]) -> Result<()> {
    let u = &mut Unstructured::new(bytes);
    let set = if u.ratio(1, 8)? {
        u.arbitrary::<Vec<u8>>()?
    } else {
        let syntax = (*u.choose(&["proto2", "proto3"])?).to_owned();
        let message_type = vec![message(u, "A", "", 0)?];
        let file = FileDescriptorProto { syntax: Some(syntax), message_type, ..Default::default() };
        FileDescriptorSet { file: vec![file] }.encode_to_vec()
    };
    let Ok(found) = Message::find(&set, "A") else { return Ok(()) };
    let mut rows = Vec::new();
    for _ in 0..u.int_in_range(1..=3)? {
        rows.push(u.arbitrary::<Vec<u8>>()?);
    }
    let rest = u.len();
    rows.push(u.bytes(rest)?.to_vec());
    let Some((value, kept)) = decoded(&found, &rows) else { return Ok(()) };
    assert_eq!(value.len(), kept);
    let encoded = protobuf::encode(&value, &found, &[]).unwrap_or_else(|error| panic!("{error}"));
    assert!(encoded.faults.is_empty(), "{:?}", encoded.faults);
    let again: Vec<Vec<u8>> = encoded.payloads.iter().map(|payload| payload.unwrap_or_default().to_vec()).collect();
    let Some((same, _)) = decoded(&found, &again) else { return Ok(()) };
    // NaN differs from itself, so the messages are compared too.
    let data = protobuf::encode(&same, &found, &[]).unwrap_or_else(|error| panic!("{error}")).payloads;
    assert_eq!(data, encoded.payloads);
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let _too_short = check(bytes);
});
