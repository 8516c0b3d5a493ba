"""From the rows of a read to those of a table."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.sink_errors import SinkSchemaError

if TYPE_CHECKING:
    import pyarrow

# Columns of a decoded batch that are no part of the table.
_CORRUPT = ("_corrupt_record", "_error")
# Columns of a partition that are made of the timestamp.
_TIMES = {"date": "%Y-%m-%d", "hour": "%H"}


def to_text(schema: pyarrow.Schema) -> str:
    """A schema as text."""
    return base64.b64encode(schema.serialize()).decode()


def from_text(text: str) -> pyarrow.Schema:
    """The schema of a text."""
    pa = needs_pyarrow("a sink")
    schema: pyarrow.Schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
    return schema


def check_same(there: pyarrow.Schema, now: pyarrow.Schema, where: str) -> None:
    """Raises `SinkSchemaError`, which names the fields, where two schemas differ.

    Args:
        there: What was written before.
        now: What is to be written.
        where: The table, for the message.
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
    what = "; ".join(wrong) or "their order is another"
    raise SinkSchemaError(f"{where} was written with other columns: {what}. Give the old schema=, or another folder")


class Shape:
    """What a table's rows are, made of the batches of a read."""

    def __init__(self, *, schema: pyarrow.Schema | None, flatten: bool, partition_by: Sequence[str]) -> None:
        self._decoded = schema is not None
        self._flatten = flatten and self._decoded
        self._times = [name for name in partition_by if name in _TIMES and (schema is None or name not in schema.names)]
        self._partition_by = partition_by
        self._checked = False

    def split(self, batch: pyarrow.RecordBatch) -> tuple[pyarrow.RecordBatch, pyarrow.RecordBatch | None]:
        """The rows of the table, and those that could not be decoded, if there are any."""
        import pyarrow.compute as pc

        pa = needs_pyarrow("a sink")
        corrupt = None
        if self._decoded:
            wrong = batch.column("_error").is_valid()
            if wrong.true_count:
                corrupt = batch.filter(wrong).drop_columns(["value"])
                batch = batch.filter(pc.invert(wrong))
            batch = batch.drop_columns(list(_CORRUPT))
        columns = dict(zip(batch.schema, batch.columns, strict=True))
        if self._flatten:
            columns = self._flattened(columns)
        for name in self._times:
            column = pc.strftime(batch.column("timestamp"), _TIMES[name])
            columns[pa.field(name, pa.string(), nullable=False)] = column
        names = [field.name for field in columns]
        self._check(names)
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(list(columns))), corrupt

    def _flattened(self, columns: dict[Any, Any]) -> dict[Any, Any]:
        flat: dict[Any, Any] = {}
        for field, column in columns.items():
            if field.name == "value":
                flat |= dict(zip(field.type, column.flatten(), strict=True))
            else:
                flat[field] = column
        return flat

    def _check(self, names: list[str]) -> None:
        if self._checked:
            return
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SinkSchemaError(
                f"the schema has columns that the rows have too: {', '.join(twice)}; flatten=False keeps them in value"
            )
        if missing := [name for name in self._partition_by if name not in names]:
            there = ", ".join([*names, *(name for name in _TIMES if name not in names)])
            raise SinkSchemaError(f"partition_by has no such column: {', '.join(missing)}; there are {there}")
        self._checked = True
