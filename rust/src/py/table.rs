//! A table as messages to publish.

use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ArrayRef, StructArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::ffi::{ArrayReader, to_stream_pycapsule};

use crate::engine::publish::table::Plan;
use crate::lock::lock;
use crate::py::arrow::{extract, unfit};
use crate::py::requested;

/// Rows that are encoded at once: what is in memory beside the table.
const ROWS: usize = 8_192;

/// Messages made of a table's rows as they are asked for: an Arrow stream of what `publish_batch` takes.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct TableMessages {
    messages: Mutex<Option<Messages>>,
    field: FieldRef,
    rows: Option<usize>,
}

#[pymethods]
impl TableMessages {
    #[new]
    #[pyo3(signature = (table, *, columns, subject, msg_id, nulls))]
    fn new(
        table: &Bound<'_, PyAny>,
        columns: Option<Vec<String>>,
        subject: Option<&str>,
        msg_id: Option<&str>,
        nulls: bool,
    ) -> PyResult<Self> {
        let rows = table.len().ok();
        let reader = extract("table", table)?.into_reader()?;
        let field = reader.field();
        let DataType::Struct(fields) = field.data_type() else {
            return Err(unfit("table", "struct", field.data_type()).into());
        };
        let plan = Plan::new(fields, columns.as_deref(), subject, msg_id, nulls)?;
        let field = Arc::new(Field::new("", DataType::Struct(plan.fields()), false));
        let messages = Messages { reader, plan, block: None, field: field.clone() };
        Ok(TableMessages { messages: Mutex::new(Some(messages)), field, rows })
    }

    fn __len__(&self) -> PyResult<usize> {
        self.rows.ok_or_else(|| PyValueError::new_err("a stream does not say how many rows it has"))
    }

    /// The messages, once.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let requested = requested::cheap(&self.field, requested_schema)?;
        let messages =
            lock(&self.messages).take().ok_or_else(|| PyValueError::new_err("the table was read already"))?;
        Ok(to_stream_pycapsule(py, Box::new(messages), requested)?)
    }
}

struct Messages {
    reader: Box<dyn ArrayReader + Send>,
    plan: Plan,
    /// What is left of the block at hand.
    block: Option<StructArray>,
    field: FieldRef,
}

impl Iterator for Messages {
    type Item = Result<ArrayRef, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let block = loop {
            match self.block.take() {
                Some(block) if !block.is_empty() => break block,
                _ => match self.reader.next()? {
                    Ok(block) => self.block = Some(block.as_struct().clone()),
                    Err(err) => return Some(Err(err)),
                },
            }
        };
        let rows = block.len().min(ROWS);
        self.block = Some(block.slice(rows, block.len() - rows));
        Some(self.plan.messages(&block.slice(0, rows)).map(|messages| Arc::new(messages) as ArrayRef))
    }
}

impl ArrayReader for Messages {
    fn field(&self) -> FieldRef {
        self.field.clone()
    }
}
