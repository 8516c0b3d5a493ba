//! Subject templates with columns: `orders.{region}.{id}`.

use arrow_array::builder::StringBuilder;
use arrow_array::{Array, StringArray, StructArray};
use arrow_schema::ArrowError;

use base::error::{JetError, Result};
use columns::encode::{EncodeFault, EncodedTexts};
use wire::subject;

enum TemplatePart {
    Text(String),
    /// Column whose value is one token.
    Token(usize),
    /// Column whose value is the whole subject.
    Whole(usize),
}

pub struct Template(Vec<TemplatePart>);

impl Template {
    /// Parses a template. A name in braces is a column; a doubled brace is a literal brace.
    pub fn parse(text: &str, position: impl Fn(&str) -> Result<usize>) -> Result<Template> {
        let wrong =
            || JetError::Value(format!("subject {text:?} has a brace without its other; a brace itself is doubled"));
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let (brace, tail) = rest[at..].split_at(1);
            if let Some(tail) = tail.strip_prefix(brace) {
                plain.push_str(brace);
                rest = tail;
                continue;
            }
            let (name, tail) = tail.split_once('}').filter(|_| brace == "{").ok_or_else(wrong)?;
            if !plain.is_empty() {
                parts.push(TemplatePart::Text(std::mem::take(&mut plain)));
            }
            parts.push(TemplatePart::Token(position(name)?));
            rest = tail;
        }
        plain.push_str(rest);
        if !plain.is_empty() || parts.is_empty() {
            parts.push(TemplatePart::Text(plain));
        }
        // The literal parts must be valid for any values of the columns.
        let sample: String =
            parts.iter().map(|part| if let TemplatePart::Text(text) = part { text.as_str() } else { "x" }).collect();
        subject::check(&sample)?;
        Ok(Template(parts))
    }

    pub fn whole(column: usize) -> Template {
        Template(vec![TemplatePart::Whole(column)])
    }

    pub fn columns(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter_map(|part| match part {
            TemplatePart::Text(_) => None,
            TemplatePart::Token(column) | TemplatePart::Whole(column) => Some(*column),
        })
    }

    /// Builds one subject per row. A value that is invalid in a subject yields null and a fault.
    pub fn fill(
        &self,
        table: &StructArray,
        faults: &mut Vec<(usize, EncodeFault)>,
    ) -> std::result::Result<StringArray, ArrowError> {
        let columns = self
            .columns()
            .map(|column| EncodedTexts::new(table.column(column)))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let mut subjects = StringBuilder::with_capacity(table.len(), table.len() * 24);
        let mut subject = Vec::new();
        for row in 0..table.len() {
            subject.clear();
            match self.write(table, row, &columns, &mut subject) {
                Ok(()) => subjects.append_option(std::str::from_utf8(&subject).ok()),
                Err(fault) => {
                    faults.push((row, fault));
                    subjects.append_null();
                }
            }
        }
        Ok(subjects.finish())
    }

    fn write(
        &self,
        table: &StructArray,
        row: usize,
        columns: &[EncodedTexts],
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), EncodeFault> {
        let mut columns = columns.iter();
        for part in &self.0 {
            let (column, token) = match part {
                TemplatePart::Text(text) => {
                    out.extend_from_slice(text.as_bytes());
                    continue;
                }
                TemplatePart::Token(column) => (*column, true),
                TemplatePart::Whole(column) => (*column, false),
            };
            let Some(texts) = columns.next() else { continue };
            let start = out.len();
            let fault = match texts.write(row, out) {
                Ok(true) if token => check_token(&out[start..]),
                Ok(true) => Ok(()),
                Ok(false) => Err(EncodeFault::new("null cannot be in a subject")),
                Err(fault) => Err(fault),
            };
            fault.map_err(|fault| fault.within(table.fields()[column].name()))?;
        }
        Ok(())
    }
}

/// Checks that the value is valid as one token.
fn check_token(token: &[u8]) -> std::result::Result<(), EncodeFault> {
    let reason = if token.is_empty() {
        "the empty text"
    } else if token.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
        "a text with white space or a control character"
    } else if token.contains(&b'.') {
        "a text with a dot"
    } else if token.iter().any(|byte| matches!(byte, b'*' | b'>')) {
        "a text with a wildcard"
    } else {
        return Ok(());
    };
    Err(EncodeFault::new(format!("{reason} cannot be a token of a subject")))
}
