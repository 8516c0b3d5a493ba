//! Schemas that a consumer of Arrow data can request: other layouts of the same values.
//!
//! The consumer performs all other casts. It decides about values that do not fit; a cast here would make them null
//! without an error.

use arrow_schema::{DataType, Field};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::PyField;

use crate::error::PyResult;

/// Returns the requested schema if it is supported. Otherwise the data is exported unchanged, as the PyCapsule
/// interface allows.
pub fn cheap<'py>(
    natural: &Field,
    requested: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Option<Bound<'py, PyCapsule>>> {
    let Some(capsule) = requested else { return Ok(None) };
    let wanted = PyField::from_arrow_pycapsule(&capsule)?.into_inner();
    Ok(same_values(natural.data_type(), wanted.data_type()).then_some(capsule))
}

fn same_values(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Dictionary, Int32, Int64, LargeBinary, LargeUtf8, List, Map, Struct, Timestamp, UInt32,
        UInt64, Utf8, Utf8View,
    };
    let text = |kind: &DataType| matches!(kind, Utf8 | LargeUtf8 | Utf8View);
    let bytes = |kind: &DataType| matches!(kind, Binary | LargeBinary | BinaryView);
    let inside = |from: &Field, to: &Field| {
        same_values(from.data_type(), to.data_type()) && (to.is_nullable() || !from.is_nullable())
    };
    match (from, to) {
        (from, to) if from == to => true,
        (from, to) if text(from) => match to {
            Dictionary(key, value) => matches!(**key, Int32 | Int64 | UInt32 | UInt64) && text(value),
            to => text(to) || bytes(to),
        },
        (from, to) if bytes(from) => bytes(to),
        (Timestamp(..), Timestamp(..) | Int64) => true,
        (List(from), List(to)) => inside(from, to),
        // The entries of a map are matched by position, whatever their names are.
        (Map(from, _), Map(to, _)) => match (from.data_type(), to.data_type()) {
            (Struct(from), Struct(to)) => {
                from.len() == to.len() && from.iter().zip(to).all(|(from, to)| inside(from, to))
            }
            _ => false,
        },
        // Columns are matched by name.
        (Struct(from), Struct(to)) => {
            from.len() == to.len()
                && to.iter().all(|to| {
                    let found = from.iter().find(|from| from.name() == to.name());
                    found.is_some_and(|from| inside(from, to))
                })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit;

    use super::*;

    #[test]
    fn only_layouts_of_the_same_values_are_accepted() {
        let map = |value: DataType| DataType::Struct(vec![Field::new("k", value, false)].into());
        let dictionary = |key: DataType| DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8));
        for (from, to) in [
            (DataType::Utf8, DataType::LargeBinary),
            (DataType::Binary, DataType::BinaryView),
            (DataType::Utf8, dictionary(DataType::Int32)),
            (DataType::Timestamp(TimeUnit::Nanosecond, None), DataType::Timestamp(TimeUnit::Microsecond, None)),
            (map(DataType::Utf8), map(DataType::Utf8View)),
        ] {
            assert!(same_values(&from, &to), "{from} {to}");
        }
        for (from, to) in [
            (DataType::Binary, DataType::Utf8),
            (DataType::Int64, DataType::Int8),
            (DataType::Utf8, dictionary(DataType::Int8)),
            (map(DataType::Utf8), DataType::Struct(vec![Field::new("other", DataType::Utf8, false)].into())),
            (map(DataType::Binary), map(DataType::Utf8)),
        ] {
            assert!(!same_values(&from, &to), "{from} {to}");
        }
    }
}
