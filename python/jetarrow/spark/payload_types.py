"""Types of Spark for the columns of Avro and Protobuf payloads."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from jetarrow.jetstream.binary_schema import BinaryColumns

from .options.payload_schema import PayloadSchemaOptions

_WIDER = {
    pa.float16(): pa.float32(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20),
}
_NARROWER = {"month_day_nano_interval": "an Avro duration", "time32": "a time", "time64": "a time"}
_MAX_PRECISION = 38


def value_type(options: PayloadSchemaOptions) -> StructType:
    """Return the type of `value` for the schema of payloads.

    Args:
        options: The schema, known.

    Raises:
        ValueError: The schema is not valid, or a field has a type that Spark does not have.
    """
    assert options.schema is not None
    columns = pa.schema(BinaryColumns(options.schema))
    plain = pa.schema([pa.field(field.name, plain_type(field.type, field.name)) for field in columns])
    found: StructType = from_arrow_schema(plain, prefer_timestamp_ntz=True)
    return found


def plain_type(kind: Any, path: str) -> Any:
    """Return the Arrow type, of those that Spark has, that holds the values of another; all in it is nullable.

    Args:
        kind: The type of a field.
        path: The field, for the error.

    Raises:
        ValueError: Spark has none.
    """
    types = pa.types
    if types.is_dictionary(kind):
        return kind.value_type
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if types.is_duration(kind):
        return pa.duration("us")
    if types.is_struct(kind):
        return pa.struct([pa.field(one.name, plain_type(one.type, f"{path}.{one.name}")) for one in kind])
    if types.is_list(kind):
        return pa.list_(plain_type(kind.value_type, f"{path}[]"))
    if types.is_map(kind):
        return pa.map_(plain_type(kind.key_type, f"{path}[]"), plain_type(kind.item_type, f"{path}[]"))
    name = next((text for word, text in _NARROWER.items() if word in str(kind)), None)
    if types.is_decimal(kind) and kind.precision > _MAX_PRECISION:
        name = f"a decimal of {kind.precision} digits"
    if name is not None:
        raise ValueError(
            f"jetstream: field {path} of the payloads is {name}, which Spark does not have; read the stream with"
            " payload=binary, or give a schema without the field (Avro)"
        )
    return _WIDER.get(kind, kind)
