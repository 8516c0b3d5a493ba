//! A table as messages to publish.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use arrow_select::concat::concat;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::ffi::{ArrayReader, to_stream_pycapsule};

use crate::arrow::{extract, unfit};
use crate::error::PyResult;
use crate::python_call::begin_call;
use crate::requested;
use crate::typed::binary_schema;
use base::lock::lock;
use base::panics::caught;
use jetstream::publish::pack::Pack;
use jetstream::publish::row_numbers::SharedRowNumbers;
use jetstream::publish::table::{Plan, RowFormat, message_fields};

/// Rows that are encoded at once, which bounds the memory besides the table.
const ROWS: usize = 8_192;

/// Messages that are encoded from a table's rows on demand, as an Arrow stream for `publish_batch`.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct TableMessages {
    messages: Mutex<Option<Messages>>,
    field: FieldRef,
    rows: Option<usize>,
    /// The rows of each message, if a message has several.
    pub numbers: Option<SharedRowNumbers>,
}

#[pymethods]
impl TableMessages {
    #[new]
    #[pyo3(signature = (table, *, columns, subject, msg_id, nulls, arrow=None, binary=None, frame=None))]
    fn new(
        table: &Bound<'_, PyAny>,
        columns: Option<Vec<String>>,
        subject: Option<&str>,
        msg_id: Option<&str>,
        nulls: bool,
        arrow: Option<(Option<String>, usize, usize)>,
        binary: Option<&Bound<'_, PyAny>>,
        frame: Option<Vec<u8>>,
    ) -> PyResult<Self> {
        let _call = begin_call(table.py());
        // The number of messages is known if each row is one.
        let rows = if arrow.is_none() { table.len().ok() } else { None };
        let reader = extract("table", table)?.into_reader()?;
        let field = reader.field();
        let DataType::Struct(fields) = field.data_type() else {
            return Err(unfit("table", "struct", field.data_type()).into());
        };
        let columns = columns.as_deref();
        let plan = match arrow {
            None => {
                let format = match binary {
                    None => RowFormat::Json(nulls),
                    Some(schema) => RowFormat::Binary(binary_schema(schema)?, frame.unwrap_or_default()),
                };
                TableFormat::Rows(Plan::new(fields, columns, subject, msg_id, format)?)
            }
            Some((compression, rows, bytes)) => TableFormat::Arrow(Box::new(Pack::new(
                fields,
                columns,
                subject,
                msg_id,
                compression.as_deref(),
                rows,
                bytes,
            )?)),
        };
        let numbers = match &plan {
            TableFormat::Rows(_) => None,
            TableFormat::Arrow(pack) => Some(pack.numbers.clone()),
        };
        let field = Arc::new(Field::new("", DataType::Struct(message_fields()), false));
        let messages = Messages { reader, plan, held: VecDeque::new(), at: 0, field: field.clone() };
        Ok(TableMessages { messages: Mutex::new(Some(messages)), field, rows, numbers })
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.rows.ok_or_else(|| PyValueError::new_err("the number of rows of a stream is unknown"))?)
    }

    /// Returns the messages. It can be called once.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let requested = requested::cheap(&self.field, requested_schema)?;
        let messages =
            lock(&self.messages).take().ok_or_else(|| PyValueError::new_err("the messages were already read"))?;
        Ok(to_stream_pycapsule(py, Box::new(messages), requested)?)
    }
}

/// The format of a message.
enum TableFormat {
    /// A message for each row.
    Rows(Plan),
    Arrow(Box<Pack>),
}

struct Messages {
    reader: Box<dyn ArrayReader + Send>,
    plan: TableFormat,
    /// Blocks of the table that are not used up.
    held: VecDeque<StructArray>,
    /// Number of rows that are used up.
    at: usize,
    field: FieldRef,
}

impl Messages {
    /// Returns the next `wanted` rows, or fewer at the end. Without `whole` it returns a slice of one block, without a
    /// copy.
    fn rows(&mut self, wanted: usize, whole: bool) -> Result<Option<StructArray>, ArrowError> {
        let mut found = 0;
        let mut pieces: Vec<ArrayRef> = Vec::new();
        while found < wanted && (whole || found == 0) {
            let Some(block) = self.held.pop_front() else {
                match self.reader.next() {
                    None => break,
                    Some(block) => self.held.push_back(block?.as_struct().clone()),
                }
                continue;
            };
            let count = block.len().min(wanted - found);
            if count < block.len() {
                self.held.push_front(block.slice(count, block.len() - count));
            }
            if count > 0 {
                pieces.push(Arc::new(block.slice(0, count)));
                found += count;
            }
        }
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        Ok(match pieces[..] {
            [] => None,
            [one] => Some(one.as_struct().clone()),
            _ => Some(concat(&pieces)?.as_struct().clone()),
        })
    }

    fn block(&mut self) -> Result<Option<ArrayRef>, ArrowError> {
        loop {
            let (wanted, whole) = match &self.plan {
                TableFormat::Rows(_) => (ROWS, false),
                TableFormat::Arrow(pack) => (pack.window(), true),
            };
            let Some(rows) = self.rows(wanted, whole)? else { return Ok(None) };
            let messages = match &mut self.plan {
                TableFormat::Rows(plan) => plan.messages(&rows)?,
                TableFormat::Arrow(pack) => pack.messages(&rows, self.at)?,
            };
            self.at += rows.len();
            if !messages.is_empty() {
                return Ok(Some(Arc::new(messages)));
            }
        }
    }
}

impl Iterator for Messages {
    type Item = Result<ArrayRef, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Called through Arrow's C interface, which a panic must not cross, because it would end the process.
        let block = caught(|| self.block());
        block.unwrap_or_else(|err| Err(ArrowError::ExternalError(err.to_string().into()))).transpose()
    }
}

impl ArrayReader for Messages {
    fn field(&self) -> FieldRef {
        self.field.clone()
    }
}
