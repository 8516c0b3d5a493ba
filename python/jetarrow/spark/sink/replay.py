"""Completion of a replayed batch on the driver, after all tasks, with `exactlyOnce=state`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

import jetarrow.sync
from jetarrow.core.errors import Error
from jetarrow.spark._core import publish_rows
from jetarrow.spark.connection import connect, jetstream
from jetarrow.spark.options.write import WriteOptions

from .batch_records import BatchName, BatchRecords
from .state import Replayed, changed, content_of_tagged, read_ids
from .task_writer import ANSWER_TIMEOUT


def complete(options: WriteOptions, tasks: Sequence[Replayed], *, partitions: int) -> int:
    """Publish the rows of a replayed batch that its tasks could not decide on.

    A stored row is surplus if its content is stored with the tag of a partition that does not have it now. That is the
    case if the batch was split otherwise before. Each surplus row is one of the rows that tasks hold. The held rows
    beyond them are missing, and are published.

    Args:
        options: Validated options with `sink_state`.
        tasks: The results of the tasks of the replay.
        partitions: Number of partitions of the batch.

    Returns:
        The number of held rows that were stored before.

    Raises:
        Error: A stored row of the batch is none of its rows now, or the servers do not answer.
    """
    name = tasks[0].name
    with connect(options.connection) as client:
        js = jetstream(client, options.connection)
        surplus = Counter(content for task in tasks for content in task.unmatched)
        surplus.update(_content_of_gone(js, options, name, partitions=partitions))
        held = [(task, rows) for task in tasks for rows in task.held]
        missing = [(task, _beyond(rows, surplus)) for task, rows in held]
        if left := surplus.total():
            raise changed(name, f"{left} stored rows are none of its rows now")
        for task, rows in missing:
            if rows.num_rows:
                _publish(js, options, task, rows)
    stored: int = sum(rows.num_rows for _, rows in held) - sum(rows.num_rows for _, rows in missing)
    return stored


def _content_of_gone(
    js: jetarrow.sync.JetStream, options: WriteOptions, name: BatchName, *, partitions: int
) -> list[str]:
    """Return the content of rows that are stored with the tags of partitions which the batch no longer has."""
    assert options.sink_state is not None
    stream, records = options.streams[0], BatchRecords(js, options.sink_state, name)
    batch = records.batch()
    if batch is None or (batch.batch, batch.run) != (name.batch, name.run):
        raise records.lost("another execution of it has begun")
    if not records.has_partitions(batch, first=partitions):
        return []
    ids = read_ids(js, stream, batch=batch, name=name)
    found: list[str] = content_of_tagged(ids.filter(_is_gone(ids, name, partitions=partitions))).to_pylist()
    return found


def _is_gone(ids: pa.Array, name: BatchName, *, partitions: int) -> pa.Array:
    numbers = pc.extract_regex(pc.utf8_slice_codeunits(ids, len(name.batch_tag)), r"^(?P<partition>[0-9]+)-")
    return pc.greater_equal(pc.struct_field(numbers, "partition").cast(pa.int64()), partitions)


def _beyond(rows: pa.RecordBatch, surplus: Counter[str]) -> pa.RecordBatch:
    """Return the rows beyond the surplus ones, which are taken from `surplus`."""
    keep = []
    for content in content_of_tagged(rows.column("msg_id")).to_pylist():
        keep.append(surplus[content] == 0)
        surplus[content] -= 0 if keep[-1] else 1
    return rows.filter(pa.array(keep, pa.bool_()))


def _publish(js: jetarrow.sync.JetStream, options: WriteOptions, task: Replayed, rows: pa.RecordBatch) -> None:
    if options.atomic_by is not None:
        raise Error(
            f"jetstream: could not replay batch {task.name.batch} of this query: another partition has stored a group"
            f" with the rows of a group of partition {task.name.partition}; atomicBy needs each group in one partition"
        )
    publish_rows(
        js,
        rows,
        subject=options.subject,
        first_row=0,
        mode="window",
        expected_stream=options.stream,
        max_inflight=options.max_in_flight,
        timeout=ANSWER_TIMEOUT,
    ).raise_for_errors()
