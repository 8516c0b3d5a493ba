"""The function `register`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack, cast

import duckdb

import jetarrow.sync
from jetarrow.archive_scan.place import ArchivePlace
from jetarrow.archive_scan.stream_table import StreamTable
from jetarrow.archive_scan.table import ArchiveTable, check_for_archive
from jetarrow.core.docstrings import with_entries_of
from jetarrow.core.suggestions import check_keywords, keywords_of
from jetarrow.duckdb.dataset import QueriedDataset
from jetarrow.jetstream.arrow import ArrowSchema
from jetarrow.jetstream.binary_schema import ProtobufSchema
from jetarrow.jetstream.json_rules import json_rules
from jetarrow.jetstream.literals import OnDataLoss, RowFormat, TimestampNumbers, check_literal
from jetarrow.jetstream.registry import SchemaRegistry, registry_of

if TYPE_CHECKING:
    from jetarrow.core.option_types import SyncConnectOptions


@with_entries_of(jetarrow.sync.connect, jetarrow.sync.JetStream.read)
def register(
    con: duckdb.DuckDBPyConnection,
    table: str,
    servers: str | list[str],
    *,
    stream: str,
    archive: Any = None,
    schema: ArrowSchema | Mapping[str, Any] | str | PathLike[str] | ProtobufSchema | type | None = None,
    subjects: str | Sequence[str] | None = None,
    format: RowFormat = "json",
    registry: SchemaRegistry | str | None = None,
    mode: str = "PERMISSIVE",
    time_zone: str = "UTC",
    timestamp_numbers: TimestampNumbers | None = None,
    app_id: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    filesystem: Any = None,
    on_data_loss: OnDataLoss = "error",
    **options: Unpack[SyncConnectOptions],
) -> None:
    """Makes a table of a stream, or of an archive and its stream, in a connection of DuckDB.

    Columns: as `jetarrow.polars.scan`. Timestamps with a zone are in microseconds. Each query connects and reads the
    newest rows; each of two references in one query reads its own, so a query that needs equal rows in both creates a
    temporary table first.

    The columns and filters of a query are pushed down. Bounds of `seq` and `timestamp` and equality of `subject` reach
    the server; other filters reach the files of an archive only, and the rows of the stream are filtered after their
    decoding.

    Args:
        con: The connection of DuckDB.
        table: Name of the table.
        servers: As `jetarrow.sync.connect`.
        stream: The stream.
        archive: As `jetarrow.polars.scan`.
        schema: As `js.read`: the schema of the payloads. "infer" infers it now. With `archive`: that of the sink.
        subjects: As `js.read`.
        format: "json", "avro" or "protobuf", as in `js.read`.
        registry: As `js.read`.
        mode: As `js.read`: the handling of malformed rows. With `archive` they are not in the table.
        time_zone: As `js.read`.
        timestamp_numbers: As `js.read`.
        app_id: As `jetarrow.polars.scan`.
        storage_options: As `jetarrow.polars.scan`.
        filesystem: As `jetarrow.polars.scan`.
        on_data_loss: As `js.read`; with `archive` as `jetarrow.polars.scan`.
        **options: As `jetarrow.sync.connect`: each query opens a connection.

    Raises:
        ValueError: An argument is invalid.
        SinkError: There is no archive, it is of another stream, or it cannot be read. In a query all errors are
            `duckdb.Error` with the text of the cause.
        SinkSchemaError: The archive has other payloads than `format` and `schema`.
        NotFoundError: Without `archive`: the stream does not exist.
    """
    check_keywords("register", options, keywords_of(jetarrow.sync.Client.connect), keywords_of(register))
    check_literal("format", format, RowFormat)
    check_literal("on_data_loss", on_data_loss, OnDataLoss)
    filters = (subjects,) if isinstance(subjects, str) else tuple(subjects or ())
    known = registry_of(None, registry, format)
    connect = partial(jetarrow.sync.connect, servers, **options)
    rows: ArchiveTable | StreamTable
    if archive is not None:
        check_for_archive(format, mode, rules=(time_zone, timestamp_numbers))
        place = ArchivePlace(stream, archive, app_id, storage_options, filesystem)
        rows = ArchiveTable(place, connect, format, schema, filters, on_data_loss, known)
    else:
        rows = StreamTable(
            stream,
            connect,
            format=format,
            schema=schema,
            mode=mode,
            rules=json_rules(schema if format == "json" else None, time_zone, timestamp_numbers),
            subjects=filters,
            on_data_loss=on_data_loss,
            registry=known,
        )
    con.register(table, cast("Any", QueriedDataset(rows)))
