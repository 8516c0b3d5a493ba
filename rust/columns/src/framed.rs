//! Payloads that name their schema by its id in a registry: a byte 0, the id in four bytes, and the datum. A Protobuf
//! message follows the indexes of its type in the schema's file (Confluent's wire format).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{Array, BinaryArray};

use crate::avro::{AvroReader, AvroSchema};
use crate::binary::BinarySchema;
use crate::decode::column::ColumnDecoder;
use crate::protobuf::{self, MessageNames};
use crate::varint;

/// The first byte of a framed payload.
const MAGIC: u8 = 0;
/// Length of magic byte and id.
const HEAD: usize = 5;
/// Levels of messages in messages.
const MAX_INDEXES: u64 = 64;

/// A schema of a registry, by which data were written.
#[derive(Clone, Debug)]
pub enum WriterSchema {
    Avro(Arc<AvroSchema>),
    Protobuf(Arc<MessageNames>),
    /// Why data of it are malformed.
    Unusable(Arc<str>),
}

/// Returns the id in a payload's frame, and what follows it.
pub fn id(payload: &[u8]) -> Option<(u32, &[u8])> {
    let (head, rest) = payload.split_at_checked(HEAD)?;
    let [MAGIC, id @ ..] = head else { return None };
    Some((u32::from_be_bytes(id.try_into().ok()?), rest))
}

/// Returns the indexes of a Protobuf message, and the message.
pub fn indexes(mut rest: &[u8]) -> Option<(Vec<u32>, &[u8])> {
    let count = varint::unzigzag(varint::take(&mut rest)?);
    if count == 0 {
        // The first message of the file, which is the usual one.
        return Some((vec![0], rest));
    }
    let count = u64::try_from(count).ok().filter(|count| *count <= MAX_INDEXES)?;
    let indexes = (0..count).map(|_| u32::try_from(varint::unzigzag(varint::take(&mut rest)?)).ok());
    Some((indexes.collect::<Option<_>>()?, rest))
}

/// Returns the frame of payloads: what precedes each datum.
///
/// `indexes` are those of a Protobuf message, `None` for Avro.
pub fn frame(id: u32, indexes: Option<&[u32]>) -> Vec<u8> {
    let mut frame = vec![MAGIC];
    frame.extend(id.to_be_bytes());
    match indexes {
        None => {}
        Some([0]) => frame.push(0),
        Some(indexes) => {
            varint::write(varint::zigzag(indexes.len() as i64), &mut frame);
            indexes.iter().for_each(|index| varint::write(varint::zigzag(i64::from(*index)), &mut frame));
        }
    }
    frame
}

/// Reader of framed payloads.
#[derive(Debug)]
pub struct Framed {
    reader: BinarySchema,
    writers: HashMap<u32, Writer>,
}

#[derive(Debug)]
enum Writer {
    Avro(Box<AvroReader>),
    Protobuf(Arc<MessageNames>),
    Unusable(Arc<str>),
}

type Fault = (String, String);

fn fault(reason: impl Into<String>) -> Fault {
    (String::new(), reason.into())
}

impl Framed {
    /// Creates a reader into the columns of `reader`.
    pub fn new(reader: BinarySchema) -> Framed {
        Framed { reader, writers: HashMap::new() }
    }

    /// Returns the ids in payloads that were not added yet, each once.
    pub fn unknown(&self, payloads: &BinaryArray) -> Vec<u32> {
        let mut found = Vec::new();
        // A set, because payloads may have as many ids as there are.
        let mut seen = HashSet::new();
        let mut last = None;
        for row in 0..payloads.len() {
            let Some((id, _)) = id(payloads.value(row)) else { continue };
            if last != Some(id) && !self.writers.contains_key(&id) && seen.insert(id) {
                found.push(id);
            }
            last = Some(id);
        }
        found
    }

    /// Adds the schema of an id.
    pub fn add(&mut self, id: u32, schema: &WriterSchema) {
        let writer = match (schema, &self.reader) {
            (WriterSchema::Avro(writer), BinarySchema::Avro(reader)) => match AvroReader::new(writer, reader) {
                Ok(reader) => Writer::Avro(Box::new(reader)),
                Err(reason) => Writer::Unusable(reason.into()),
            },
            (WriterSchema::Protobuf(names), BinarySchema::Protobuf(_)) => Writer::Protobuf(names.clone()),
            (WriterSchema::Unusable(reason), _) => Writer::Unusable(reason.clone()),
            (WriterSchema::Avro(_) | WriterSchema::Protobuf(_), _) => {
                Writer::Unusable("it is of another format".into())
            }
        };
        self.writers.insert(id, writer);
    }

    /// Appends the row of a payload; the column and the reason if it is malformed.
    pub fn read(&self, payload: &[u8], row: &mut ColumnDecoder) -> Result<(), Fault> {
        let (id, rest) = id(payload).ok_or_else(|| fault("no schema id: it does not begin with a byte 0 and an id"))?;
        match self.writers.get(&id) {
            Some(Writer::Avro(reader)) => reader.read(rest, row),
            Some(Writer::Protobuf(names)) => self.read_message(id, names, rest, row),
            Some(Writer::Unusable(reason)) => Err(fault(format!("schema {id}: {reason}"))),
            None => Err(fault(format!("schema {id} was not fetched"))),
        }
    }

    fn read_message(&self, id: u32, names: &MessageNames, rest: &[u8], row: &mut ColumnDecoder) -> Result<(), Fault> {
        let BinarySchema::Protobuf(message) = &self.reader else {
            return Err(fault(format!("schema {id}: it is of another format")));
        };
        let (indexes, rest) = indexes(rest).ok_or_else(|| fault("the indexes of the message are malformed"))?;
        match names.name(&indexes) {
            Some(name) if name == message.name => protobuf::read(message, rest, row),
            Some(name) => Err(fault(format!("a {name}, not a {}", message.name))),
            None => Err(fault(format!("schema {id} has no message at {indexes:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{Decoder, OnMismatch};

    #[test]
    fn frames_are_read_back() {
        for indexes in [vec![0], vec![1], vec![0, 0], vec![3, 0, 130]] {
            let made = frame(70_000, Some(&indexes));
            let (id, rest) = id(&made).unwrap();
            assert_eq!((id, super::indexes(rest)), (70_000, Some((indexes, &[][..]))));
        }
        assert_eq!(frame(1, None), [0, 0, 0, 0, 1]);
        // The first message of a file is one byte.
        assert_eq!(frame(1, Some(&[0])), [0, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn bytes_that_lie_are_no_frames() {
        for bytes in [&[][..], &[0, 0, 0, 0], &[1, 0, 0, 0, 1, 2], b"{\"a\":1}"] {
            assert_eq!(id(bytes), None, "{bytes:?}");
        }
        // Cut off, negative, more than 64 bits, more levels than there are, and an index below 0.
        for bytes in [&[][..], &[0x80], &[1], &[0xff; 11], &[0xfe, 0xff, 0xff, 0xff, 0x0f], &[2], &[2, 1]] {
            assert_eq!(indexes(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn each_id_is_asked_for_once() {
        let schema =
            AvroSchema::parse(r#"{"type":"record","name":"A","fields":[{"name":"a","type":"long"}]}"#).unwrap();
        let mut decoder =
            Decoder::of_binary(&BinarySchema::Avro(schema.clone()), true, OnMismatch::Permissive).unwrap();
        let payload = |id: u32| [frame(id, None), vec![2]].concat();
        let rows = BinaryArray::from_iter_values([payload(1), payload(2), payload(1), vec![5], payload(2)]);
        assert_eq!(decoder.unknown_schemas(&rows), [1, 2]);
        decoder.add_schema(1, &WriterSchema::Avro(schema));
        decoder.add_schema(2, &WriterSchema::Unusable("it is wrong".into()));
        assert!(decoder.unknown_schemas(&rows).is_empty());
        let errors = decoder.decode(&rows).unwrap().errors.unwrap();
        let errors: Vec<_> = errors.iter().map(|text| text.unwrap_or_default().to_owned()).collect();
        assert_eq!(errors[0..2], ["", "schema 2: it is wrong"]);
        assert!(errors[3].starts_with("no schema id"));
    }
}
