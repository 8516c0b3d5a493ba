"""Conversion of batches of `js.read` to rows of the source: filter, decode, project.

It creates no Python object per message, except for undecodable payloads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.types import StructType

import jetarrow.sync
from jetarrow.jetstream.errors import DecodeError
from jetarrow.spark._core import Batch, Decompressor, JsonRules, check_reader
from jetarrow.spark.options.choices import Compression, HeaderValues, ParseMode, Payload
from jetarrow.spark.options.read import RowOptions
from jetarrow.spark.options.session_zone import session_zone
from jetarrow.spark.reserved_headers import without
from jetarrow.spark.schema import Retyper, arrow_schema

from .binary_messages import BinaryMessages
from .filters import matcher
from .key_shares import KeyShare
from .table_messages import TableMessages

_UTC_MICROSECONDS = pa.timestamp("us", "UTC")


class RowShaper:
    """Selects the columns of `js.read`, and converts them to the requested ones.

    Args:
        schema: Schema of the rows, checked by `schema.check_schema`.
        options: Row options.
        filters: Subject filters to evaluate here. Default: none.
        batch_bytes: Maximum size in bytes of a batch of decompressed payloads. Default: 8 MiB.
        share: The share of the keys to evaluate here. Default: none.

    Attributes:
        columns: Argument `columns` for `js.read`.
        value_schema: Argument `schema` for `js.read`; None if payloads are not decoded there.
        mode: Argument `mode` for `js.read`.
        tables: For `payload=arrow`: the decoder of table messages; else None.
    """

    def __init__(
        self,
        schema: StructType,
        options: RowOptions,
        filters: Sequence[str] = (),
        *,
        batch_bytes: int = 8 << 20,
        share: KeyShare | None = None,
    ) -> None:
        self._options = options
        self._names: list[str] = schema.names
        self._retype = Retyper(schema)
        self._matches = _matcher(filters, share)
        sources = {"time_ns": "timestamp", "value": "data", "data": "data"}
        if options.decoded:
            sources[options.corrupt_column] = "data"
        wanted = [sources.get(name, name) for name in self._names]
        self._value = _value_schema(schema) if options.decoded and "data" in wanted else None
        self._decompressor: Decompressor | None = None
        if options.compression != Compression.NONE and "data" in wanted:
            self._decompressor = Decompressor(
                options.compression, max_payload_bytes=options.max_payload_bytes, batch_bytes=batch_bytes
            )
        # Order: decompress, filter, decode.
        self._late = self._value is not None and (self._matches is not None or self._decompressor is not None)
        self._rules = _json_rules(options)
        self.mode = options.mode or ParseMode.PERMISSIVE
        self.tables: TableMessages | None = None
        if self._value is not None and options.payload == Payload.ARROW:
            self.tables, self._late = TableMessages(self._value, self.mode, late=self._matches is not None), False
        self._binary: BinaryMessages | None = None
        if self._value is not None and options.payload_schema is not None:
            self._binary = BinaryMessages(options.payload_schema, self._value)
        self.columns = list(dict.fromkeys(wanted + (["subject"] if self._matches else [])))
        self.value_schema: pa.Schema | None = None if self._late else self._value

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `js.read` and `js.latest` for the batches of this object."""
        tables = self.tables
        return {
            "columns": self.columns,
            "schema": self._read_schema(),
            "mode": self.mode if tables is None else tables.mode,
            "format": self._read_format(),
            "rules": self._rules,
            "binary_headers": self._options.header_values == HeaderValues.BINARY,
            "timestamp_unit": "ns" if "time_ns" in self._names else "us",
        }

    def _read_schema(self) -> Any:
        if self.tables is not None:
            return self.tables.schema
        return self.value_schema if self._binary is None or self._late else self._binary.schema

    def _read_format(self) -> str:
        if self.tables is not None:
            return "arrow"
        # With `_late` the reader returns payloads.
        return "json" if self._binary is None or self._late else self._binary.format

    def __call__(self, batch: Batch, stream: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one batch: one batch, none, or several if payloads are compressed.

        Args:
            batch: A batch of `js.read` with this object's arguments.
            stream: The stream's name, for errors.

        Yields:
            Batches that are not empty.

        Raises:
            DecodeError: A payload cannot be decoded, and the mode is FAILFAST.
        """
        if self.tables is not None:
            rows = self.tables.rows(batch, self._matches)
            if rows.num_rows:
                yield self._retype(self._projected(rows))
            return
        if self._matches is not None:
            batch = batch.filter(self._matches(pa.record_batch(batch).column("subject")))
        pieces = iter([batch]) if self._decompressor is None else self._decompressed(batch, stream, self._decompressor)
        for piece in pieces:
            rows = self._rows(piece, stream)
            if rows.num_rows:
                yield self._retype(self._projected(rows))

    def _rows(self, batch: Batch, stream: str) -> pa.RecordBatch:
        if self._late and self._value is not None:
            given = self._value if self._binary is None else self._binary.schema
            batch = batch.decode(given, self.mode, self._rules, binary=self._binary is not None)
        rows = pa.record_batch(batch)
        if self._binary is not None:
            return self._binary.convert(rows, batch)
        if self._options.payload == Payload.STRING and "data" in self._names:
            return self._as_text(rows, batch, stream)
        return rows

    def _projected(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns, fields = [], []
        for name in self._names:
            source = {"time_ns": "timestamp"}.get(name, name)
            if self._options.decoded and name == self._options.corrupt_column:
                source = "_corrupt_record"
            column, field = rows.column(source), rows.schema.field(source)
            if name == "time_ns":
                column = column.cast(pa.int64())
            elif name == "timestamp":
                column = column.cast(_UTC_MICROSECONDS, safe=False)
            elif name == "headers" and not self._options.reserved_headers:
                column = without(column)
            columns.append(column)
            fields.append(pa.field(name, column.type, field.nullable))
        return pa.record_batch(columns, schema=pa.schema(fields))

    def _as_text(self, rows: pa.RecordBatch, batch: Batch, stream: str) -> pa.RecordBatch:
        at = rows.schema.get_field_index("data")
        data = rows.column(at)
        field = pa.field("data", pa.string(), nullable=False)
        try:
            return rows.set_column(at, field, data.cast(pa.string()))
        except pa.ArrowInvalid:
            pass
        texts: list[str | None] = []
        for row, payload in enumerate(data.to_pylist()):
            try:
                texts.append(payload.decode())
            except UnicodeDecodeError as error:
                self._refuse(batch, row, stream, f"is not UTF-8 ({error.reason} at byte {error.start})")
                dropped = self._options.mode == ParseMode.DROPMALFORMED
                texts.append(None if dropped else payload.decode("utf-8", "replace"))
        column = pa.array(texts, pa.string())
        kept = column.is_valid()
        return (
            rows.set_column(at, pa.field("data", pa.string()), column)
            .filter(kept)
            .set_column(at, field, column.filter(kept))
        )

    def _decompressed(self, batch: Batch, stream: str, decompressor: Decompressor) -> Iterator[Batch]:
        start, count = 0, len(batch)
        while start < count:
            piece, failed = decompressor.rows(batch, start)
            start += len(piece)
            for row, too_large in failed:
                # Without JSON there is no column for malformed payloads, so only an explicit mode accepts them.
                if self._value is None or self.mode == ParseMode.FAILFAST:
                    problem = f"is not {self._options.compression}"
                    if too_large:
                        most = self._options.max_payload_bytes
                        problem = f"has more than {most} bytes when it is decompressed (option maxPayloadBytes)"
                    self._refuse(piece, row, stream, problem)
            if failed and self._options.mode == ParseMode.DROPMALFORMED:
                broken = {row for row, _ in failed}
                piece = piece.filter(pa.array([row not in broken for row in range(len(piece))]))
            yield piece

    def _refuse(self, batch: Batch, row: int, stream: str, problem: str) -> None:
        """Raise an error, unless the mode accepts malformed payloads."""
        if self._options.mode not in (ParseMode.PERMISSIVE, ParseMode.DROPMALFORMED):
            raise DecodeError(
                f"jetstream: a payload of stream {stream!r} {problem}; with option mode=PERMISSIVE or DROPMALFORMED"
                " the read continues",
                seq=batch.seqs[row],
                column="data",
            )


def _matcher(filters: Sequence[str], share: KeyShare | None) -> Any | None:
    """Return the filter of subjects, as `filters.matcher`; None if all rows match."""
    subjects = matcher(filters) if filters else None
    if share is None or share.exact:
        return subjects
    keys = share.matcher()
    return keys if subjects is None else lambda column: pc.and_(subjects(column), keys(column))


def check_types(schema: StructType, options: RowOptions, js: jetarrow.sync.JetStream) -> None:
    """Check on the driver, instead of in every task, that `value` can be decoded.

    Args:
        schema: Schema of the rows.
        options: Row options.
        js: A context, which checks the arguments of a read without a request.

    Raises:
        ValueError: A type cannot be decoded from JSON, or a field has the name of another column.
    """
    shape = RowShaper(schema, options)
    if shape.value_schema is not None:
        check_reader(js, **shape.arguments())


def _json_rules(options: RowOptions) -> JsonRules:
    zone = options.time_zone
    if zone is None:
        task = TaskContext.get()
        zone = options.driver_zone if task is None else session_zone(task.getLocalProperty, options.driver_zone)
    numbers: Any = options.timestamp_numbers  # an enum of the literals
    return JsonRules(zone, numbers, like_spark=True, non_finite=options.non_finite)


def _value_schema(schema: StructType) -> pa.Schema:
    return pa.schema(list(arrow_schema(StructType([schema["value"]])).field("value").type))
