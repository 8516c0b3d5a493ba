"""Archives in folders: their positions and writers, read without a lock."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from jetarrow.core.errors import UnsupportedError
from jetarrow.jetstream.errors import SinkError
from jetarrow.jetstream.sinks.delta import DeltaTarget, records
from jetarrow.jetstream.sinks.parquet import ParquetTable
from jetarrow.jetstream.sinks.state import State

# Depth of the search for archives below a local folder.
_DEPTH = 3


@dataclass(frozen=True)
class Archive:
    """A table that a sink has written.

    Attributes:
        target: Its folder or URI, without credentials.
        format: "parquet" or "delta".
        state: Its position; None before the first commit.
        writer: Host and process of the writer of a Parquet folder; None if no process writes it.
        problem: Reason if it cannot be read.
    """

    target: str
    format: str
    state: State | None
    writer: str | None = None
    problem: str | None = None


def find_archives(place: str) -> Iterator[Archive]:
    """Yield the archives at a place, and below it if it is a local folder.

    Args:
        place: A folder or a URI. In a URI the archive itself is expected.
    """
    if "://" in place:
        yield from _archives_at(place)
        return
    for folder, names, _ in os.walk(place):
        found = {"_jetarrow", "_delta_log"} & set(names)
        if found:
            yield from _archives_at(os.path.normpath(folder))
        if found or os.path.relpath(folder, place).count(os.sep) + 1 >= _DEPTH:
            names.clear()
        names[:] = sorted(name for name in names if not name.startswith((".", "_")))


def _archives_at(place: str) -> Iterator[Archive]:
    if "://" not in place and os.path.isdir(os.path.join(place, "_delta_log")):
        yield from _delta_archives(place)
        return
    try:
        table = ParquetTable(place, filesystem=None, partition_by=[], compression="zstd", rows=1)
        state, writer = table.position(), table.lock.holder()
    except (SinkError, OSError, ValueError) as error:
        yield Archive(place, "parquet", None, problem=str(error))
        return
    if state is not None or writer is not None:
        yield Archive(str(table), "parquet", state, writer)
    elif "://" in place:
        yield from _delta_archives(place)


def _delta_archives(place: str) -> Iterator[Archive]:
    """Yield an archive for each sink of a Delta table; several streams may be archived in one."""
    with suppress(UnsupportedError):
        target = DeltaTarget(place, storage_options=None, app_id="", partition_by=[], compression="zstd")
        seen: set[str] = set()
        try:
            table = target.table()
            for record in records(table) if table is not None else ():
                if record["app_id"] not in seen:
                    seen.add(record["app_id"])
                    yield Archive(str(target), "delta", State.of(record))
        except SinkError as error:
            yield Archive(str(target), "delta", None, problem=str(error))
