//! The documents of the REST interface.

use serde::{Deserialize, Serialize};

/// The `error_code` of a schema that the registry does not have.
pub const SCHEMA_NOT_FOUND: i64 = 40_403;
/// Length of a registry's message in an error.
const MAX_TEXT: usize = 300;

#[derive(Deserialize)]
pub struct Schema {
    pub schema: String,
    #[serde(rename = "schemaType")]
    pub kind: Option<String>,
    #[serde(default)]
    pub references: Vec<Reference>,
    /// With an answer about a subject.
    pub id: Option<u32>,
}

#[derive(Clone, Deserialize, Serialize)]
pub struct Reference {
    pub name: String,
    pub subject: String,
    pub version: u32,
}

/// A schema to register or to look up.
#[derive(Serialize)]
pub struct Register<'a> {
    pub schema: &'a str,
    #[serde(rename = "schemaType", skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub references: &'a [Reference],
}

/// An id, or the version of a subject.
#[derive(Deserialize)]
pub struct Registered {
    pub id: u32,
    pub version: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Refused {
    pub error_code: Option<i64>,
    pub message: Option<String>,
}

impl Refused {
    pub fn of(body: &[u8]) -> Refused {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// Returns the status and the registry's text.
    pub fn text(&self, status: u16) -> String {
        let mut text = format!("status {status}");
        match status {
            401 => text.push_str(" (the credentials are wrong or missing)"),
            403 => text.push_str(" (the credentials have no permission)"),
            _ => {}
        }
        if let Some(message) = &self.message {
            text.push_str(": ");
            text.extend(message.lines().next().unwrap_or_default().chars().take(MAX_TEXT));
        }
        text
    }
}
