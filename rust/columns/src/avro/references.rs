//! Avro schemas that use types of other schemas: the definitions replace the first use of their names.

use std::collections::HashMap;

use serde_json::Value;

use super::schema::{full_name, primitive};
use crate::decode::column::MAX_DEPTH;

/// Returns a schema in which the types of others are defined.
///
/// # Errors
/// One of them is not JSON, or nested too deep.
pub fn with_references(schema: &str, others: &[impl AsRef<str>]) -> Result<String, String> {
    let mut schema = parse(schema)?;
    let mut known = HashMap::new();
    for other in others {
        collect(&parse(other.as_ref())?, "", &mut known, 0)?;
    }
    if known.is_empty() {
        return Ok(schema.to_string());
    }
    expand(&mut schema, "", &mut known, 0)?;
    Ok(schema.to_string())
}

fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|err| format!("the Avro schema is not JSON: {err}"))
}

/// Returns the full name of a definition, and the namespace of names in it.
fn name_of(json: &Value, namespace: &str) -> Option<(String, String)> {
    let text = |key: &str| json.get(key).and_then(Value::as_str);
    if !matches!(text("type")?, "record" | "error" | "enum" | "fixed") {
        return None;
    }
    let name = text("name")?;
    let full = full_name(name, text("namespace").unwrap_or(namespace));
    let namespace = full.rsplit_once('.').map_or("", |(space, _)| space).to_owned();
    Some((full, namespace))
}

fn checked(depth: usize) -> Result<(), String> {
    // A level of the schema is two of its JSON: a field, and its type.
    if depth > 2 * MAX_DEPTH { Err(format!("the Avro schema is nested deeper than {MAX_DEPTH}")) } else { Ok(()) }
}

/// Collects the definitions of a schema, with full names.
fn collect(json: &Value, namespace: &str, known: &mut HashMap<String, Value>, depth: usize) -> Result<(), String> {
    checked(depth)?;
    let found = name_of(json, namespace);
    let inner = found.as_ref().map_or(namespace, |(_, inner)| inner.as_str());
    for part in parts(json) {
        collect(part, inner, known, depth + 1)?;
    }
    if let Some((full, inner)) = &found {
        let mut definition = json.clone();
        definition["name"] = Value::from(full.rsplit('.').next().unwrap_or(full));
        definition["namespace"] = Value::from(inner.as_str());
        known.entry(full.clone()).or_insert(definition);
    }
    Ok(())
}

/// Returns the values that are schemas in a schema.
fn parts(json: &Value) -> Vec<&Value> {
    match json {
        Value::Array(branches) => branches.iter().collect(),
        Value::Object(object) => {
            let fields = object.get("fields").and_then(Value::as_array);
            let fields = fields.into_iter().flatten().filter_map(|field| field.get("type"));
            ["type", "items", "values"].into_iter().filter_map(|key| object.get(key)).chain(fields).collect()
        }
        _ => Vec::new(),
    }
}

/// Replaces names of `known` definitions by them. A definition is used once, and named after that.
fn expand(json: &mut Value, namespace: &str, known: &mut HashMap<String, Value>, depth: usize) -> Result<(), String> {
    checked(depth)?;
    let inner = match name_of(json, namespace) {
        Some((full, inner)) => {
            known.remove(&full);
            inner
        }
        None => namespace.to_owned(),
    };
    match json {
        Value::String(word) if primitive(word).is_none() => {
            let full = full_name(word, namespace);
            if let Some(mut found) = known.remove(&full).or_else(|| known.remove(word.as_str())) {
                expand(&mut found, "", known, depth + 1)?;
                *json = found;
            }
        }
        Value::Array(branches) => {
            for branch in branches {
                expand(branch, &inner, known, depth + 1)?;
            }
        }
        Value::Object(object) => {
            for key in ["type", "items", "values"] {
                if let Some(part) = object.get_mut(key) {
                    expand(part, &inner, known, depth + 1)?;
                }
            }
            for field in object.get_mut("fields").and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(part) = field.get_mut("type") {
                    expand(part, &inner, known, depth + 1)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::AvroSchema;
    use super::*;

    #[test]
    fn definitions_replace_their_names() {
        let zone = r#"{"type": "enum", "name": "Zone", "namespace": "geo", "symbols": ["A", "B"]}"#;
        let place = r#"{"type": "record", "name": "geo.Place", "fields": [{"name": "zone", "type": "Zone"}]}"#;
        let order = r#"{"type": "record", "name": "Order", "namespace": "shop", "fields": [
            {"name": "from", "type": "geo.Place"}, {"name": "to", "type": ["null", "geo.Place"]},
            {"name": "zone", "type": "geo.Zone"}]}"#;
        let whole = with_references(order, &[zone, place]).unwrap();
        AvroSchema::parse(&whole).unwrap();
        assert_eq!(whole.matches("symbols").count(), 1);
        AvroSchema::parse(order).unwrap_err();
    }

    #[test]
    fn a_type_without_a_namespace_keeps_none() {
        let bare = r#"{"type": "fixed", "name": "Id", "size": 4}"#;
        let order = r#"{"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "Id"}]}"#;
        let whole = with_references(order, &[bare]).unwrap();
        assert!(whole.contains(r#""namespace":"""#), "{whole}");
        AvroSchema::parse(&whole).unwrap();
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = format!("{}\"int\"{}", r#"{"type":"array","items":"#.repeat(500), "}".repeat(500));
        with_references(&deep, &[r#"{"type": "fixed", "name": "Id", "size": 4}"#]).unwrap_err();
        with_references(&"[".repeat(100_000), &[""]).unwrap_err();
    }
}
