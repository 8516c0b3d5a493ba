"""Exactly-once writes beyond the duplicate window, by a record of the batch that a streaming query is writing.

A key-value bucket has one record for each query and partition: the batch, the target's last sequence before the first
row was published, and, once all rows are stored, their number and a sum of their ids. An attempt takes the record over
by its revision. An attempt that has lost the record, such as a task that was considered dead, stops. An attempt that
finds the record of its own batch is a replay. If all rows are stored, it publishes nothing and compares the sum. Else
it reads the ids stored in the target since that sequence, and publishes the missing rows. Ids made of content begin
with a tag of query, batch and partition. A stored id with this tag that no row has belongs to a row that has changed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from time import monotonic
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import jetarrow.sync
from jetarrow.core.errors import Error
from jetarrow.jetstream.errors import BucketNotFoundError, KeyNotFoundError, KeyWrongLastSequenceError
from jetarrow.jetstream.models import RetentionPolicy, StreamInfo
from jetarrow.spark._core import Loss, RangeReader
from jetarrow.spark.connection import retry_transient
from jetarrow.spark.options.option_texts import invalid

from .seen_ids import message_ids

# Seconds between two checks that the record is still that of this attempt.
_CHECK_INTERVAL = 5.0
_BITS_64 = 2**64 - 1


@dataclass(frozen=True)
class BatchName:
    """Query, batch and partition that a task writes.

    Attributes:
        query: Spark's id of the query, which is the same after a restart.
        batch: Number of the batch.
        partition: Number of the partition.
    """

    query: str
    batch: int
    partition: int

    @property
    def key(self) -> str:
        """Key of the record."""
        return f"{self.query}.{self.partition}"

    @property
    def tag(self) -> str:
        """Prefix of the ids of its rows."""
        name = f"{self.query}:{self.batch}:{self.partition}"
        return hashlib.blake2b(name.encode(), digest_size=6).hexdigest() + "-"


@dataclass(frozen=True)
class Record:
    """Record of a partition in the bucket.

    Attributes:
        batch: Number of the batch.
        created: Creation time of the target.
        before: The target's last sequence before the first row was published.
        rows: Number of stored rows; None until all are stored.
        total: Sum of hashes of their ids, independent of their order.
    """

    batch: int
    created: str
    before: int
    rows: int | None = None
    total: int = 0


class SinkState:
    """One attempt to write one partition of a batch.

    Args:
        js: The context.
        bucket: Name of the bucket.
        stream: Name of the target.
        subject: The common subject of all rows; None if there is none.
        name: Query, batch and partition.

    Attributes:
        skipped: Number of rows so far that the target already had.
    """

    def __init__(
        self, js: jetarrow.sync.JetStream, bucket: str, stream: str, *, subject: str | None, name: BatchName
    ) -> None:
        self._js = js
        self._bucket = retry_transient(lambda: js.key_value(bucket))
        self._stream, self._subject, self._name = stream, subject, name
        self._found: Record | None = None
        self._known: pa.Array | None = None
        self._foreign = False
        self._rows = self._total = self._tagged = self.skipped = 0
        self._take_over()

    def _take_over(self) -> None:
        name = self._name
        try:
            entry = retry_transient(lambda: self._bucket.get(name.key))
            found, last = Record(**json.loads(entry.value or b"")), entry.revision or 0
        except KeyNotFoundError as error:  # not created yet, or deleted by the user
            found, last = None, (error.entry.revision or 0) if error.entry is not None else 0
        if found is not None and found.batch > name.batch:
            raise self._lost(f"batch {found.batch} has begun")
        info = self._info()
        created, end = info.created_raw or "", info.state.last_seq
        if found is not None and (found.batch, found.created) == (name.batch, created):
            self._found = found
        # A target that was created again has no row of the batch, as at the first attempt.
        self._record = self._found or Record(name.batch, created, end)
        self._revision = self._write(self._record, last)
        self._checked = monotonic()

    def note(self, piece: pa.RecordBatch, own: pa.Array | None) -> pa.RecordBatch:
        """Record rows before they are published.

        Args:
            piece: Rows with their ids.
            own: Whether each id is one of the user; None if none is.

        Returns:
            The rows that the target does not have, with tagged ids.

        Raises:
            Error: Another attempt has begun.
            ValueError: The id of a row is empty.
        """
        if monotonic() - self._checked > _CHECK_INTERVAL:
            self._check_attempt()
        self._foreign = own is not None
        ids = piece.column("msg_id")
        if own is not None and pc.any(pc.equal(ids, "")).as_py():
            raise ValueError(
                "jetstream: could not publish a row with an empty msg_id: exactlyOnce=state needs unique ids; use null"
            )
        tagged = pc.binary_join_element_wise(self._name.tag, ids, "")
        ids = tagged if own is None else pc.if_else(own, ids, tagged)
        self._rows += piece.num_rows
        self._total = (self._total + _total(ids)) & _BITS_64
        piece = piece.set_column(piece.schema.get_field_index("msg_id"), "msg_id", ids)
        if self._found is None:
            return piece
        if self._found.rows is not None:
            self.skipped += piece.num_rows
            return piece.slice(0, 0)
        there = pc.is_in(ids, value_set=self._ids())
        self.skipped += pc.sum(there).as_py() or 0
        self._tagged += pc.sum(pc.and_(there, pc.starts_with(ids, self._name.tag))).as_py() or 0
        return piece.filter(pc.invert(there))

    def finish(self) -> None:
        """Record that all rows are stored.

        Raises:
            Error: Another attempt has begun, or an earlier one has stored rows that have changed.
        """
        found, name = self._found, f"batch {self._name.batch}, partition {self._name.partition}"
        if found is not None and found.rows is not None:
            if (found.rows, found.total) != (self._rows, self._total):
                raise self._changed(name, f"its {found.rows} rows were stored; it has {self._rows} now, or others")
            return
        if found is not None and (others := _tagged(self._ids(), self._name.tag) - self._tagged) > 0:
            raise self._changed(name, f"{others} rows are stored that it does not have now")
        self._write(replace(self._record, rows=self._rows, total=self._total), self._revision)

    def _ids(self) -> pa.Array:
        """Return the ids stored in the target since the first attempt."""
        if self._known is None:
            info, before = self._info(), self._record.before
            if info.state.first_seq > before + 1 and info.state.last_seq > before:
                raise self._gone(before + 1)
            self._known = self._read(before + 1, info.state.last_seq + 1)
        return self._known

    def _read(self, start: int, end: int) -> pa.Array:
        found: list[pa.Array] = []
        if start < end:
            subjects = None if self._subject is None else [self._subject]
            given: dict[str, Any] = {"start_seq": start, "end_seq": end, "subjects": subjects, "columns": ["headers"]}
            reader = retry_transient(lambda: RangeReader(self._js, self._stream, **given))
            try:
                while (item := reader.next()) is not None:
                    if isinstance(item, Loss):
                        raise self._gone(item.asked[0])
                    ids = message_ids(pa.record_batch(item).column("headers"))
                    # Ids of other writers are needed only if rows have ids of the user, which have no tag.
                    found.append(ids if self._foreign else ids.filter(pc.starts_with(ids, self._name.tag)))
            finally:
                reader.close()
        # Ids may occur twice, if a task was suspended for longer than the duplicate window.
        return pc.unique(pa.concat_arrays([pa.array([], pa.string()), *found]))

    def _check_attempt(self) -> None:
        entry = retry_transient(lambda: self._bucket.get(self._name.key))
        # An older revision is that of a replica that lags behind.
        if (entry.revision or 0) > self._revision:
            raise self._lost("another attempt has begun")
        self._checked = monotonic()

    def _write(self, record: Record, last: int) -> int:
        text = json.dumps(asdict(record), sort_keys=True)
        try:
            revision: int = retry_transient(lambda: self._bucket.update(self._name.key, text, last=last))
        except KeyWrongLastSequenceError:
            raise self._lost("another attempt has begun") from None
        return revision

    def _info(self) -> StreamInfo:
        info: StreamInfo = retry_transient(lambda: self._js.stream_info(self._stream))
        return info

    def _lost(self, why: str) -> Error:
        name = self._name
        return Error(f"jetstream: stopped this attempt of batch {name.batch}, partition {name.partition}: {why}")

    def _gone(self, first: int) -> Error:
        return Error(
            f"jetstream: could not replay batch {self._name.batch}: stream {self._stream!r} has lost messages from"
            f" {first} on since the batch began, so its stored rows are unknown; delete key {self._name.key!r} of the"
            " sinkState bucket to write all of them again"
        )

    def _changed(self, name: str, how: str) -> Error:
        return Error(
            f"jetstream: {name} of this query has changed since an earlier attempt: {how}; exactlyOnce=state needs"
            " deterministic rows (no rand(), no current_timestamp(), the same partitions);"
            f" delete key {self._name.key!r} of the sinkState bucket to write all of it again"
        )


def check_target(info: StreamInfo) -> None:
    """Check that the configuration of a stream keeps stored messages until a replay.

    Args:
        info: The target.

    Raises:
        ValueError: A message may be removed before a replay.
    """
    config = info.config
    if (config.retention or RetentionPolicy.LIMITS) != RetentionPolicy.LIMITS or (config.max_msgs_per_subject or 0) > 0:
        raise invalid(
            "exactlyOnce",
            f"stream {config.name!r} removes stored messages ({config.retention},"
            f" max_msgs_per_subject={config.max_msgs_per_subject}), so a replay could not find missing rows",
            "window (default), or a stream with retention by limits and no limit per subject",
        )


def open_bucket(js: jetarrow.sync.JetStream, bucket: str, *, replicas: int) -> None:
    """Create the bucket if it does not exist.

    Args:
        js: The context.
        bucket: Name of the bucket.
        replicas: Number of replicas of a new bucket.

    Raises:
        APIError: The bucket cannot be created.
    """
    try:
        js.key_value(bucket)
    except BucketNotFoundError:
        js.create_key_value(bucket=bucket, replicas=replicas, description="what Spark queries have written")


def _tagged(ids: pa.Array, tag: str) -> int:
    return int(pc.sum(pc.starts_with(ids, tag)).as_py() or 0)


def _total(ids: pa.Array) -> int:
    """Return a sum of hashes of ids, which is independent of their order."""
    texts = (one.encode() for one in ids.to_pylist() if one is not None)
    return sum(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") for text in texts)
