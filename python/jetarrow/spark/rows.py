"""The columns of the source, and Arrow batches in exactly the schema that Spark demands."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

SCHEMA = StructType(
    [
        StructField("stream", StringType(), nullable=False),
        StructField("seq", LongType(), nullable=False),
        StructField("subject", StringType(), nullable=False),
        StructField("timestamp", TimestampType(), nullable=False),
        StructField("headers", MapType(StringType(), ArrayType(StringType())), nullable=True),
        StructField("data", BinaryType(), nullable=False),
    ]
)


class ArrowBatch(Protocol):
    """What `js.read` yields, as far as it is used here."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...


def check_schema(schema: StructType) -> None:
    """Check the schema of a read: a projection by name of the source's columns, in any order, types equal.

    Parameters
    ----------
    schema:
        What Spark asks for; nullability may be wider than the source's.

    Raises
    ------
    ValueError
        Another column, another type, a column twice, none at all, or `headers` as not nullable.
    """
    # simpleString leaves nullability out: a schema written as DDL is nullable throughout.
    types = {field.name: field.dataType.simpleString() for field in SCHEMA}
    columns = ", ".join(f"{name} {kind}" for name, kind in types.items())
    for field in schema:
        kind = field.dataType.simpleString()
        if field.name not in types:
            problem = f"there is no column {field.name!r}"
        elif kind != types[field.name]:
            problem = f"column {field.name!r} is {types[field.name]}, not {kind}"
        elif SCHEMA[field.name].nullable and not field.nullable:
            problem = f"column {field.name!r} is nullable, a message may have none"
        elif schema.names.count(field.name) > 1:
            problem = f"column {field.name!r} is named twice"
        else:
            continue
        break
    else:
        if schema.fields:
            return
        problem = "the schema has no column"
    raise ValueError(f"jetstream: {problem}; a schema selects from these columns: {columns}")


class Retyper:
    """Gives batches the Arrow schema of a Spark schema, without touching a buffer.

    Spark compares the first batch's schema with its own, down to the nullability of list elements. Names and
    nullability live in the Arrow schema alone, so the same arrays are handed on under another one.

    Parameters
    ----------
    schema:
        The Spark schema, of the columns that the batches have.
    """

    def __init__(self, schema: StructType) -> None:
        self._target: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self._checked: pa.Schema | None = None

    def __call__(self, batch: ArrowBatch) -> pa.RecordBatch:
        """Return `batch` under the target schema.

        Parameters
        ----------
        batch:
            Any Arrow batch of the same columns and types.

        Raises
        ------
        TypeError
            It has other columns or types: handing it on would misread memory.
        """
        exported = pa.record_batch(batch)
        if self._checked is None or not exported.schema.equals(self._checked):
            self._check(exported.schema)
            self._checked = exported.schema
        return pa.record_batch(_Relabelled(exported, self._target))

    def _check(self, actual: pa.Schema) -> None:
        wanted = self._target
        if actual.names != wanted.names or not all(
            _same_layout(a.type, w.type) and (w.nullable or not a.nullable) for a, w in zip(actual, wanted, strict=True)
        ):
            raise TypeError(f"jetstream: js.read gave ({actual}), Spark expects ({wanted})")


class _Relabelled:
    """The arrays of one batch with the schema of another."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        _, arrays = self._batch.__arrow_c_array__()
        return self._schema.__arrow_c_schema__(), arrays


def _same_layout(actual: Any, wanted: Any) -> bool:
    """Whether the two types differ at most in field names and nullability, and never towards fewer nulls."""
    if actual.id != wanted.id or actual.num_fields != wanted.num_fields:
        return False
    if actual.num_fields == 0:
        return bool(actual.equals(wanted))
    children = [(actual.field(i), wanted.field(i)) for i in range(actual.num_fields)]
    return all(_same_layout(a.type, w.type) and (w.nullable or not a.nullable) for a, w in children)
