//! The class `SchemaRegistry`.

use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::batch::Batch;
use crate::call::Call;
use crate::convert::seconds;
use crate::error::PyResult;
use crate::options::RawTls;
use crate::typed::native_schema;
use client::tls::Tls;
use registry::{Credentials, Format, NativeSchema, Options, Registry};

/// A schema registry, with what it has answered.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct SchemaRegistry {
    pub inner: Arc<Registry>,
}

fn format(word: &str) -> Format {
    if word == "protobuf" { Format::Protobuf } else { Format::Avro }
}

fn to_python<'py>(py: Python<'py>, schema: NativeSchema) -> PyResult<Bound<'py, PyAny>> {
    Ok(match schema {
        NativeSchema::Avro(json) => json.into_pyobject(py)?.into_any(),
        NativeSchema::Protobuf(set, name) => (PyBytes::new(py, &set), name).into_pyobject(py)?.into_any(),
    })
}

#[pymethods]
impl SchemaRegistry {
    #[new]
    #[pyo3(signature = (url, *, user, password, token, tls, timeout))]
    fn new(
        url: String,
        user: Option<String>,
        password: Option<String>,
        token: Option<String>,
        tls: Option<RawTls>,
        timeout: f64,
    ) -> PyResult<Self> {
        let credentials = match (user, token) {
            (Some(_), Some(_)) => {
                return Err(PyValueError::new_err("registry: give user and password, or token").into());
            }
            (Some(user), None) => Credentials::Basic { user, password: password.unwrap_or_default() },
            (None, Some(token)) => Credentials::Bearer(token),
            (None, None) => Credentials::None,
        };
        let timeout = seconds("timeout", timeout)?;
        let options = Options { url, credentials, tls: tls.map(Tls::from), timeout };
        Ok(SchemaRegistry { inner: Arc::new(Registry::new(&options)?) })
    }

    /// The address without secrets.
    #[getter]
    fn url(&self) -> &str {
        self.inner.url()
    }

    /// Fetches the schema of the first payload that names a usable one. The result is None if there is none.
    fn schema_of(&self, batch: &Batch, format: &str) -> PyResult<Call> {
        let data = batch.inner.record.column_by_name("data").and_then(|column| column.as_binary_opt::<i32>().cloned());
        let data = data.ok_or_else(|| PyValueError::new_err("the batch has no column data"))?;
        let (registry, format) = (self.inner.clone(), self::format(format));
        let find = async move {
            for row in 0..data.len() {
                if let Some(schema) = registry.schema_of(data.value(row), format).await? {
                    return Ok(Some(schema));
                }
            }
            Ok(None)
        };
        Ok(Call::new(find, |py, found| match found {
            Some(schema) => to_python(py, schema),
            None => Ok(py.None().into_bound(py)),
        }))
    }

    /// Returns the frame of payloads of a schema, which is looked up or registered under a subject; without one under
    /// the name of the record or message.
    fn frame(&self, schema: &Bound<'_, PyAny>, subject: Option<String>, register: bool) -> PyResult<Call> {
        let (registry, schema) = (self.inner.clone(), native_schema(schema)?);
        let frame = async move { registry.frame(subject.as_deref(), &schema, register).await };
        Ok(Call::new(frame, |py, frame| Ok(PyBytes::new(py, &frame).into_any())))
    }

    /// Fetches the latest schema of a subject, and the frame of its payloads.
    fn latest(&self, subject: String, format: &str) -> Call {
        let (registry, format) = (self.inner.clone(), self::format(format));
        Call::new(async move { registry.latest(&subject, format).await }, |py, (schema, frame)| {
            Ok((to_python(py, schema)?, PyBytes::new(py, &frame)).into_pyobject(py)?.into_any())
        })
    }
}
