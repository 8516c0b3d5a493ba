//! Avro schemas (specification 1.12): parsed from JSON, with names resolved.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::decode::column::MAX_DEPTH;

/// Number of types in a schema whose names are replaced by their definitions. A short schema can name a type many times.
const MAX_TYPES: usize = 10_000;

#[derive(Debug)]
pub struct AvroSchema {
    pub kind: Kind,
    /// Full name and full aliases of a named type.
    pub name: String,
    pub aliases: Vec<String>,
    pub logical: Option<Logical>,
    types: usize,
}

#[derive(Debug)]
pub enum Kind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    Enum(Vec<String>, Option<String>),
    Array(Arc<AvroSchema>),
    Map(Arc<AvroSchema>),
    Union(Vec<Arc<AvroSchema>>),
    Record(Vec<RecordField>),
}

#[derive(Debug)]
pub struct RecordField {
    pub name: String,
    pub aliases: Vec<String>,
    pub schema: Arc<AvroSchema>,
    pub default: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logical {
    Decimal(u8, i8),
    Date,
    TimeMillis,
    TimeMicros,
    /// Units per second; with a zone, unless the time is local.
    Timestamp(i64, bool),
    Duration,
    Uuid,
}

impl AvroSchema {
    /// Parses a schema. A record that contains itself is refused, because Arrow has no such type.
    pub fn parse(text: &str) -> Result<Arc<AvroSchema>, String> {
        let json = serde_json::from_str(text).map_err(|err| format!("the Avro schema is not JSON: {err}"))?;
        Parser::default().schema(&json, "", 0)
    }

    /// Returns the name of the type in errors.
    pub fn title(&self) -> &str {
        match &self.kind {
            Kind::Null => "null",
            Kind::Boolean => "boolean",
            Kind::Int => "int",
            Kind::Long => "long",
            Kind::Float => "float",
            Kind::Double => "double",
            Kind::Bytes => "bytes",
            Kind::String => "string",
            Kind::Array(_) => "array",
            Kind::Map(_) => "map",
            Kind::Union(_) => "union",
            Kind::Fixed(_) | Kind::Enum(..) | Kind::Record(_) => &self.name,
        }
    }
}

#[derive(Default)]
struct Parser {
    /// Named types; `None` while a type is being parsed.
    named: HashMap<String, Option<Arc<AvroSchema>>>,
}

impl Parser {
    fn schema(&mut self, json: &Value, namespace: &str, depth: usize) -> Result<Arc<AvroSchema>, String> {
        if depth > MAX_DEPTH {
            return Err(format!("the Avro schema is nested deeper than {MAX_DEPTH}"));
        }
        let found = match json {
            Value::String(word) => return self.word(word, namespace),
            Value::Array(branches) => {
                let branches = branches.iter().map(|branch| self.schema(branch, namespace, depth + 1));
                made(Kind::Union(branches.collect::<Result<_, _>>()?))
            }
            Value::Object(object) => match object.get("type") {
                Some(Value::String(word)) => return self.complex(word, json, namespace, depth),
                // `{"type": {"type": …}}`
                Some(inner @ (Value::Object(_) | Value::Array(_))) => return self.schema(inner, namespace, depth + 1),
                _ => return Err("an Avro schema has an object without a type".into()),
            },
            other => return Err(format!("an Avro schema cannot be {other}")),
        };
        bounded(found)
    }

    fn word(&mut self, word: &str, namespace: &str) -> Result<Arc<AvroSchema>, String> {
        if let Some(kind) = primitive(word) {
            return Ok(Arc::new(made(kind)));
        }
        let full = full_name(word, namespace);
        match self.named.get(&full).or_else(|| self.named.get(word)) {
            Some(Some(found)) => Ok(found.clone()),
            Some(None) => Err(format!("Avro type {full} contains itself, and Arrow has no recursive types")),
            None => Err(format!("the Avro schema has no type {full:?}")),
        }
    }

    fn complex(&mut self, word: &str, json: &Value, namespace: &str, depth: usize) -> Result<Arc<AvroSchema>, String> {
        if matches!(word, "record" | "error" | "enum" | "fixed") {
            return self.definition(word, json, namespace, depth);
        }
        let inner = |key: &str| json.get(key).ok_or_else(|| format!("an Avro {word} has no {key}"));
        let kind = match word {
            "array" => Kind::Array(self.schema(inner("items")?, namespace, depth + 1)?),
            "map" => Kind::Map(self.schema(inner("values")?, namespace, depth + 1)?),
            other => match primitive(other) {
                Some(kind) => kind,
                None => return self.word(word, namespace),
            },
        };
        let mut schema = made(kind);
        schema.logical = logical(json, &schema.kind);
        bounded(schema)
    }

    /// Parses the definition of a named type.
    fn definition(
        &mut self,
        word: &str,
        json: &Value,
        namespace: &str,
        depth: usize,
    ) -> Result<Arc<AvroSchema>, String> {
        let text = |key: &str| json.get(key).and_then(Value::as_str);
        let name = text("name").ok_or_else(|| format!("an Avro {word} has no name"))?;
        let full = match text("namespace") {
            Some(own) if !name.contains('.') => full_name(name, own),
            _ => full_name(name, namespace),
        };
        let namespace = full.rsplit_once('.').map_or("", |(space, _)| space).to_owned();
        if !full.split('.').all(is_name) {
            return Err(format!("{full:?} is not an Avro name"));
        }
        if self.named.insert(full.clone(), None).is_some() {
            return Err(format!("the Avro schema defines {full} twice"));
        }
        let kind = match word {
            "fixed" => {
                let size = json.get("size").and_then(Value::as_u64).and_then(|size| i32::try_from(size).ok());
                Kind::Fixed(size.ok_or_else(|| format!("Avro fixed {full} has no size"))? as usize)
            }
            "enum" => {
                let symbols = texts(json, "symbols");
                let mut sorted = symbols.clone();
                sorted.sort_unstable();
                if symbols.is_empty() || sorted.windows(2).any(|pair| pair[0] == pair[1]) {
                    return Err(format!("Avro enum {full} needs distinct symbols"));
                }
                Kind::Enum(symbols, text("default").map(str::to_owned))
            }
            _ => Kind::Record(self.fields(json, &full, &namespace, depth)?),
        };
        let mut schema = made(kind);
        schema.aliases = texts(json, "aliases").iter().map(|alias| full_name(alias, &namespace)).collect();
        schema.logical = logical(json, &schema.kind);
        schema.name = full.clone();
        let schema = bounded(schema)?;
        self.named.insert(full, Some(schema.clone()));
        Ok(schema)
    }

    fn fields(&mut self, json: &Value, of: &str, namespace: &str, depth: usize) -> Result<Vec<RecordField>, String> {
        let Some(Value::Array(listed)) = json.get("fields") else {
            return Err(format!("Avro record {of} has no fields"));
        };
        let mut fields: Vec<RecordField> = Vec::with_capacity(listed.len());
        for field in listed {
            let name = field.get("name").and_then(Value::as_str).filter(|name| is_name(name));
            let name = name.ok_or_else(|| format!("a field of Avro record {of} has no valid name"))?.to_owned();
            let kind = field.get("type").ok_or_else(|| format!("field {of}.{name} has no type"))?;
            if fields.iter().any(|other| other.name == name) {
                return Err(format!("Avro record {of} has two fields {name:?}"));
            }
            // Logical types beside the type belong to it in many schemas of other tools.
            let schema = self.schema(kind, namespace, depth + 1)?;
            fields.push(RecordField {
                name,
                aliases: texts(field, "aliases"),
                schema,
                default: field.get("default").cloned(),
            });
        }
        Ok(fields)
    }
}

fn made(kind: Kind) -> AvroSchema {
    let types = 1 + match &kind {
        Kind::Array(inner) | Kind::Map(inner) => inner.types,
        Kind::Union(branches) => branches.iter().map(|branch| branch.types).sum(),
        Kind::Record(fields) => fields.iter().map(|field| field.schema.types).sum(),
        _ => 0,
    };
    AvroSchema { kind, name: String::new(), aliases: Vec::new(), logical: None, types }
}

fn bounded(schema: AvroSchema) -> Result<Arc<AvroSchema>, String> {
    if schema.types > MAX_TYPES {
        return Err(format!("the Avro schema has more than {MAX_TYPES} types"));
    }
    Ok(Arc::new(schema))
}

pub fn primitive(word: &str) -> Option<Kind> {
    Some(match word {
        "null" => Kind::Null,
        "boolean" => Kind::Boolean,
        "int" => Kind::Int,
        "long" => Kind::Long,
        "float" => Kind::Float,
        "double" => Kind::Double,
        "bytes" => Kind::Bytes,
        "string" => Kind::String,
        _ => return None,
    })
}

pub fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() { name.to_owned() } else { format!("{namespace}.{name}") }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn texts(json: &Value, key: &str) -> Vec<String> {
    let listed = json.get(key).and_then(Value::as_array);
    listed.into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Returns the logical type. One that is unknown, or does not fit its type, is ignored, as the specification requires.
fn logical(json: &Value, kind: &Kind) -> Option<Logical> {
    let number = |key: &str| json.get(key).and_then(Value::as_u64);
    match (json.get("logicalType")?.as_str()?, kind) {
        ("decimal", Kind::Bytes | Kind::Fixed(_)) => {
            let (precision, scale) = (number("precision")?, number("scale").unwrap_or(0));
            let fits = (1..=76).contains(&precision) && scale <= precision;
            fits.then_some(Logical::Decimal(precision as u8, scale as i8))
        }
        ("date", Kind::Int) => Some(Logical::Date),
        ("time-millis", Kind::Int) => Some(Logical::TimeMillis),
        ("time-micros", Kind::Long) => Some(Logical::TimeMicros),
        ("timestamp-millis", Kind::Long) => Some(Logical::Timestamp(1_000, true)),
        ("timestamp-micros", Kind::Long) => Some(Logical::Timestamp(1_000_000, true)),
        ("timestamp-nanos", Kind::Long) => Some(Logical::Timestamp(1_000_000_000, true)),
        ("local-timestamp-millis", Kind::Long) => Some(Logical::Timestamp(1_000, false)),
        ("local-timestamp-micros", Kind::Long) => Some(Logical::Timestamp(1_000_000, false)),
        ("local-timestamp-nanos", Kind::Long) => Some(Logical::Timestamp(1_000_000_000, false)),
        ("duration", Kind::Fixed(12)) => Some(Logical::Duration),
        ("uuid", Kind::String | Kind::Fixed(16)) => Some(Logical::Uuid),
        _ => None,
    }
}
