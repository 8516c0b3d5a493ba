"""Split of the batches of a task into groups of rows that are stored atomically (`atomicBy`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetarrow.spark.options.write import MAX_CHUNK

_DIGEST = 8


@dataclass(frozen=True)
class Group:
    """Rows with equal values in the column.

    Attributes:
        value: The value.
        digest: Hash of the value, eight bytes.
        first_row: Number of its first row in the task.
        rows: The rows to publish.
    """

    value: Any
    digest: bytes
    first_row: int
    rows: pa.RecordBatch


class Groups:
    """Splits the batches of a task into groups of equal values, whose rows must be consecutive.

    Args:
        batches: The batches of the task.
        column: Name of the column.
        keep: Whether the column is published too.
        partition: Number of the partition, for messages.

    Attributes:
        count: Number of rows so far.
        seen: Digests of the groups so far.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], column: str, *, keep: bool, partition: int) -> None:
        self._batches = batches
        self._column, self._keep, self._partition = column, keep, partition
        self.count = 0
        self.seen: set[bytes] = set()

    def __iter__(self) -> Iterator[Group]:
        """Yield the groups in order.

        Raises:
            ValueError: A row has no value, a group is too large, or its rows are not consecutive.
        """
        value: Any = None
        parts: list[pa.RecordBatch] = []
        for batch in self._batches:
            for first, piece in self._runs(batch):
                if parts and first != value:
                    yield self._group(value, parts)
                    parts = []
                value = first
                parts.append(piece)
                if sum(map(len, parts)) > MAX_CHUNK:
                    raise self._wrong(value, f"has more than {MAX_CHUNK} rows, which is the server's limit")
        if parts:
            yield self._group(value, parts)

    def _runs(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, pa.RecordBatch]]:
        """Yield the runs of equal values of one batch."""
        if not batch.num_rows:
            return
        values = batch.column(self._column)
        if values.null_count:
            row = self.count + pc.index(values.is_null(), True).as_py()
            raise ValueError(
                f"jetstream: row {row} of partition {self._partition} has no {self._column!r}: atomicBy needs one"
            )
        rows = batch if self._keep else batch.drop_columns([self._column])
        changes = pc.indices_nonzero(pc.not_equal(values.slice(1), values.slice(0, len(values) - 1))).to_pylist()
        starts = [0, *(at + 1 for at in changes)]
        for start, end in zip(starts, [*starts[1:], len(values)], strict=True):
            yield values[start].as_py(), rows.slice(start, end - start)
            self.count += end - start

    def _group(self, value: Any, parts: list[pa.RecordBatch]) -> Group:
        digest = hashlib.blake2b(repr(value).encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()
        if digest in self.seen:
            raise self._wrong(value, "has rows in two places")
        self.seen.add(digest)
        rows = pa.concat_batches(parts)
        return Group(value, digest, self.count - rows.num_rows, rows)

    def _wrong(self, value: Any, problem: str) -> ValueError:
        return ValueError(
            f"jetstream: the group {self._column}={value!r} of partition {self._partition} {problem}: atomicBy needs"
            f" the rows of a group side by side, at most {MAX_CHUNK} of them; repartition({self._column!r}) and then"
            f" sortWithinPartitions({self._column!r}) before the write"
        )


def in_two_tasks(column: str, found: list[bytes]) -> str | None:
    """Return an error text if two tasks wrote rows of the same group; else None.

    Args:
        column: Name of the column.
        found: The concatenated digests of the groups of each task.
    """
    seen: set[bytes] = set()
    total = 0
    for digests in found:
        ours = {digests[at : at + _DIGEST] for at in range(0, len(digests), _DIGEST)}
        total += len(ours)
        seen |= ours
    if len(seen) == total:
        return None
    return (
        f"jetstream: {total - len(seen)} groups of {column!r} had rows in more than one partition, each of which was"
        f" stored as a batch of its own: they are not whole (atomicBy); repartition({column!r}) and then"
        f" sortWithinPartitions({column!r}) before the write"
    )
