"""Conversion of the rows of a read to rows of a table."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.errors import SinkSchemaError
from jetarrow.jetstream.sinks.partitions import check, too_long
from jetarrow.jetstream.sinks.upsert import DELETED, Upsert, check_key, deletion_markers, invalid_keys

if TYPE_CHECKING:
    import pyarrow

# Columns of a decoded batch that are not columns of the table.
_CORRUPT = ("_corrupt_record", "_error")
# Partition columns that are derived from the timestamp: their formats.
_TIMES = {"date": "%Y-%m-%d", "hour": "%H"}


def to_text(schema: pyarrow.Schema) -> str:
    """Serialize a schema to text."""
    return base64.b64encode(schema.serialize()).decode()


def from_text(text: str) -> pyarrow.Schema:
    """Return the schema of `to_text`."""
    pa = needs_pyarrow("a sink")
    schema: pyarrow.Schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
    return schema


def check_same(there: pyarrow.Schema, now: pyarrow.Schema, target: str) -> None:
    """Raise `SinkSchemaError`, which names the fields, if two schemas differ.

    Args:
        there: Schema of the table.
        now: Schema of the rows to write.
        target: The table, for the message.
    """
    if there.equals(now):
        return
    ours, theirs = ({field.name: field.type for field in schema} for schema in (now, there))
    wrong = [f"{name} is new" for name in ours if name not in theirs]
    wrong += [f"{name} is missing" for name in theirs if name not in ours]
    wrong += [
        f"{name} was {theirs[name]} and is {ours[name]}"
        for name in ours
        if name in theirs and ours[name] != theirs[name]
    ]
    reason = ", ".join(wrong) or "their order differs"
    raise SinkSchemaError(
        f"could not write to {target}: it has other columns ({reason}); give the old schema=, or another folder"
    )


class Shape:
    """Converter of the batches of a read to rows of a table.

    Args:
        schema: The fields of `value`; None keeps payloads undecoded.
        flatten: Whether these fields are columns.
        partition_by: Partition columns.
        escaped: As for `too_long`.
        upsert: Options of a table with keys, whose rows have the column `DELETED`.

    Raises:
        SinkSchemaError: A column occurs twice, or cannot be a partition column or a key.
    """

    def __init__(
        self,
        *,
        schema: pyarrow.Schema | None,
        flatten: bool,
        partition_by: Sequence[str],
        escaped: bool = False,
        upsert: Upsert | None = None,
    ) -> None:
        self._escaped, self._upsert = escaped, upsert
        self._decoded = schema is not None
        self._flatten = flatten and self._decoded
        self._times = [name for name in partition_by if name in _TIMES and (schema is None or name not in schema.names)]
        self._partition_by = partition_by
        self._check(schema)

    def split(self, batch: pyarrow.RecordBatch) -> tuple[pyarrow.RecordBatch, pyarrow.RecordBatch | None]:
        """Return the rows of the table, and the rows that cannot be in it, or None."""
        import pyarrow.compute as pc

        pa = needs_pyarrow("a sink")
        corrupt = []
        if self._upsert is not None:
            batch = self._marked(batch, self._upsert)
        if self._decoded:
            wrong = batch.column("_error").is_valid()
            if self._upsert is not None:
                # A deletion marker has no payload.
                wrong = pc.and_(wrong, pc.invert(batch.column(DELETED)))
            if wrong.true_count:
                corrupt.append(self._unmarked(batch.filter(wrong)).drop_columns(["value"]))
                batch = batch.filter(pc.invert(wrong))
        rows = self._rows(batch)
        reasons = too_long(rows, self._partition_by, escaped=self._escaped)
        if self._upsert is not None:
            reasons = invalid_keys(rows, self._upsert.key, self._partition_by) | reasons
        if reasons:
            errors = pa.array([reasons.get(row) for row in range(rows.num_rows)], pa.string())
            away = errors.is_valid()
            corrupt.append(self._corrupt_rows(self._unmarked(batch.filter(away)), errors.drop_null()))
            rows = rows.filter(pc.invert(away))
        return rows, _concatenate(corrupt)

    def _marked(self, batch: pyarrow.RecordBatch, upsert: Upsert) -> pyarrow.RecordBatch:
        """Return the batch with the column `DELETED`, without markers that are ignored."""
        import pyarrow.compute as pc

        pa = needs_pyarrow("a sink")
        deleted = deletion_markers(batch.column("headers"))
        batch = batch.append_column(pa.field(DELETED, pa.bool_()), deleted)
        return batch.filter(pc.invert(deleted)) if upsert.deletes == "none" and deleted.true_count else batch

    def _unmarked(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        return batch if self._upsert is None else batch.drop_columns([DELETED])

    def _rows(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        import pyarrow.compute as pc

        pa = needs_pyarrow("a sink")
        if self._decoded:
            batch = batch.drop_columns(list(_CORRUPT))
        columns = dict(zip(batch.schema, batch.columns, strict=True))
        if self._flatten:
            columns = self._flattened(columns)
        for name in self._times:
            column = pc.strftime(batch.column("timestamp"), _TIMES[name])
            columns[pa.field(name, pa.string(), nullable=False)] = column
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(list(columns)))

    def _flattened(self, columns: dict[Any, Any]) -> dict[Any, Any]:
        flat: dict[Any, Any] = {}
        for field, column in columns.items():
            if field.name == "value":
                flat |= dict(zip(field.type, column.flatten(), strict=True))
            else:
                flat[field] = column
        return flat

    def _corrupt_rows(self, batch: pyarrow.RecordBatch, errors: pyarrow.Array) -> pyarrow.RecordBatch:
        """Return rows with their errors in the format of undecodable rows; undecoded rows keep all columns."""
        pa = needs_pyarrow("a sink")
        if not self._decoded:
            return batch.append_column(pa.field("_error", pa.string()), errors)
        kind = batch.schema.field(_CORRUPT[0]).type
        texts = [json.dumps(value, default=_plain, ensure_ascii=False) for value in batch.column("value").to_pylist()]
        record = pa.array([text.encode() if pa.types.is_binary(kind) else text for text in texts], kind)
        for name, column in zip(_CORRUPT, (record, errors), strict=True):
            index = batch.schema.get_field_index(name)
            batch = batch.set_column(index, batch.schema.field(index), column.cast(batch.schema.field(index).type))
        return batch.drop_columns(["value"])

    def _check(self, schema: pyarrow.Schema | None) -> None:
        pa = needs_pyarrow("a sink")
        payload = [pa.field("data", pa.binary())]
        if schema is not None:
            payload = list(schema) if self._flatten else [pa.field("value", pa.struct(list(schema)))]
        fields = [*_read_fields(pa), *payload, *(pa.field(name, pa.string()) for name in self._times)]
        if self._upsert is not None:
            fields.append(pa.field(DELETED, pa.bool_()))
        names = [field.name for field in fields]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SinkSchemaError(
                f"could not flatten the schema: the rows have columns of the same names: {', '.join(twice)}; give"
                " flatten=False, which keeps them in value"
            )
        if missing := [name for name in self._partition_by if name not in names]:
            there = ", ".join([*names, *(name for name in _TIMES if name not in names)])
            raise SinkSchemaError(f"could not partition by {', '.join(missing)}: there is no such column; use {there}")
        check(pa.schema(fields), self._partition_by)
        if self._upsert is not None:
            check_key(pa.schema(fields), self._upsert.key)


def _read_fields(pa: Any) -> list[pyarrow.Field]:
    """Return the columns of a read except the payload."""
    headers = pa.map_(pa.string(), pa.list_(pa.string()))
    return [
        pa.field("stream", pa.string()),
        pa.field("seq", pa.int64()),
        pa.field("subject", pa.string()),
        pa.field("timestamp", pa.timestamp("ns", "UTC")),
        pa.field("headers", headers),
    ]


def _plain(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _concatenate(batches: list[pyarrow.RecordBatch]) -> pyarrow.RecordBatch | None:
    """Concatenate batches in the order of their sequences."""
    if len(batches) < 2:
        return batches[0] if batches else None
    pa = needs_pyarrow("a sink")
    table = pa.Table.from_batches(batches).sort_by("seq").combine_chunks()
    joined: pyarrow.RecordBatch = table.to_batches()[0]
    return joined
