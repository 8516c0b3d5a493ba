//! Rows of a table as messages: payload, subject from columns, message ID.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{Array, ArrayRef, LargeBinaryArray, StringArray, StructArray};
use arrow_schema::{ArrowError, DataType, Field, Fields};

use crate::publish::content_ids::ContentIds;
use crate::publish::subject_template::Template;
use base::error::{JetError, Result};
use columns::binary::BinarySchema;
use columns::encode::{self, EncodeFault, EncodedTexts};

/// Column with the reason for which a row is not published, beside the payloads.
pub const ERROR: &str = "__jetarrow_error";

/// Returns the columns of a block of messages.
pub fn message_fields() -> Fields {
    Fields::from(vec![
        Field::new("data", DataType::LargeBinary, true),
        Field::new("subject", DataType::Utf8, true),
        Field::new("msg_id", DataType::Utf8, true),
        Field::new(ERROR, DataType::Utf8, true),
    ])
}

/// Returns the index of a column.
pub fn position(fields: &Fields, what: &str, name: &str) -> Result<usize> {
    fields.iter().position(|field| field.name() == name).ok_or_else(|| {
        let names: Vec<_> = fields.iter().map(|field| field.name().as_str()).collect();
        JetError::Value(format!("{what}: the table has no column {name:?}; it has {}", names.join(", ")))
    })
}

/// Returns the indexes of the payload's columns; all without names.
pub fn positions(fields: &Fields, columns: Option<&[String]>) -> Result<Vec<usize>> {
    let columns = match columns {
        None => (0..fields.len()).collect(),
        Some(names) => names.iter().map(|name| position(fields, "columns", name)).collect::<Result<Vec<_>>>()?,
    };
    if columns.is_empty() {
        return Err(JetError::Value("columns: a payload has at least one".into()));
    }
    Ok(columns)
}

/// Parses the subject: a template, a column, or a fixed subject.
pub fn subject(fields: &Fields, subject: Option<&str>) -> Result<Template> {
    match subject {
        Some(text) => Template::parse(text, |name| position(fields, "subject", name)),
        None => Ok(Template::whole(position(fields, "subject", "subject").map_err(|_| {
            JetError::Type("subject is missing: give one, or a table with a column \"subject\"".into())
        })?)),
    }
}

/// Source of message IDs.
pub enum MsgId {
    None,
    Column(usize),
    Content(Box<ContentIds>),
}

/// Conversion of each block of a table.
pub struct Plan {
    /// Columns of the payload.
    columns: Vec<usize>,
    subject: Template,
    msg_id: MsgId,
    format: RowFormat,
}

/// The format of payloads.
pub enum RowFormat {
    /// JSON objects; null fields are written.
    Json(bool),
    /// With the frame that precedes each payload.
    Binary(BinarySchema, Vec<u8>),
}

impl Plan {
    /// Creates the conversion. `msg_id` is a column's name, or `content`.
    pub fn new(
        fields: &Fields,
        columns: Option<&[String]>,
        subject: Option<&str>,
        msg_id: Option<&str>,
        format: RowFormat,
    ) -> Result<Plan> {
        let columns = positions(fields, columns)?;
        let chosen: Fields = columns.iter().map(|column| fields[*column].clone()).collect();
        let checked = match &format {
            RowFormat::Json(_) => encode::check(&chosen),
            RowFormat::Binary(schema, _) => schema.check(&chosen),
        };
        checked.map_err(JetError::Type)?;
        let subject = self::subject(fields, subject)?;
        let msg_id = match msg_id {
            None => MsgId::None,
            Some("content") => MsgId::Content(Box::new(ContentIds::new(b""))),
            Some(name) => MsgId::Column(position(fields, "msg_id", name)?),
        };
        let id = if let MsgId::Column(column) = &msg_id { Some(*column) } else { None };
        for column in subject.columns().chain(id) {
            encode::check_text(&fields[column]).map_err(JetError::Type)?;
        }
        Ok(Plan { columns, subject, msg_id, format })
    }

    /// Builds one message per row. An invalid row has no payload, and its reason in a separate column.
    pub fn messages(&mut self, table: &StructArray) -> std::result::Result<StructArray, ArrowError> {
        let chosen: Fields = self.columns.iter().map(|column| table.fields()[*column].clone()).collect();
        let arrays = self.columns.iter().map(|column| table.column(*column).clone()).collect();
        let rows = StructArray::try_new_with_length(chosen, arrays, table.nulls().cloned(), table.len())?;
        let encoded = match &self.format {
            RowFormat::Json(nulls) => encode::encode(&rows, *nulls)?,
            RowFormat::Binary(schema, frame) => schema.encode(&rows, frame)?,
        };
        let mut faults = encoded.faults;
        let subjects = self.subject.fill(table, &mut faults)?;
        let ids = self.ids(table, &encoded.payloads, &subjects, &mut faults)?;
        // A row with two faults reports the first one found.
        faults.sort_by_key(|(row, _)| *row);
        faults.dedup_by_key(|(row, _)| *row);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(without(encoded.payloads, &faults)?),
            Arc::new(subjects),
            Arc::new(ids),
            Arc::new(reasons(table.len(), faults)),
        ];
        StructArray::try_new(message_fields(), columns, None)
    }

    fn ids(
        &mut self,
        table: &StructArray,
        payloads: &LargeBinaryArray,
        subjects: &StringArray,
        faults: &mut Vec<(usize, EncodeFault)>,
    ) -> std::result::Result<StringArray, ArrowError> {
        let mut ids = match &mut self.msg_id {
            MsgId::None => return Ok(StringArray::new_null(table.len())),
            MsgId::Column(column) => {
                let texts = EncodedTexts::new(table.column(*column))?;
                let mut text = Vec::new();
                let mut ids = StringBuilder::new();
                for row in 0..table.len() {
                    text.clear();
                    match texts.write(row, &mut text) {
                        Ok(true) => ids.append_option(std::str::from_utf8(&text).ok()),
                        Ok(false) => ids.append_null(),
                        Err(fault) => {
                            faults.push((row, fault.within(table.fields()[*column].name())));
                            ids.append_null();
                        }
                    }
                }
                ids
            }
            MsgId::Content(content) => {
                let (mut id, mut ids) = (String::new(), StringBuilder::new());
                for row in 0..table.len() {
                    if payloads.is_null(row) || subjects.is_null(row) {
                        ids.append_null();
                        continue;
                    }
                    id.clear();
                    content.write(subjects.value(row), &mut Vec::new(), payloads.value(row), &mut id);
                    ids.append_value(&id);
                }
                ids
            }
        };
        Ok(ids.finish())
    }
}

/// Returns the payloads, null for rows with a fault.
fn without(
    payloads: LargeBinaryArray,
    faults: &[(usize, EncodeFault)],
) -> std::result::Result<LargeBinaryArray, ArrowError> {
    if faults.iter().all(|(row, _)| payloads.is_null(*row)) {
        return Ok(payloads);
    }
    let (offsets, values, _) = payloads.into_parts();
    let mut valid = vec![true; offsets.len() - 1];
    faults.iter().for_each(|(row, _)| valid[*row] = false);
    LargeBinaryArray::try_new(offsets, values, Some(valid.into()))
}

fn reasons(rows: usize, faults: Vec<(usize, EncodeFault)>) -> StringArray {
    if faults.is_empty() {
        return StringArray::new_null(rows);
    }
    let mut reasons = vec![None; rows];
    for (row, fault) in faults {
        reasons[row] = Some(fault.to_string());
    }
    StringArray::from(reasons)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int64Array};

    use super::*;

    fn table() -> StructArray {
        let fields = vec![
            Field::new("region", DataType::Utf8, true),
            Field::new("id", DataType::Int64, true),
            Field::new("x", DataType::Float64, true),
        ];
        StructArray::new(
            fields.into(),
            vec![
                Arc::new(StringArray::from(vec![Some("eu"), Some("u s"), None, Some("us")])),
                Arc::new(Int64Array::from(vec![Some(1), Some(2), Some(3), None])),
                Arc::new(Float64Array::from(vec![Some(0.5), Some(1.0), Some(f64::NAN), None])),
            ],
            None,
        )
    }

    fn column(messages: &StructArray, name: &str) -> Vec<Option<String>> {
        let array = messages.column_by_name(name).cloned().unwrap();
        let texts = arrow_array::cast::AsArray::as_string::<i32>(&array);
        texts.iter().map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn rows_become_messages_or_have_a_reason() {
        let table = table();
        let mut plan =
            Plan::new(table.fields(), None, Some("orders.{region}.{{{id}}}"), Some("id"), RowFormat::Json(false))
                .unwrap();
        let messages = plan.messages(&table).unwrap();
        assert_eq!(column(&messages, "subject")[0].as_deref(), Some("orders.eu.{1}"));
        assert_eq!(
            column(&messages, "msg_id"),
            [Some("1"), Some("2"), Some("3"), None].map(|id| id.map(str::to_owned))
        );
        let errors = column(&messages, ERROR);
        assert_eq!(errors[0], None);
        assert!(
            errors[1].as_ref().is_some_and(|text| text.contains("\"region\"") && text.contains("white space")),
            "{errors:?}"
        );
        assert!(
            errors[2].as_ref().is_some_and(|text| text.contains("\"x\"") || text.contains("\"region\"")),
            "{errors:?}"
        );
        assert!(errors[3].as_ref().is_some_and(|text| text.contains("\"id\"") && text.contains("null")), "{errors:?}");
        assert_eq!(messages.column(0).null_count(), 3);
    }

    #[test]
    fn equal_rows_have_distinct_and_repeatable_content_ids() {
        let table = table().slice(0, 1);
        let ids = || {
            let mut plan = Plan::new(table.fields(), None, Some("a"), Some("content"), RowFormat::Json(false)).unwrap();
            [0, 1].map(|_| column(&plan.messages(&table).unwrap(), "msg_id"))
        };
        let [first, second] = ids();
        assert_ne!(first, second);
        assert_eq!(ids(), [first, second]);
    }

    #[test]
    fn error_names_the_missing_column() {
        let table = table();
        let wrong = |columns: Option<&[String]>, subject, msg_id| {
            Plan::new(table.fields(), columns, subject, msg_id, RowFormat::Json(false))
                .err()
                .map(|err| err.to_string())
                .unwrap()
        };
        assert!(wrong(None, Some("a.{regon}"), None).contains("no column \"regon\"; it has region, id, x"));
        assert!(wrong(Some(&["y".into()]), Some("a"), None).contains("columns: the table has no column \"y\""));
        assert!(wrong(None, Some("a"), Some("z")).contains("msg_id: the table has no column \"z\""));
        assert!(wrong(None, None, None).contains("subject is missing"));
        assert!(wrong(None, Some("a.{id"), None).contains("brace"));
    }
}
