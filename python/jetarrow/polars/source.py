"""A stream as a polars LazyFrame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack, cast

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

import jetarrow.sync
from jetarrow.archive_scan.place import ArchivePlace
from jetarrow.archive_scan.table import ArchiveTable, check_for_archive
from jetarrow.core.docstrings import with_entries_of
from jetarrow.core.suggestions import check_keywords, keywords_of
from jetarrow.jetstream.arrow import ArrowSchema
from jetarrow.jetstream.binary_schema import BinaryColumns, NativeSchema, ProtobufSchema
from jetarrow.jetstream.json_rules import JsonRules, json_rules
from jetarrow.jetstream.literals import (
    BINARY_FORMATS,
    OnDataLoss,
    PayloadFormat,
    RowFormat,
    TimestampNumbers,
    check_literal,
)
from jetarrow.jetstream.registry import RegisteredSchema, SchemaRegistry, payload_schema, registry_of
from jetarrow.jetstream.schema import arrow_schema
from jetarrow.polars.archive_source import ArchiveSource
from jetarrow.polars.bounds import ALL, bounds, within

if TYPE_CHECKING:
    from jetarrow.core.option_types import SyncConnectOptions
    from jetarrow.sync.fetch import Reader

_METADATA_COLUMNS = {
    "stream": pa.string(),
    "seq": pa.int64(),
    "subject": pa.string(),
    "timestamp": pa.timestamp("ns", "UTC"),
    "headers": pa.map_(pa.string(), pa.list_(pa.string())),
}
_MALFORMED_COLUMNS = {"_corrupt_record": pa.string(), "_error": pa.string()}
_BATCH_ROWS = 65536


@with_entries_of(jetarrow.sync.connect, jetarrow.sync.JetStream.read)
def scan(
    servers: str | list[str],
    stream: str,
    *,
    schema: ArrowSchema | Mapping[str, Any] | str | PathLike[str] | ProtobufSchema | type | None = None,
    subjects: str | Sequence[str] | None = None,
    format: PayloadFormat = "json",
    registry: SchemaRegistry | str | None = None,
    mode: str = "PERMISSIVE",
    latest: bool = False,
    time_zone: str = "UTC",
    timestamp_numbers: TimestampNumbers | None = None,
    archive: Any = None,
    app_id: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    filesystem: Any = None,
    on_data_loss: OnDataLoss = "error",
    **options: Unpack[SyncConnectOptions],
) -> pl.LazyFrame:
    """Returns a stream as a LazyFrame. Each `collect` connects and reads the stream again.

    Columns: `stream`, `seq`, `subject`, `timestamp`, `headers`, then the fields of the payloads, or `data` without a
    schema. A field with the name of a metadata column replaces that column.

    Predicates are pushed down to the server as a range and as subject filters: comparisons, `is_between` and `is_in` on
    `seq`, `timestamp` and `subject`, and `subject.str.starts_with` by whole tokens, combined with `&` and `|`. polars
    filters the result again. `head(n)` before a filter ends the read early; filters after it are not pushed down. With
    `latest`, only subject filters are pushed down. JSON decoding is limited to the required fields.

    A read ends at the last message at the time of opening. In mode "PERMISSIVE", a JSON row is malformed if one of the
    required fields is malformed.

    With `archive` the rows up to the archive's position come from it, and the rest from the stream, so that no row is
    missing and none occurs twice, while the sink and the stream continue. The columns are those of the archive. See
    docs/archive-scan.md.

    Args:
        servers: As `jetarrow.sync.connect`.
        stream: The stream.
        schema: As `js.read`: the schema of the payloads. With "infer", or with format "arrow" and no schema, the first
            messages are read when polars requests the columns.
        subjects: As `js.read`.
        format: As `js.read`.
        registry: As `js.read`. Without `schema` the first message is read when polars requests the columns.
        mode: As `js.read`: the handling of malformed rows. "PERMISSIVE" adds the columns `_corrupt_record` and
            `_error`.
        latest: The last message of each subject only, as in `js.latest`.
        time_zone: As `js.read`.
        timestamp_numbers: As `js.read`.
        archive: An archive of the stream: the folder or URI of `to_parquet` or `to_delta`, whose newest version is
            read by each `collect`; a `deltalake.DeltaTable` or a table of pyiceberg, whose loaded version is read; or
            a function that returns one of them, called by each `collect`. Schema, `time_zone` and `timestamp_numbers`
            are those of the sink; Avro and Protobuf payloads need `format`, and `schema` or `registry`.
        app_id: With a Delta or Iceberg table: as `to_delta`. Default: that of the only sink of the stream.
        storage_options: With a Delta table: as `to_delta`.
        filesystem: With a Parquet folder: as `to_parquet`.
        on_data_loss: With `archive`: "error" raises `DataLossError` if the stream has lost messages after the archive's
            position; "warn" reads the remaining ones.
        **options: As `jetarrow.sync.connect`: each `collect` opens a connection.

    Returns:
        The frame. A missing stream or server raises in `collect`.

    Raises:
        ValueError: An argument is invalid.
        SinkError: With `archive`: there is none, it is of another stream, or it cannot be read.
        SinkSchemaError: With `archive`: it has other payloads than `format` and `schema`.
    """
    check_keywords("scan", options, keywords_of(jetarrow.sync.Client.connect), keywords_of(scan))
    check_literal("format", format, PayloadFormat)
    filters = [subjects] if isinstance(subjects, str) else list(subjects or ())
    known = registry_of(None, registry, format)
    if archive is not None:
        place = ArchivePlace(stream, archive, app_id, storage_options, filesystem)
        check_for_archive(format, mode, latest=latest, rules=(time_zone, timestamp_numbers))
        check_literal("on_data_loss", on_data_loss, OnDataLoss)
        connect = partial(jetarrow.sync.connect, servers, **options)
        table = ArchiveTable(place, connect, cast("RowFormat", format), schema, tuple(filters), on_data_loss, known)
        archived = ArchiveSource(table)
        # Not by polars, which raises other errors for a failed schema.
        return register_io_source(archived.frames, schema=archived.schema())
    given = "infer" if format == "arrow" and schema is None else schema
    if isinstance(given, pl.Schema):
        given = pl.DataFrame(schema=given).to_arrow().schema
    rules = json_rules(given if format == "json" else None, time_zone, timestamp_numbers)
    source = _Source(servers, stream, dict(options), filters, format, mode, latest, rules)
    source.registry = known
    if format in BINARY_FORMATS and (given is not None or known is None):
        source.binary = payload_schema(format, given, known)
        source.fields = pa.schema(BinaryColumns(source.binary))
        return register_io_source(source.frames, schema=source.schema())
    if given != "infer" and known is None:
        source.fields = None if given is None else pa.schema(arrow_schema(given))
        return register_io_source(source.frames, schema=source.schema())
    return register_io_source(source.frames, schema=source.inferred)


class _Source:
    """The source of a scan, which polars calls with columns, predicate and limits."""

    def __init__(
        self,
        servers: str | list[str],
        stream: str,
        options: dict[str, Any],
        filters: list[str],
        format: str,
        mode: str,
        latest: bool,
        rules: JsonRules,
    ) -> None:
        self._servers, self._stream, self._options = servers, stream, options
        self._rules = rules
        self._filters, self._format, self._mode, self._latest = filters, format, mode, latest
        # Schema of the payloads; None for bytes.
        self.fields: pa.Schema | None = None
        # The schema of Avro or Protobuf payloads.
        self.binary: NativeSchema | RegisteredSchema | None = None
        self.registry: SchemaRegistry | None = None
        self._known = False

    def inferred(self) -> pl.Schema:
        """The columns, inferred from the first messages."""
        if not self._known:
            with jetarrow.sync.connect(self._servers, **self._options) as nc:
                reader = self._read(nc.jetstream(), schema="infer" if self._format == "json" else None)
                with reader:
                    _ = reader.schema
                    self.fields, self._known = reader.inferred, True
                    if isinstance(reader._inner._inferred, RegisteredSchema):
                        self.binary = reader._inner._inferred
        return self.schema()

    def schema(self) -> pl.Schema:
        """The columns."""
        fields = [pa.field("data", pa.binary())] if self.fields is None else list(self.fields)
        own = {field.name for field in fields}
        fields = [pa.field(name, kind) for name, kind in _METADATA_COLUMNS.items() if name not in own] + fields
        if self.fields is not None and self._mode.upper() == "PERMISSIVE":
            fields += [pa.field(name, kind) for name, kind in _MALFORMED_COLUMNS.items()]
        return pl.DataFrame(pa.schema(fields).empty_table()).schema

    def frames(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        """Called by polars: yields the frames."""
        schema = self.schema()
        names = list(schema) if with_columns is None else with_columns
        needed = list(dict.fromkeys([*names, *(() if predicate is None else predicate.meta.root_names())]))
        none = pl.DataFrame(schema=schema)
        any_frame = False
        for frame in self._rows(needed, predicate, n_rows, batch_size or _BATCH_ROWS):
            any_frame = True
            yield (frame if predicate is None else frame.filter(predicate)).select(names)
        if not any_frame:
            yield none.select(names)

    def _rows(
        self, needed: list[str], predicate: pl.Expr | None, n_rows: int | None, batch_rows: int
    ) -> Iterator[pl.DataFrame]:
        own = set(_METADATA_COLUMNS) - set(() if self.fields is None else self.fields.names)
        # With both, polars applies the predicate to the first n_rows of the stream, so it is not pushed down.
        pushed = ALL if predicate is None or n_rows is not None else bounds(predicate, own)
        wanted = within(pushed, self._filters)
        if wanted.empty or n_rows == 0:
            return
        options: dict[str, Any] = {"batch_rows": min(batch_rows, _BATCH_ROWS), "limit": n_rows}
        options["subjects"] = sorted(wanted.subjects or ()) or None
        options |= self._columns(needed, own)
        with jetarrow.sync.connect(self._servers, **self._options) as nc:
            js = nc.jetstream()
            if not self._latest:
                first = js.stream_info(self._stream).state.first_seq
                options |= _range(wanted.first, wanted.end, wanted.since, wanted.until, first)
            with self._read(js, **options) as reader:
                for batch in reader:
                    yield batch.to_polars()

    def _columns(self, needed: list[str], own: set[str]) -> dict[str, Any]:
        """The columns to build: the required fields of JSON, all fields of other payloads, which are decoded whole."""
        of_messages = [name for name in needed if name in own]
        if self.fields is None:
            return {"columns": of_messages + (["data"] if "data" in needed else []) or ["seq"]}
        fields = [field for field in self.fields if field.name in needed]
        whole = self._format != "json" or self._mode.upper() != "PERMISSIVE" or set(needed) & set(_MALFORMED_COLUMNS)
        if whole:
            fields = list(self.fields)
        elif not fields:
            return {"columns": of_messages or ["seq"]}
        # The payload last: a flattened row then has the metadata columns before its fields.
        given = pa.schema(fields) if self.binary is None else self.binary
        return {"columns": [*of_messages, "value"], "schema": given, "flatten": self._format != "arrow"}

    def _read(self, js: jetarrow.sync.JetStream, **options: Any) -> Reader:
        common: dict[str, Any] = {
            "subjects": self._filters or None,
            "format": self._format,
            "registry": self.registry,
            "mode": self._mode,
            "time_zone": self._rules.time_zone,
            "timestamp_numbers": self._rules.timestamp_numbers,
        }
        return (js.latest if self._latest else js.read)(self._stream, **(common | options))


def _range(first: int | None, end: int | None, since: int | None, until: int | None, head: int) -> dict[str, Any]:
    """The range of a read; by sequence if both sequence and time are known."""
    found: dict[str, Any] = {}
    if first is not None and first > head:
        found["start_seq"] = first
    elif since is not None and since > 0:
        found["start_time"] = _rfc3339(since)
    if end is not None:
        found["end_seq"] = max(end, 0)
    elif until is not None:
        found["end_time"] = _rfc3339(until)
    return found


def _rfc3339(nanos: int) -> str:
    seconds, fraction = divmod(nanos, 1_000_000_000)
    text: str = pl.select(pl.from_epoch(pl.lit(seconds), "s").dt.strftime("%Y-%m-%dT%H:%M:%S")).item()
    return f"{text}.{fraction:09d}Z"
