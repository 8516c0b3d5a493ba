"""Exactly-once writes beyond the duplicate window, by records of the batch that a streaming query is writing.

A key-value bucket has one record for each query, with the target's last sequence before the first row of its current
batch was published, and one for each partition of it: once all of its rows are stored, their number and a sum of their
ids. An attempt takes over the record of its partition by the revision. An attempt that has lost the record, such as a
task that was considered dead, stops. Ids made of content begin with a tag of query, batch and partition.

An attempt that finds the record of its own batch writes rows again. If all rows are stored, it publishes nothing and
compares the sum. Else it reads the ids stored in the target since the batch began, and publishes the missing rows. A
stored id with its tag that no row has belongs to a row that has changed.

A restarted query replays its last batch, and may split it otherwise. Only the driver knows the number of partitions,
after all tasks. So a task of a replay does not publish a row whose content another partition has stored, but passes
it to the driver: `replay.py`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import jetarrow.sync
from jetarrow.core.errors import Error
from jetarrow.jetstream.errors import BucketNotFoundError
from jetarrow.jetstream.models import RetentionPolicy, StreamInfo
from jetarrow.spark._core import Loss, RangeReader
from jetarrow.spark.connection import retry_transient
from jetarrow.spark.options.option_texts import invalid

from .batch_records import BatchName, BatchRecord, BatchRecords, PartitionRecord
from .seen_ids import message_ids

# Seconds between two checks that the record is still that of this attempt.
_CHECK_INTERVAL = 5.0
# Maximum size in bytes of the rows of a task that are passed to the driver.
_MAX_HELD_BYTES = 32 << 20
_BITS_64 = 2**64 - 1


@dataclass(frozen=True)
class Replayed:
    """Result of a task of a replay, for the driver.

    Attributes:
        name: Query, batch and partition.
        held: Rows with their ids, whose content other partitions have stored, and which the task has not published.
        unmatched: Content of rows that are stored with the tag of the partition, and that it does not have.
    """

    name: BatchName
    held: tuple[pa.RecordBatch, ...] = ()
    unmatched: tuple[str, ...] = ()


class SinkState:
    """One attempt to write one partition of a batch.

    Args:
        js: The context.
        bucket: Name of the bucket.
        stream: Name of the target.
        name: Query, batch and partition.

    Attributes:
        skipped: Number of rows so far that the target already had.
    """

    def __init__(self, js: jetarrow.sync.JetStream, bucket: str, stream: str, *, name: BatchName) -> None:
        self._js, self._stream, self._name = js, stream, name
        self._stored: pa.Array | None = None
        self._others: pa.Array | None = None
        self._matched: list[pa.Array] = []
        self._held: list[pa.RecordBatch] = []
        self._foreign = False
        self._rows = self._total = self._held_bytes = self.skipped = 0
        self._records = BatchRecords(js, bucket, name)
        self._batch = self._records.begin_batch(self._end)
        self._found, self._revision = self._records.begin_partition(self._batch.created)
        self._checked = monotonic()

    def _end(self) -> tuple[str, int]:
        info = stream_info(self._js, self._stream)
        return info.created_raw or "", info.state.last_seq

    def note(self, piece: pa.RecordBatch, own: pa.Array | None) -> pa.RecordBatch:
        """Record rows before they are published.

        Args:
            piece: Rows with their ids.
            own: Whether each id is one of the user; None if none is.

        Returns:
            The rows to publish, with tagged ids: without those that the target has, or may have.

        Raises:
            Error: Another attempt has begun, or too many rows would have to be passed to the driver.
            ValueError: The id of a row is empty.
        """
        if monotonic() - self._checked > _CHECK_INTERVAL:
            self._records.check_attempt(self._revision)
            self._checked = monotonic()
        if own is not None and not self._foreign:
            # Those of an earlier group without ids of the user lack them.
            self._foreign, self._stored, self._others = True, None, None
        ids = piece.column("msg_id")
        if own is not None and pc.any(pc.equal(ids, "")).as_py():
            raise ValueError(
                "jetstream: could not publish a row with an empty msg_id: exactlyOnce=state needs unique ids; use null"
            )
        untagged, tagged = ids, pc.binary_join_element_wise(self._name.tag, ids, "")
        ids = tagged if own is None else pc.if_else(own, ids, tagged)
        self._rows += piece.num_rows
        self._total = (self._total + _total(ids)) & _BITS_64
        piece = piece.set_column(piece.schema.get_field_index("msg_id"), "msg_id", ids)
        if self._found is None and not self._batch.replayed:
            return piece
        if self._found is not None and self._found.rows is not None:
            self.skipped += piece.num_rows
            return piece.slice(0, 0)
        stored, others = self._lookup()
        there = pc.is_in(ids, value_set=stored)
        self.skipped += pc.sum(there).as_py() or 0
        self._matched.append(ids.filter(there))
        missing = pc.invert(there)
        elsewhere = pc.and_(missing, pc.is_in(_content(untagged), value_set=others))
        if own is not None:
            elsewhere = pc.and_(elsewhere, pc.invert(own))
        if pc.any(elsewhere).as_py():
            self._hold(piece.filter(elsewhere))
            missing = pc.and_(missing, pc.invert(elsewhere))
        return piece.filter(missing)

    def _hold(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes > _MAX_HELD_BYTES:
            raise Error(
                f"jetstream: could not replay batch {self._name.batch} of this query: other partitions have stored more"
                f" than {_MAX_HELD_BYTES >> 20} MiB of the rows of partition {self._name.partition}, so the batch was"
                " split otherwise before; restart the query with the partitions that it had until the batch is"
                " committed"
            )

    def finish(self) -> Replayed | None:
        """Record that all rows are stored, except those that are passed to the driver.

        Returns:
            Data with which the driver completes a replay; None if this is the first execution of the batch.

        Raises:
            Error: Another attempt has begun, or an earlier one has stored rows that have changed.
        """
        name = self._name
        done = PartitionRecord(name.batch, self._batch.created, self._rows, self._total)
        if self._found is not None and self._found.rows is not None:
            if self._found == done:
                return Replayed(name) if self._batch.replayed else None
            if not self._batch.replayed:
                raise changed(name, f"its {self._found.rows} rows were stored; it has {self._rows} now, or others")
            # The next attempt compares row by row.
            self._records.write_partition(replace(done, rows=None, total=0), self._revision)
            raise Error(
                f"jetstream: stopped this attempt of batch {name.batch}, partition {name.partition}: its rows are"
                f" others than the {self._found.rows} stored ones, so the batch may be split otherwise than before; the"
                " next attempt compares all rows of the batch: restart the query if Spark does not"
            )
        unmatched = self._unmatched()
        if unmatched and not self._batch.replayed:
            raise changed(name, f"{len(unmatched)} rows are stored that it does not have now")
        if not unmatched and not self._held:
            self._records.write_partition(done, self._revision)
        return Replayed(name, tuple(self._held), tuple(unmatched)) if self._batch.replayed else None

    def _unmatched(self) -> list[str]:
        """Return the content of rows that are stored with the tag of the partition and that no row has."""
        if self._found is None and not self._batch.replayed:
            return []
        stored, _ = self._lookup()
        ours = stored.filter(pc.starts_with(stored, self._name.tag))
        matched = pa.concat_arrays([pa.array([], pa.string()), *self._matched])
        rest = ours.filter(pc.invert(pc.is_in(ours, value_set=matched)))
        found: list[str] = _content(pc.utf8_slice_codeunits(rest, len(self._name.tag))).to_pylist()
        return found

    def _lookup(self) -> tuple[pa.Array, pa.Array]:
        """Return the ids stored in the target since the batch began, and the content stored by other partitions.

        The ids are those with the tag of the partition, and all others only if rows have ids of the user.
        """
        if self._stored is None or self._others is None:
            name = self._name
            ids = read_ids(self._js, self._stream, batch=self._batch, name=name, everyone=self._foreign)
            of_batch = pc.starts_with(ids, name.batch_tag)
            ours = pc.starts_with(ids, name.tag)
            self._stored = ids.filter(pc.or_(ours, pc.invert(of_batch)))
            others = ids.filter(pc.and_(of_batch, pc.invert(ours)))
            # In the first execution the split is that of the stored rows.
            self._others = content_of_tagged(others) if self._batch.replayed else pa.array([], pa.string())
        return self._stored, self._others


def stream_info(js: jetarrow.sync.JetStream, stream: str) -> StreamInfo:
    """Return the info of the target; retries transient errors.

    Args:
        js: The context.
        stream: Name of the target.
    """
    info: StreamInfo = retry_transient(lambda: js.stream_info(stream))
    return info


def read_ids(
    js: jetarrow.sync.JetStream,
    stream: str,
    *,
    batch: BatchRecord,
    name: BatchName,
    everyone: bool = False,
) -> pa.Array:
    """Return the ids of the batch that are stored in the target since the batch began, each once.

    All messages are read: the target, or the account, may store them with other subjects than those of the rows.

    Args:
        js: The context.
        stream: Name of the target.
        batch: Record of the batch.
        name: Query and batch.
        everyone: Whether ids without the tag of the batch are returned too. Default: False.

    Raises:
        Error: The target has lost messages since.
    """
    state = stream_info(js, stream).state
    start, end = batch.before + 1, state.last_seq + 1
    if state.first_seq > start and end > start:
        raise _gone(stream, name, start)
    found: list[pa.Array] = []
    if start < end:
        given: dict[str, Any] = {"start_seq": start, "end_seq": end, "columns": ["headers"]}
        reader = retry_transient(lambda: RangeReader(js, stream, **given))
        try:
            while (item := reader.next()) is not None:
                if isinstance(item, Loss):
                    raise _gone(stream, name, item.asked[0])
                ids = message_ids(pa.record_batch(item).column("headers"))
                found.append(ids if everyone else ids.filter(pc.starts_with(ids, name.batch_tag)))
        finally:
            reader.close()
    # Ids may occur twice, if a task was suspended for longer than the duplicate window.
    return pc.unique(pa.concat_arrays([pa.array([], pa.string()), *found]))


def changed(name: BatchName, how: str) -> Error:
    """Return the error of a batch whose rows are not those of an earlier attempt.

    Args:
        name: Query, batch and partition.
        how: The difference.
    """
    return Error(
        f"jetstream: batch {name.batch}, partition {name.partition} of this query has changed since an earlier"
        f" attempt: {how}; exactlyOnce=state needs deterministic rows (no rand(), no current_timestamp()); delete the"
        f" keys of {name.query!r} in the sinkState bucket to write all of the batch again"
    )


def _gone(stream: str, name: BatchName, first: int) -> Error:
    return Error(
        f"jetstream: could not replay batch {name.batch}: stream {stream!r} has lost messages from {first} on since"
        f" the batch began, so its stored rows are unknown; delete the keys of {name.query!r} in the sinkState bucket"
        " to write all of them again"
    )


def content_of_tagged(ids: pa.Array) -> pa.Array:
    """Return the content of tagged ids: without batch, partition and the number among equal rows.

    Args:
        ids: Ids of one batch.
    """
    # The tag is `<batch>-<partition>-`; a hash may contain "-" as well.
    return _content(pc.replace_substring_regex(ids, r"^[0-9a-f]+-[0-9]+-", ""))


def _content(ids: pa.Array) -> pa.Array:
    """Return ids without the number among rows of equal content, `.n`."""
    return pc.replace_substring_regex(ids, r"\.[0-9]+$", "")


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


def _total(ids: pa.Array) -> int:
    """Return a sum of hashes of ids, which is independent of their order."""
    texts = (one.encode() for one in ids.to_pylist() if one is not None)
    return sum(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") for text in texts)
