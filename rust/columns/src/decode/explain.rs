//! Error texts of malformed documents.

use arrow_schema::{DataType, FieldRef};

use super::json::{Json, JsonStep, Reason};

/// Returns the column and the error text.
pub fn explain(json: &Json<'_>, text: &str, root: &FieldRef) -> (String, String) {
    let mut column = String::new();
    for step in json.trace.iter().rev() {
        match step {
            JsonStep::Field(field) if column.is_empty() => column.push_str(field.name()),
            JsonStep::Field(field) => column.extend([".", field.name()]),
            JsonStep::Item(_) => column.push_str("[]"),
            JsonStep::Key(key, _) => column.extend([".", key]),
        }
    }
    let field = match json.trace.first() {
        Some(JsonStep::Field(field) | JsonStep::Item(field) | JsonStep::Key(_, field)) => field,
        None => root,
    };
    let fault = &json.fault;
    let found = text.as_bytes().get(fault.start).and_then(|byte| kind(*byte));
    let reason = match (fault.reason, found) {
        (Reason::Syntax(what), _) => format!("not JSON: {what}, at byte {}", fault.start),
        (Reason::Expected(what), Some(found)) => format!("expected {what}, found {found}"),
        (Reason::Expected(_), None) => format!("not JSON: not a value, at byte {}", fault.start),
        (Reason::Null, _) => "null, and the schema says not nullable".into(),
        (Reason::Missing, _) => "missing, and the schema says not nullable".into(),
        (Reason::Full(count), _) => format!("more than {count} values in a batch, and the keys can number no more"),
        // A binary column is not quoted, because its text can be any.
        (Reason::Unfit, _) if let DataType::FixedSizeBinary(length) = field.data_type() => {
            format!("not standard base64 of {length} bytes")
        }
        (Reason::Unfit, _) if field.data_type().is_binary() => "not standard base64".into(),
        (Reason::Unfit, _) => {
            let value = text.get(fault.start..fault.end).unwrap_or_default();
            let short: String = value.chars().take(40).collect();
            let dots = if short.len() < value.len() { "…" } else { "" };
            let hint = match field.data_type() {
                DataType::Timestamp(_, None) => " (a column without a zone takes text without an offset)",
                _ => "",
            };
            format!("{short}{dots} does not fit {}{hint}", field.data_type())
        }
    };
    (column, reason)
}

/// Returns the kind of value that starts with this byte; `None` if there is none.
fn kind(byte: u8) -> Option<&'static str> {
    Some(match byte {
        b'"' => "a string",
        b'{' => "an object",
        b'[' => "an array",
        b't' | b'f' => "a boolean",
        b'n' => "null",
        b'-' | b'0'..=b'9' => "a number",
        _ => return None,
    })
}
