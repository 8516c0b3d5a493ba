"""Columns of the source, and conversion of Arrow batches to the exact schema that Spark requires."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    LongType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from .options.choices import HeaderValues, ParseMode, Payload
from .options.option_texts import invalid
from .options.read import RowOptions
from .payload_types import value_type

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
_TIME_NS = StructField("time_ns", LongType(), nullable=False)
_REPLY = StructField("reply", StringType(), nullable=True)
_DDL = "such as 'id bigint, name string', or StructType.json()"


_DECODABLE = (
    BooleanType,
    NumericType,
    StringType,
    BinaryType,
    DateType,
    TimestampType,
    TimestampNTZType,
    NullType,
)


class ArrowBatch(Protocol):
    """The part of a batch of `js.read` that is used here."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...


def full_schema(options: RowOptions) -> StructType | str:
    """Return the columns of the source for the options; as DDL if `valueSchema` is DDL, which only Spark can parse.

    Args:
        options: The row options.

    Raises:
        ValueError: `payload` is json or arrow without a `valueSchema`; or `valueSchema` is not JSON of Spark.
    """
    extra = [_TIME_NS] if options.time_ns else []
    extra += [_REPLY] if options.reply else []
    fields = [_headers(options) if field.name == "headers" else field for field in SCHEMA]
    fields = [field for field in fields if options.headers or field.name != "headers"]
    if not options.decoded:
        return StructType([*fields[:-1], _data(options), *extra])
    if options.payload_schema is not None:
        value = value_type(options.payload_schema)
        return StructType([*fields[:-1], StructField("value", value), *_corrupt(options), *extra])
    text = options.value_schema
    if text is None:
        raise invalid(
            "valueSchema", f"is required with payload={options.payload}", f"the fields of the payload, {_DDL}"
        )
    corrupt = _corrupt(options)
    if text.startswith("{"):
        try:
            value = StructType.fromJson(json.loads(text))
        except (ValueError, KeyError, TypeError):
            raise invalid("valueSchema", "cannot be read", _DDL) from None
        return StructType([*fields[:-1], StructField("value", value), *corrupt, *extra])
    kind = text if re.fullmatch(r"(?is)struct\s*<.*>", text) else f"struct<{text}>"
    return ", ".join([*map(_ddl, fields[:-1]), f"value {kind}", *map(_ddl, [*corrupt, *extra])])


def check_schema(schema: StructType, options: RowOptions | None = None) -> None:
    """Check the schema of a read: a projection by name of the source's columns, in any order, types equal.

    Args:
        schema: The requested schema; a column may be nullable although that of the source is not.
        options: The row options. Default: none set.

    Raises:
        ValueError: A column is unknown, has another type, occurs twice or must be nullable; or there is none.
    """
    options = options or RowOptions()
    columns = {field.name: field for field in (*SCHEMA, _TIME_NS, _REPLY)}
    columns["headers"] = _headers(options)
    if not options.headers:
        del columns["headers"]
    columns["data"] = _data(options)
    if options.decoded:
        del columns["data"]
        columns["value"] = StructField("value", StructType())
        columns |= {field.name: field for field in _corrupt(options)}
    # simpleString omits nullability, because all columns of a DDL schema are nullable.
    types = {name: field.dataType.simpleString() for name, field in columns.items()}
    if "value" in types:
        types["value"] = "struct<...>"
    problem = next(_column_problems(schema, columns, types), None)
    if problem is None and not schema.fields:
        problem = "the schema has no column"
    if problem is None and "value" in types and "value" not in schema.names and options.corrupt_column in schema.names:
        problem = f"column {options.corrupt_column!r} needs column 'value', whose type says what is malformed"
    if problem is not None:
        listed = ", ".join(f"{name} {kind}" for name, kind in types.items())
        raise ValueError(f"jetstream: {problem}; a schema selects from these columns: {listed}")
    if "value" in schema.names and options.payload_schema is not None:
        _check_fields(schema["value"].dataType, value_type(options.payload_schema))
    elif "value" in schema.names:
        _check_decodable(schema["value"].dataType, "value", options.payload)
        if options.payload == Payload.ARROW:
            _check_table(schema)


def _column_problems(schema: StructType, columns: Mapping[str, StructField], types: Mapping[str, str]) -> Iterator[str]:
    """Yield problems of the columns of a read, given those of the source and their types as text."""
    for field in schema:
        kind = field.dataType.simpleString()
        if field.name == "value" and isinstance(field.dataType, StructType):
            kind = "struct<...>"
        if field.name not in types:
            yield f"there is no column {field.name!r}"
        elif kind != types[field.name]:
            yield f"column {field.name!r} is {types[field.name]}, not {kind}"
        elif columns[field.name].nullable and not field.nullable:
            yield f"column {field.name!r} is nullable, a message may have none"
        elif schema.names.count(field.name) > 1:
            yield f"column {field.name!r} is named twice"


def _check_fields(given: DataType, found: StructType) -> None:
    """Raise ValueError unless all fields of `value` are in the schema of the payloads, with the same types."""
    assert isinstance(given, StructType)  # as it was checked
    there = {field.name: field.dataType.simpleString() for field in found}
    for field in given:
        if there.get(field.name) != field.dataType.simpleString():
            listed = ", ".join(f"{name} {kind}" for name, kind in there.items())
            raise ValueError(
                f"jetstream: value.{field.name} is {field.dataType.simpleString()}, and the payloads have {listed}"
            )


def _check_decodable(kind: DataType, path: str, payload: Payload) -> None:
    """Raise ValueError for a type that cannot be decoded from JSON, or from an Arrow message."""
    arrow = payload == Payload.ARROW
    if isinstance(kind, StructType):
        for field in kind:
            _check_decodable(field.dataType, f"{path}.{field.name}", payload)
    elif isinstance(kind, ArrayType):
        _check_decodable(kind.elementType, f"{path}[]", payload)
    elif isinstance(kind, MapType) and (arrow or isinstance(kind.keyType, StringType)):
        _check_decodable(kind.keyType, f"{path}[]", payload)
        _check_decodable(kind.valueType, f"{path}[]", payload)
    elif not isinstance(kind, (*_DECODABLE, DayTimeIntervalType) if arrow else _DECODABLE):
        raise ValueError(
            f"jetstream: {path} is {kind.simpleString()}, which is not decoded from {'Arrow' if arrow else 'JSON'};"
            " valid: boolean, numbers, string, binary, date, timestamp, timestamp_ntz, array, struct,"
            f" {'map, interval day to second' if arrow else 'map<string,...>'}"
        )


def _check_table(schema: StructType) -> None:
    """Raise ValueError for columns that cannot be read from Arrow messages."""
    value = schema["value"].dataType
    assert isinstance(value, StructType)  # as it was checked
    # Fields of `value` are read next to the columns of the messages, and are identified by their names.
    beside = {"_corrupt_record", "_error", *schema.names, *(["timestamp"] if "time_ns" in schema.names else [])}
    if both := sorted(beside & set(value.names)):
        raise ValueError(
            f"jetstream: with payload=arrow a field of value cannot be named as a column of the messages that is read:"
            f" {', '.join(both)}; leave one of them out, by .schema('seq bigint, value struct<...>') or valueSchema"
        )
    if not value.names or len(set(value.names)) != len(value.names):
        raise ValueError("jetstream: with payload=arrow value has fields, each with a name of its own")
    if (path := next(_never_null(value, "value"), None)) is not None:
        raise ValueError(f"jetstream: {path} is NOT NULL; with payload=arrow everything in value may be null")


def _never_null(kind: DataType, path: str) -> Iterator[str]:
    """Yield the paths in a type that are not nullable."""
    if isinstance(kind, StructType):
        for field in kind:
            yield from [] if field.nullable else [f"{path}.{field.name}"]
            yield from _never_null(field.dataType, f"{path}.{field.name}")
    elif isinstance(kind, ArrayType):
        yield from [] if kind.containsNull else [f"{path}[]"]
        yield from _never_null(kind.elementType, f"{path}[]")
    elif isinstance(kind, MapType):
        yield from [] if kind.valueContainsNull else [f"{path}[]"]
        yield from _never_null(kind.valueType, f"{path}[]")


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark requires for a Spark schema."""
    # Spark 4.2 has a parameter for the time zone; earlier versions use UTC.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


def _data(options: RowOptions) -> StructField:
    return StructField("data", StringType() if options.payload == Payload.STRING else BinaryType(), nullable=False)


def _headers(options: RowOptions) -> StructField:
    values = BinaryType() if options.header_values == HeaderValues.BINARY else StringType()
    return StructField("headers", MapType(StringType(), ArrayType(values)), nullable=True)


def _corrupt(options: RowOptions) -> list[StructField]:
    if options.mode in (ParseMode.DROPMALFORMED, ParseMode.FAILFAST):
        return []
    return [StructField(options.corrupt_column, StringType())]


def _ddl(field: StructField) -> str:
    name = field.name.replace("`", "``")
    return f"`{name}` {field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}"


class Retyper:
    """Replaces the schema of batches by the Arrow schema of a Spark schema, without copying a buffer.

    Spark compares the first batch's schema with its own, including the nullability of list elements. Names and
    nullability are only in the Arrow schema, so the same arrays are exported with another schema.

    Args:
        schema: The Spark schema of the batches' columns.
    """

    def __init__(self, schema: StructType) -> None:
        self._target: pa.Schema = arrow_schema(schema)
        self._checked: pa.Schema | None = None

    def __call__(self, batch: ArrowBatch) -> pa.RecordBatch:
        """Return `batch` under the target schema.

        Args:
            batch: Any Arrow batch of the same columns and types.

        Raises:
            TypeError: The batch has other columns or types, whose memory would be misread.
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
            raise TypeError(
                f"jetstream: could not convert a batch: js.read returned ({actual}), Spark expects ({wanted})"
            )


class _Relabelled:
    """The arrays of one batch with the schema of another."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        _, arrays = self._batch.__arrow_c_array__()
        return self._schema.__arrow_c_schema__(), arrays


def _same_layout(actual: Any, wanted: Any) -> bool:
    """Return whether two types differ only in field names and nullability, and `wanted` is nullable if `actual` is."""
    if actual.id != wanted.id or actual.num_fields != wanted.num_fields:
        return False
    if actual.num_fields == 0:
        return bool(actual.equals(wanted))
    children = [(actual.field(i), wanted.field(i)) for i in range(actual.num_fields)]
    return all(_same_layout(a.type, w.type) and (w.nullable or not a.nullable) for a, w in children)
