//! Columns of a batch, and their selection.

use std::str::FromStr;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use base::error::{JetError, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Stream,
    Seq,
    Subject,
    Timestamp,
    Headers,
    Data,
    Delivered,
    ConsumerSeq,
    Pending,
    Reply,
}

impl Column {
    const ALL: [(&'static str, Column); 10] = [
        ("stream", Column::Stream),
        ("seq", Column::Seq),
        ("subject", Column::Subject),
        ("timestamp", Column::Timestamp),
        ("headers", Column::Headers),
        ("data", Column::Data),
        ("delivered", Column::Delivered),
        ("consumer_seq", Column::ConsumerSeq),
        ("pending", Column::Pending),
        ("reply", Column::Reply),
    ];
    pub const DEFAULT: [Column; 6] =
        [Column::Stream, Column::Seq, Column::Subject, Column::Timestamp, Column::Headers, Column::Data];

    pub fn parse(names: &[String]) -> Result<Vec<Column>> {
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let column = name.parse()?;
            if columns.contains(&column) {
                return Err(JetError::Value(format!("columns names {name:?} twice")));
            }
            columns.push(column);
        }
        if columns.is_empty() {
            return Err(JetError::Value("columns names no column".into()));
        }
        Ok(columns)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, column)| *column == self).map_or("", |(name, _)| name)
    }

    fn field(self, unit: TimeUnit) -> Field {
        let data_type = match self {
            Column::Stream | Column::Subject | Column::Reply => DataType::Utf8,
            Column::Seq | Column::Delivered | Column::ConsumerSeq | Column::Pending => DataType::Int64,
            Column::Timestamp => DataType::Timestamp(unit, Some("UTC".into())),
            Column::Data => DataType::Binary,
            Column::Headers => headers_type(DataType::Utf8),
        };
        Field::new(self.name(), data_type, matches!(self, Column::Headers | Column::Reply))
    }
}

fn headers_type(value: DataType) -> DataType {
    let values = DataType::List(Arc::new(Field::new("item", value, true)));
    let entries = vec![Field::new("key", DataType::Utf8, false), Field::new("value", values, true)];
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(Fields::from(entries)), false)), false)
}

impl FromStr for Column {
    type Err = JetError;

    fn from_str(name: &str) -> Result<Column> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, column)| *column);
        found.ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|(known, _)| *known).collect();
            JetError::Value(format!("columns names {name:?}, which is not one of {}", known.join(", ")))
        })
    }
}

/// Layout of a batch: its columns in order, and the unit of time (microseconds for Spark).
#[derive(Clone, Debug)]
pub struct Layout {
    pub columns: Vec<Column>,
    pub schema: SchemaRef,
    pub unit: TimeUnit,
    /// Headers have the bytes of their values, not texts.
    pub binary_headers: bool,
    /// Length of the subject's prefix that is not shown, in bytes.
    hidden: usize,
}

impl Layout {
    pub fn new(columns: Vec<Column>, microseconds: bool) -> Self {
        let unit = if microseconds { TimeUnit::Microsecond } else { TimeUnit::Nanosecond };
        let schema = Arc::new(Schema::new(columns.iter().map(|c| c.field(unit)).collect::<Vec<_>>()));
        Layout { columns, schema, unit, binary_headers: false, hidden: 0 }
    }

    /// Gives the column of headers, if there is one, the bytes of the values.
    pub fn with_binary_headers(mut self) -> Self {
        let retyped = |field: &Field| match field.name().as_str() {
            "headers" => field.clone().with_data_type(headers_type(DataType::Binary)),
            _ => field.clone(),
        };
        self.schema = Arc::new(Schema::new(self.schema.fields().iter().map(|f| retyped(f)).collect::<Vec<_>>()));
        self.binary_headers = true;
        self
    }

    /// Layout of the entries of a key-value bucket, whose subjects begin with `prefix`.
    pub fn entries(prefix: &str, microseconds: bool) -> Self {
        let names = [
            (Column::Subject, "key"),
            (Column::Data, "value"),
            (Column::Seq, "revision"),
            (Column::Timestamp, "created"),
        ];
        let Layout { columns, unit, .. } = Layout::new(names.map(|(column, _)| column).to_vec(), microseconds);
        let fields: Vec<_> = names.iter().map(|(column, name)| column.field(unit).with_name(*name)).collect();
        Layout { columns, schema: Arc::new(Schema::new(fields)), unit, binary_headers: false, hidden: prefix.len() }
    }

    /// True if a column is built from payloads or headers.
    pub fn has_contents(&self) -> bool {
        self.columns.iter().any(|column| matches!(column, Column::Data | Column::Headers))
    }

    /// Returns the shown part of a subject.
    pub fn shown<'a>(&self, subject: &'a str) -> &'a str {
        subject.get(self.hidden..).unwrap_or(subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_duplicate_columns_are_rejected() {
        assert!(Column::parse(&["seq".into(), "data".into()]).is_ok_and(|c| c == [Column::Seq, Column::Data]));
        assert!(Column::parse(&["sequence".into()]).is_err_and(|e| e.to_string().contains("consumer_seq")));
        assert!(Column::parse(&["seq".into(), "seq".into()]).is_err());
        assert!(Column::parse(&[]).is_err());
    }
}
