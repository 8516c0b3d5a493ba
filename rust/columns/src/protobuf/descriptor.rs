//! Messages of a descriptor set, with the types of their fields resolved.

use std::collections::HashMap;
use std::sync::Arc;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};

use crate::decode::column::MAX_DEPTH;

/// Number of fields of a message whose types are replaced by their fields. A short file can name a type many times.
const MAX_FIELDS: usize = 10_000;

#[derive(Debug)]
pub struct Message {
    pub name: String,
    /// In the order of the file.
    pub fields: Vec<Field>,
    /// Position by number, for the numbers up to 63.
    by_number: [u16; 64],
    size: usize,
}

#[derive(Debug)]
pub struct Field {
    pub name: String,
    pub number: u32,
    pub kind: Kind,
    pub presence: Presence,
    /// Repeated scalars are written in one block.
    pub packed: bool,
    /// Other members of its oneof.
    pub siblings: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Absent and default are the same.
    Implicit,
    Optional,
    Required,
    Repeated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    String,
    Bytes,
}

#[derive(Debug)]
pub enum Kind {
    Scalar(Scalar),
    /// Names and numbers.
    Enum(Arc<Vec<(String, i32)>>),
    Message(Arc<Message>),
    /// An entry has a key and a value.
    Map(Scalar, Arc<Message>),
    Timestamp,
    Duration,
    /// A message with one field, `value`.
    Wrapper(Scalar),
}

impl Message {
    /// Finds a message in a serialized `FileDescriptorSet`.
    pub fn find(set: &[u8], name: &str) -> Result<Arc<Message>, String> {
        let set = FileDescriptorSet::decode(set).map_err(|err| format!("not a descriptor set: {err}"))?;
        let mut types = Types::default();
        for file in &set.file {
            let syntax = file.syntax.as_deref().unwrap_or("proto2");
            let package = file.package.as_deref().unwrap_or_default();
            for message in &file.message_type {
                types.add(message, package, syntax);
            }
            for kind in &file.enum_type {
                types.enums.insert(path(package, kind.name()), kind);
            }
        }
        let full = format!(".{}", name.trim_start_matches('.'));
        if !types.messages.contains_key(&full) {
            let mut known: Vec<_> = types.messages.keys().map(|name| &name[1..]).collect();
            known.sort_unstable();
            known.truncate(20);
            return Err(format!("the descriptor set has no message {name:?}; it has {}", known.join(", ")));
        }
        types.message(&full)
    }

    pub fn position(&self, number: u32) -> Option<usize> {
        match self.by_number.get(number as usize) {
            Some(&u16::MAX) => None,
            Some(place) => Some(usize::from(*place)),
            None => self.fields.iter().position(|field| field.number == number),
        }
    }

    fn new(name: &str, fields: Vec<Field>) -> Result<Arc<Message>, String> {
        let mut by_number = [u16::MAX; 64];
        let mut size = fields.len();
        for (place, field) in fields.iter().enumerate() {
            if let (Some(slot), Ok(place)) = (by_number.get_mut(field.number as usize), u16::try_from(place)) {
                *slot = place;
            }
            if let Kind::Message(inner) | Kind::Map(_, inner) = &field.kind {
                size += inner.size;
            }
        }
        if size > MAX_FIELDS {
            return Err(format!("message {name} has more than {MAX_FIELDS} fields"));
        }
        Ok(Arc::new(Message { name: name.to_owned(), fields, by_number, size }))
    }
}

#[derive(Default)]
struct Types<'a> {
    /// By full name with a leading dot; with the syntax of the file.
    messages: HashMap<String, (&'a DescriptorProto, &'a str)>,
    enums: HashMap<String, &'a EnumDescriptorProto>,
    /// Resolved messages; `None` while one is being resolved.
    known: HashMap<String, Option<Arc<Message>>>,
    depth: usize,
}

fn path(scope: &str, name: &str) -> String {
    match scope {
        "" => format!(".{name}"),
        scope => format!(".{}.{name}", scope.trim_start_matches('.')),
    }
}

impl<'a> Types<'a> {
    fn add(&mut self, message: &'a DescriptorProto, scope: &str, syntax: &'a str) {
        let full = path(scope, message.name());
        for inner in &message.nested_type {
            self.add(inner, &full, syntax);
        }
        for kind in &message.enum_type {
            self.enums.insert(path(&full, kind.name()), kind);
        }
        self.messages.insert(full, (message, syntax));
    }

    fn message(&mut self, full: &str) -> Result<Arc<Message>, String> {
        let name = full.trim_start_matches('.');
        match self.known.get(full) {
            Some(Some(found)) => return Ok(found.clone()),
            Some(None) => return Err(format!("message {name} contains itself, and Arrow has no recursive types")),
            None => {}
        }
        let Some((message, syntax)) = self.messages.get(full).copied() else {
            return Err(format!("the descriptor set has no message {name}"));
        };
        if !matches!(syntax, "proto2" | "proto3" | "") {
            return Err(format!("message {name} is of a file with {syntax}; proto2 and proto3 are supported"));
        }
        if self.depth == MAX_DEPTH {
            return Err(format!("message {name} is nested deeper than {MAX_DEPTH}"));
        }
        self.depth += 1;
        self.known.insert(full.to_owned(), None);
        let mut fields = Vec::with_capacity(message.field.len());
        for field in &message.field {
            // Groups are skipped: proto2 only, and deprecated.
            if field.r#type() != Type::Group {
                fields.push((self.field(field, syntax, name)?, oneof(field)));
            }
        }
        self.depth -= 1;
        let oneofs: Vec<_> = fields.iter().map(|(_, oneof)| *oneof).collect();
        let mut fields: Vec<_> = fields.into_iter().map(|(field, _)| field).collect();
        for (place, field) in fields.iter_mut().enumerate() {
            let same = |other: &usize| *other != place && oneofs[place].is_some() && oneofs[*other] == oneofs[place];
            field.siblings = (0..oneofs.len()).filter(same).collect();
        }
        let found = Message::new(name, fields)?;
        self.known.insert(full.to_owned(), Some(found.clone()));
        Ok(found)
    }

    fn field(&mut self, field: &FieldDescriptorProto, syntax: &str, of: &str) -> Result<Field, String> {
        let name = format!("{of}.{}", field.name());
        let kind = self.kind(field, &name)?;
        let proto3 = syntax == "proto3";
        let message = matches!(kind, Kind::Message(_) | Kind::Timestamp | Kind::Duration | Kind::Wrapper(_));
        let presence = match field.label() {
            Label::Repeated => Presence::Repeated,
            Label::Required => Presence::Required,
            Label::Optional if proto3 && !field.proto3_optional() && oneof(field).is_none() && !message => {
                Presence::Implicit
            }
            Label::Optional => Presence::Optional,
        };
        let packed = field.options.as_ref().and_then(|options| options.packed).unwrap_or(proto3);
        let number =
            u32::try_from(field.number()).map_err(|_| format!("field {name} has number {}", field.number()))?;
        Ok(Field { name: field.name().to_owned(), number, kind, presence, packed, siblings: Vec::new() })
    }

    fn kind(&mut self, field: &FieldDescriptorProto, name: &str) -> Result<Kind, String> {
        if let Some(scalar) = scalar(field.r#type()) {
            return Ok(Kind::Scalar(scalar));
        }
        let full = field.type_name().to_owned();
        if field.r#type() == Type::Enum {
            let found = self.enums.get(&full).ok_or_else(|| format!("the descriptor set has no enum {full}"))?;
            let values: Vec<_> = found.value.iter().map(|value| (value.name().to_owned(), value.number())).collect();
            return if values.is_empty() {
                Err(format!("enum {full} has no values"))
            } else {
                Ok(Kind::Enum(Arc::new(values)))
            };
        }
        match full.strip_prefix(".google.protobuf.") {
            Some("Timestamp") => return Ok(Kind::Timestamp),
            Some("Duration") => return Ok(Kind::Duration),
            Some(other @ ("Struct" | "Value" | "ListValue" | "Any")) => {
                return Err(format!("field {name} is a google.protobuf.{other}, which has no columns"));
            }
            Some(other) => {
                if let Some(scalar) = other.strip_suffix("Value").and_then(wrapped) {
                    return Ok(Kind::Wrapper(scalar));
                }
            }
            None => {}
        }
        let is_entry = self
            .messages
            .get(&full)
            .is_some_and(|(message, _)| message.options.as_ref().is_some_and(|options| options.map_entry()));
        let message = self.message(&full)?;
        match message.fields.first().map(|key| &key.kind) {
            Some(Kind::Scalar(key)) if is_entry && message.fields.len() == 2 => Ok(Kind::Map(*key, message)),
            _ => Ok(Kind::Message(message)),
        }
    }
}

/// Returns the number of the oneof; that of an `optional` field is none.
fn oneof(field: &FieldDescriptorProto) -> Option<i32> {
    field.oneof_index.filter(|_| !field.proto3_optional())
}

fn scalar(kind: Type) -> Option<Scalar> {
    Some(match kind {
        Type::Double => Scalar::Double,
        Type::Float => Scalar::Float,
        Type::Int32 => Scalar::Int32,
        Type::Int64 => Scalar::Int64,
        Type::Uint32 => Scalar::Uint32,
        Type::Uint64 => Scalar::Uint64,
        Type::Sint32 => Scalar::Sint32,
        Type::Sint64 => Scalar::Sint64,
        Type::Fixed32 => Scalar::Fixed32,
        Type::Fixed64 => Scalar::Fixed64,
        Type::Sfixed32 => Scalar::Sfixed32,
        Type::Sfixed64 => Scalar::Sfixed64,
        Type::Bool => Scalar::Bool,
        Type::String => Scalar::String,
        Type::Bytes => Scalar::Bytes,
        Type::Enum | Type::Message | Type::Group => return None,
    })
}

fn wrapped(name: &str) -> Option<Scalar> {
    Some(match name {
        "Double" => Scalar::Double,
        "Float" => Scalar::Float,
        "Int64" => Scalar::Int64,
        "UInt64" => Scalar::Uint64,
        "Int32" => Scalar::Int32,
        "UInt32" => Scalar::Uint32,
        "Bool" => Scalar::Bool,
        "String" => Scalar::String,
        "Bytes" => Scalar::Bytes,
        _ => return None,
    })
}
