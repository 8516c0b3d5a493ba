"""Records of the batch that a streaming query writes with `exactlyOnce=state`, in a key-value bucket."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

import jetarrow.sync
from jetarrow.core.errors import Error
from jetarrow.jetstream.errors import KeyNotFoundError, KeyWrongLastSequenceError
from jetarrow.spark.connection import retry_transient

_R = TypeVar("_R", "BatchRecord", "PartitionRecord")
# Seconds for which tasks that change the record of their batch at the same time repeat it.
_CONTENTION_TIMEOUT = 30.0
_CONTENTION_PAUSE = 0.02


@dataclass(frozen=True)
class BatchName:
    """Query, batch and partition that a task writes.

    Attributes:
        query: Spark's id of the query, which is the same after a restart.
        batch: Number of the batch.
        partition: Number of the partition.
        run: Name of this execution of the batch: the same for all of its tasks and their attempts, another one for a
            replay.
        layout: Description of columns and options that determine the content of messages.
    """

    query: str
    batch: int
    partition: int
    run: str = ""
    layout: str = ""

    @property
    def key(self) -> str:
        """Key of the partition's record."""
        return f"{self.query}.{self.partition}"

    @property
    def batch_key(self) -> str:
        """Key of the batch's record."""
        return f"{self.query}.batch"

    @property
    def batch_tag(self) -> str:
        """Prefix of the ids of the rows of all partitions."""
        return hashlib.blake2b(f"{self.query}:{self.batch}".encode(), digest_size=6).hexdigest() + "-"

    @property
    def tag(self) -> str:
        """Prefix of the ids of the partition's rows."""
        return f"{self.batch_tag}{self.partition}-"


@dataclass(frozen=True)
class BatchRecord:
    """Record of a query's current batch.

    Attributes:
        batch: Number of the batch.
        created: Creation time of the target.
        before: The target's last sequence before the first row of the batch was published.
        layout: As `BatchName.layout`.
        run: Name of the execution that writes the batch.
        replayed: Whether an earlier execution has begun to write the batch.
    """

    batch: int
    created: str
    before: int
    layout: str
    run: str
    replayed: bool = False


@dataclass(frozen=True)
class PartitionRecord:
    """Record of a partition of a query's current batch.

    Attributes:
        batch: Number of the batch.
        created: Creation time of the target.
        rows: Number of stored rows; None until all are stored.
        total: Sum of hashes of their ids, independent of their order.
    """

    batch: int
    created: str
    rows: int | None = None
    total: int = 0


class BatchRecords:
    """The records of one query.

    Args:
        js: The context.
        bucket: Name of the bucket.
        name: Query, batch and partition.
    """

    def __init__(self, js: jetarrow.sync.JetStream, bucket: str, name: BatchName) -> None:
        self._js = js
        self._bucket = retry_transient(lambda: js.key_value(bucket))
        self._bucket_name = bucket
        self._name = name

    def begin_batch(self, end: Callable[[], tuple[str, int]]) -> BatchRecord:
        """Create the record of the batch, or add this execution to it.

        Args:
            end: Returns the creation time of the target and its last sequence.

        Returns:
            The record as it is now.

        Raises:
            Error: A later batch has begun, or columns or options differ from those of an earlier execution.
        """
        name, until = self._name, time.monotonic() + _CONTENTION_TIMEOUT
        while True:
            found, last = self._read(name.batch_key, BatchRecord)
            if found is not None and found.batch > name.batch:
                raise self.lost(f"batch {found.batch} has begun")
            created, last_seq = end()
            if found is None or (found.batch, found.created) != (name.batch, created):
                # A target that was created again has no row of the batch.
                wanted = BatchRecord(name.batch, created, last_seq, name.layout, name.run)
            elif found.layout != name.layout:
                raise Error(
                    f"jetstream: could not replay batch {name.batch} of this query: it began with {found.layout}, and"
                    f" now has {name.layout}; restart the query as it was until the batch is committed, or delete the"
                    f" keys of {name.query!r} in bucket {self._bucket_name!r} to write all of the batch again"
                )
            elif found.run == name.run:
                return found
            else:
                wanted = replace(found, run=name.run, replayed=True)
            try:
                self._write(name.batch_key, wanted, last)
                return wanted
            except KeyWrongLastSequenceError:  # another task, or the read was of a replica that lags behind
                if time.monotonic() > until:
                    raise self.lost("another execution of it writes at the same time") from None
            time.sleep(_CONTENTION_PAUSE)

    def begin_partition(self, created: str) -> tuple[PartitionRecord | None, int]:
        """Take over the record of the partition.

        Args:
            created: Creation time of the target.

        Returns:
            The record of an earlier attempt, if there was one; and the revision of this attempt.

        Raises:
            Error: A later batch or another attempt has begun.
        """
        name = self._name
        found, last = self._read(name.key, PartitionRecord)
        if found is not None and found.batch > name.batch:
            raise self.lost(f"batch {found.batch} has begun")
        if found is not None and (found.batch, found.created) != (name.batch, created):
            found = None
        return found, self.write_partition(found or PartitionRecord(name.batch, created), last)

    def write_partition(self, record: PartitionRecord, last: int) -> int:
        """Replace the record of the partition, and return its revision.

        Args:
            record: The new record.
            last: Revision of this attempt.

        Raises:
            Error: Another attempt has begun.
        """
        try:
            return self._write(self._name.key, record, last)
        except KeyWrongLastSequenceError:
            raise self.lost("another attempt has begun") from None

    def check_attempt(self, revision: int) -> None:
        """Check that no other attempt has taken over the record of the partition.

        Args:
            revision: Revision of this attempt.

        Raises:
            Error: Another attempt has begun.
        """
        # An older revision is that of a replica that lags behind.
        if self._read(self._name.key, PartitionRecord)[1] > revision:
            raise self.lost("another attempt has begun")

    def batch(self) -> BatchRecord | None:
        """Return the record of the query's current batch."""
        return self._read(self._name.batch_key, BatchRecord)[0]

    def has_partitions(self, batch: BatchRecord, *, first: int) -> bool:
        """Return whether any execution of a batch has begun to write a partition from `first` on.

        Args:
            batch: Record of the batch.
            first: Number of the partition.
        """
        name, bucket = self._name, f"KV_{self._bucket_name}"
        subjects = f"$KV.{self._bucket_name}.{name.query}.*"
        info = retry_transient(lambda: self._js.stream_info(bucket, subjects_filter=subjects))
        numbers = [int(last) for key in info.state.subjects or () if (last := key.rpartition(".")[2]).isdigit()]
        found = (self._read(f"{name.query}.{number}", PartitionRecord)[0] for number in numbers if number >= first)
        key = (batch.batch, batch.created)
        return any(record is not None and (record.batch, record.created) == key for record in found)

    def lost(self, why: str) -> Error:
        """Return the error of an attempt that may not go on.

        Args:
            why: The reason.
        """
        name = self._name
        return Error(f"jetstream: stopped this attempt of batch {name.batch}, partition {name.partition}: {why}")

    def _read(self, key: str, kind: type[_R]) -> tuple[_R | None, int]:
        """Return a record, None if there is none; and the key's last revision."""
        try:
            entry = retry_transient(lambda: self._bucket.get(key))
        except KeyNotFoundError as error:  # not created yet, or deleted by the user
            return None, (error.entry.revision or 0) if error.entry is not None else 0
        return kind(**json.loads(entry.value or b"")), entry.revision or 0

    def _write(self, key: str, record: BatchRecord | PartitionRecord, last: int) -> int:
        text = json.dumps(asdict(record), sort_keys=True)
        revision: int = retry_transient(lambda: self._bucket.update(key, text, last=last))
        return revision
