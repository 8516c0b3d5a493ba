//! The schemas of binary payloads.

use std::sync::Arc;

use arrow_array::StructArray;
use arrow_schema::{ArrowError, Fields};

use crate::avro::{self, AvroSchema};
use crate::encode::Encoded;
use crate::protobuf::{self, Message};

#[derive(Clone, Debug)]
pub enum BinarySchema {
    Avro(Arc<AvroSchema>),
    Protobuf(Arc<Message>),
}

impl BinarySchema {
    /// Parses the JSON of an Avro schema.
    pub fn avro(json: &str) -> Result<BinarySchema, String> {
        AvroSchema::parse(json).map(BinarySchema::Avro)
    }

    /// Finds a message in a serialized `FileDescriptorSet`.
    pub fn protobuf(set: &[u8], message: &str) -> Result<BinarySchema, String> {
        Message::find(set, message).map(BinarySchema::Protobuf)
    }

    /// Returns the columns that payloads have.
    pub fn fields(&self) -> Result<Fields, String> {
        match self {
            BinarySchema::Avro(schema) => avro::fields(schema),
            BinarySchema::Protobuf(message) => Ok(protobuf::fields(message)),
        }
    }

    /// Checks that tables of these columns can be payloads; the error names column and type.
    pub fn check(&self, columns: &Fields) -> Result<(), String> {
        match self {
            BinarySchema::Avro(schema) => avro::check(columns, schema),
            BinarySchema::Protobuf(message) => protobuf::check(columns, message),
        }
    }

    /// Encodes each row as a payload that begins with `frame`. The columns are those that `check` accepts.
    pub fn encode(&self, table: &StructArray, frame: &[u8]) -> Result<Encoded, ArrowError> {
        match self {
            BinarySchema::Avro(schema) => avro::encode(table, schema, frame),
            BinarySchema::Protobuf(message) => protobuf::encode(table, message, frame),
        }
    }
}
