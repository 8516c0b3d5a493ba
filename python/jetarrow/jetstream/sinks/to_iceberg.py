"""The verb `to_iceberg` of a context."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from jetarrow.core.docstrings import with_entries_of
from jetarrow.core.suggestions import suggests_keywords
from jetarrow.jetstream.arrow import ArrowSchema
from jetarrow.jetstream.binary_schema import ProtobufSchema
from jetarrow.jetstream.json_rules import json_rules
from jetarrow.jetstream.literals import (
    Evolve,
    OnDataLoss,
    OnRollback,
    RowFormat,
    SinkDeletes,
    SinkMerge,
    TimestampNumbers,
    check_literal,
)
from jetarrow.jetstream.progress import Progress
from jetarrow.jetstream.registry import SchemaRegistry, registry_of
from jetarrow.jetstream.sinks.sinks import Sinks

if TYPE_CHECKING:
    from jetarrow.jetstream.sinks.sink import Sink


class IcebergSinks(Sinks):
    """The verbs that archive a stream exactly once, with that for Iceberg tables."""

    @suggests_keywords
    @with_entries_of(Sinks.to_parquet, Sinks.to_delta)
    def to_iceberg(
        self,
        stream: str,
        table: str | Sequence[str],
        *,
        catalog: Any = None,
        schema: ArrowSchema | Mapping[str, Any] | str | os.PathLike[str] | ProtobufSchema | type | None = None,
        format: RowFormat = "json",
        registry: SchemaRegistry | str | None = None,
        flatten: bool = True,
        subjects: str | Sequence[str] | None = None,
        start_seq: int | None = None,
        start_time: datetime | timedelta | str | None = None,
        rows: int = 1_000_000,
        seconds: float = 60.0,
        partition_by: str | Sequence[str] | None = None,
        follow: bool = False,
        durable: str | None = None,
        time_zone: str = "UTC",
        timestamp_numbers: TimestampNumbers | None = None,
        on_data_loss: OnDataLoss = "error",
        on_rollback: OnRollback = "fail",
        evolve: Evolve = "fail",
        properties: Mapping[str, str] | None = None,
        app_id: str | None = None,
        merge: SinkMerge = "append",
        key: str | Sequence[str] | None = None,
        deletes: SinkDeletes = "markers",
        progress: Progress | bool | None = None,
    ) -> Sink:
        """Archives a stream in an Iceberg table, each message exactly once despite failures (needs pyiceberg).

        A commit is one snapshot with the rows and the position. It is retried after commits of other writers of the
        table. Several streams may be archived in one table. Timestamps are in microseconds, except in columns of an
        existing table that has nanoseconds. The rows of a commit are buffered in memory. Undecodable rows are in
        Parquet files in `<location of the table>-corrupt/`.

        Args:
            stream: The stream.
            table: Namespace and name, such as "db.orders". The table is created if it does not exist, the namespace is
                not.
            catalog: Name of a catalog in the configuration of pyiceberg, or a `pyiceberg.catalog.Catalog`. Default: the
                default catalog of the configuration.
            schema: As `to_parquet`.
            format: As `to_parquet`.
            registry: As `to_parquet`.
            flatten: As `to_parquet`.
            subjects: As `to_parquet`.
            start_seq: As `to_parquet`.
            start_time: As `to_parquet`.
            rows: As `to_parquet`.
            seconds: As `to_parquet`.
            partition_by: Columns whose values are partitions of a table that is created; `date` and `hour` as
                `to_parquet`. An existing table keeps its partitions.
            follow: As `to_parquet`.
            durable: As `to_parquet`.
            time_zone: As `to_parquet`.
            timestamp_numbers: As `to_parquet`.
            on_data_loss: As `to_parquet`.
            on_rollback: As `to_parquet`.
            evolve: Reaction to columns of the rows that the table lacks: "fail" raises `SinkSchemaError`, "add" adds
                them as nullable columns in the transaction of the rows. A column whose type changed is an error in both
                cases.
            properties: Table properties of a table that is created, such as `write.parquet.compression-codec`. Default:
                those of pyiceberg.
            app_id: Name of this sink in the table's properties. Default: `jetarrow:` and the stream's name.
            merge: As `to_delta`.
            key: As `to_delta`.
            deletes: As `to_delta`.
            progress: As `to_parquet`.

        Returns:
            A sink, as `to_parquet`. Its `compact` raises `UnsupportedError`.

        Raises:
            ValueError: An argument is not valid.
            UnsupportedError: pyiceberg or pyarrow is not installed.
        """
        from jetarrow.jetstream.sinks.begin import SinkOptions, checked_schema, names_of
        from jetarrow.jetstream.sinks.iceberg import IcebergTarget
        from jetarrow.jetstream.sinks.upsert import check_upsert, upsert_of

        check_literal("evolve", evolve, Evolve)
        upsert = upsert_of(merge, key, deletes)
        if upsert is not None:
            check_upsert(durable=durable, on_rollback=on_rollback)
        target = IcebergTarget(
            table,
            catalog=catalog,
            app_id=app_id or f"jetarrow:{stream}",
            partition_by=names_of(partition_by),
            properties=properties,
            evolve=evolve,
            upsert=upsert,
        )
        place = registry_of(self._api.session, registry, format)
        options = SinkOptions(
            schema=checked_schema(schema, format, place),
            format=format,
            registry=place,
            flatten=flatten,
            subjects=subjects,
            start_seq=start_seq,
            start_time=start_time,
            partition_by=names_of(partition_by),
            follow=follow,
            durable=durable,
            timestamp_unit="us",
            rules=json_rules(schema if format == "json" else None, time_zone, timestamp_numbers),
            on_data_loss=on_data_loss,
            on_rollback=on_rollback,
            rows=rows,
            escaped=True,
            upsert=upsert,
        )
        return self._sink(stream, target, options, seconds, progress)
