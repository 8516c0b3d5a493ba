"""Arrow types of the rows of an Iceberg sink: their stored types, and the comparison with the columns of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.errors import SinkSchemaError

if TYPE_CHECKING:
    import pyarrow

# Digits of the largest unsigned integer of 64 bits.
_UINT64_DIGITS = 20
# Maximum precision of a decimal of Iceberg.
_MAX_PRECISION = 38


def stored_schema(schema: pyarrow.Schema, target: str) -> pyarrow.Schema:
    """Return a schema with the types that Iceberg stores.

    Args:
        schema: Columns of the rows.
        target: The table, for the message.

    Raises:
        SinkSchemaError: A column has a type that Iceberg cannot store.
    """
    pa = needs_pyarrow("to_iceberg()")
    return pa.schema([pa.field(each.name, _stored(each.type, each.name, target), each.nullable) for each in schema])


def _stored(kind: Any, path: str, target: str) -> Any:
    """Return the stored type of a type; nanoseconds are kept, because the table decides about them."""
    pa = needs_pyarrow("to_iceberg()")
    types = pa.types

    def inner(field: Any, name: str) -> Any:
        return pa.field(field.name, _stored(field.type, f"{path}.{name}", target), field.nullable)

    if types.is_struct(kind) and kind.num_fields:
        return pa.struct([inner(field, field.name) for field in kind])
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(inner(kind.value_field, "element"))
    if types.is_map(kind):
        return pa.map_(inner(kind.key_field, "key"), inner(kind.item_field, "value"))
    if types.is_dictionary(kind):
        return _stored(kind.value_type, path, target)
    found = _stored_primitive(kind)
    if found is None:
        raise SinkSchemaError(
            f"could not write to {target}: column {path!r} is {kind}, and Iceberg tables have no such type; leave the"
            " field out of schema=, or archive to Parquet"
        )
    return found


def _stored_primitive(kind: Any) -> Any:
    """Return the stored type of a type without fields; None if there is none."""
    pa = needs_pyarrow("to_iceberg()")
    types = pa.types
    if types.is_boolean(kind) or types.is_float32(kind) or types.is_float64(kind) or types.is_date32(kind):
        return kind
    if types.is_fixed_size_binary(kind) or isinstance(kind, pa.UuidType):
        return kind
    if types.is_integer(kind):
        if types.is_uint64(kind):
            return pa.decimal128(_UINT64_DIGITS, 0)
        return pa.int64() if kind.bit_width == 64 or types.is_uint32(kind) else pa.int32()
    if types.is_decimal(kind):
        return (
            pa.decimal128(kind.precision, kind.scale) if 0 <= kind.scale <= kind.precision <= _MAX_PRECISION else None
        )
    if types.is_timestamp(kind):
        return pa.timestamp("ns" if kind.unit == "ns" else "us", None if kind.tz is None else "UTC")
    for is_kind, stored in (
        (types.is_string, pa.string()),
        (types.is_large_string, pa.string()),
        (types.is_string_view, pa.string()),
        (types.is_binary, pa.binary()),
        (types.is_large_binary, pa.binary()),
        (types.is_binary_view, pa.binary()),
        (types.is_float16, pa.float32()),
        (types.is_date64, pa.date32()),
        (types.is_time, pa.time64("us")),
    ):
        if is_kind(kind):
            return stored
    return None


def created_schema(schema: pyarrow.Schema) -> pyarrow.Schema:
    """Return the columns of a table that is created for a stored schema: nanoseconds become microseconds."""
    pa = needs_pyarrow("to_iceberg()")
    return pa.schema([pa.field(each.name, _microseconds(each.type), each.nullable) for each in schema])


def _microseconds(kind: Any) -> Any:
    pa = needs_pyarrow("to_iceberg()")

    def inner(field: Any) -> Any:
        return pa.field(field.name, _microseconds(field.type), field.nullable)

    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([inner(field) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(inner(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(inner(kind.key_field), inner(kind.item_field))
    return kind


class Fit:
    """Comparison of the columns of the rows with those of a table.

    Args:
        rows: Stored schema of the rows.
        table: Arrow schema of the table.
        target: The table, for the messages.

    Attributes:
        schema: Columns that the rows are converted to; columns of the table that the rows lack are left out.
        new: Columns and fields that the table lacks.

    Raises:
        SinkSchemaError: A column has another type, or a required column of the table is missing.
    """

    def __init__(self, rows: pyarrow.Schema, table: pyarrow.Schema, target: str) -> None:
        pa = needs_pyarrow("to_iceberg()")
        self._target = target
        self.new: list[str] = []
        self.schema: pyarrow.Schema = pa.schema([])
        there = {field.name: field for field in stored_schema(table, target)}
        for field in rows:
            kind, nullable = _microseconds(field.type), True
            if field.name in there:
                # Only the values show whether a column without a null fits a required column.
                kind, nullable = self._type(field.type, there[field.name].type, field.name), there[field.name].nullable
            else:
                self.new.append(field.name)
            self.schema = self.schema.append(pa.field(field.name, kind, nullable))
        for field in there.values():
            if not field.nullable and field.name not in rows.names:
                raise SinkSchemaError(
                    f"could not write to {target}: its column {field.name!r} is required, and the rows do not have it;"
                    " add it to schema=, or make it optional"
                )

    def _type(self, ours: Any, theirs: Any, path: str) -> Any:
        """Return the type that the values of a column are converted to."""
        pa = needs_pyarrow("to_iceberg()")
        types = pa.types
        if types.is_struct(ours) and types.is_struct(theirs):
            return pa.struct(self._fields(ours, theirs, path))
        if types.is_list(ours) and types.is_list(theirs):
            return pa.list_(self._field(ours.value_field, theirs.value_field, f"{path}.element"))
        if types.is_map(ours) and types.is_map(theirs):
            key = self._field(ours.key_field, theirs.key_field, f"{path}.key")
            return pa.map_(key, self._field(ours.item_field, theirs.item_field, f"{path}.value"))
        if ours == theirs or _widens(ours, theirs):
            return theirs
        if types.is_timestamp(ours) and types.is_timestamp(theirs) and ours.tz == theirs.tz:
            return theirs
        raise SinkSchemaError(
            f"could not write to {self._target}: its column {path!r} is {theirs}, and that of the rows is {ours}; give"
            " the old schema=, or another table"
        )

    def _field(self, ours: Any, theirs: Any, path: str) -> Any:
        pa = needs_pyarrow("to_iceberg()")
        if ours.nullable and not theirs.nullable:
            raise SinkSchemaError(
                f"could not write to {self._target}: its field {path!r} is required, and that of the rows may be null;"
                " make it optional"
            )
        return pa.field(theirs.name, self._type(ours.type, theirs.type, path), theirs.nullable)

    def _fields(self, ours: Any, theirs: Any, path: str) -> list[Any]:
        """Return the fields of a struct."""
        pa = needs_pyarrow("to_iceberg()")
        there = {field.name: field for field in theirs}
        fields = []
        for field in ours:
            name = f"{path}.{field.name}"
            if field.name in there:
                fields.append(self._field(field, there[field.name], name))
            else:
                self.new.append(name)
                fields.append(pa.field(field.name, _microseconds(field.type)))
        names = {field.name for field in ours}
        for field in theirs:
            if field.name not in names and not field.nullable:
                raise SinkSchemaError(
                    f"could not write to {self._target}: its field {f'{path}.{field.name}'!r} is required, and the rows"
                    " do not have it; add it to schema=, or make it optional"
                )
        return fields


def _widens(ours: Any, theirs: Any) -> bool:
    """Return whether each value of a type has an equal one in another type."""
    types = needs_pyarrow("to_iceberg()").types
    if types.is_decimal(ours) and types.is_decimal(theirs):
        return bool(ours.scale == theirs.scale and ours.precision <= theirs.precision)
    if types.is_int32(ours):
        return bool(types.is_int64(theirs))
    return bool(types.is_float32(ours) and types.is_float64(theirs))


def converted(batches: list[pyarrow.RecordBatch], schema: pyarrow.Schema, target: str) -> pyarrow.Table:
    """Return rows with the types of a table.

    Args:
        batches: The rows.
        schema: The columns that `Fit` has found.
        target: The table, for the message.

    Raises:
        SinkSchemaError: A required column has nulls.
    """
    import pyarrow.compute as pc

    pa = needs_pyarrow("to_iceberg()")
    table = pa.Table.from_batches(batches)
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        if column.null_count and not field.nullable:
            raise SinkSchemaError(
                f"could not write to {target}: its column {field.name!r} is required, and a row has none; make it"
                " optional, or mark the field as required in schema=, so that such rows are corrupt"
            )
        # Times are truncated to microseconds; any other loss is an error.
        options = pc.CastOptions(field.type, allow_time_truncate=True)
        columns.append(column if column.type == field.type else pc.cast(column, options=options))
    return pa.Table.from_arrays(columns, schema=schema)
